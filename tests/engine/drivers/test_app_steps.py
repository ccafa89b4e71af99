"""The steps of a `ReactorApp`: process_input, generate, process_output, and then the frames."""

from __future__ import annotations

import asyncio
import itertools
import logging
from typing import Any

import numpy as np
import pytest

from reactor_runtime import (
    ApplicationError,
    Input,
    ModelMessage,
    Output,
    ReactorApp,
    StepCompleted,
    StepOutcome,
    Video,
    event,
)
from reactor_runtime.authoring.code.source import attached_location
from reactor_runtime.ipc.messages import MessageSent
from tests.engine.rig import Bright, Picture, Rig, batch, frame
from tests.fakes import settle


class Made(ModelMessage):
    number: int


class App(ReactorApp):
    """The least an app needs; `rig` lets time pass within a step."""

    state: Bright
    output: Picture
    rig: Rig

    def load(self, config: dict[str, Any]) -> None:  # noqa: ARG002  (the signature authors write)
        self.log: list[Any] = []

    def generate(self, input: Any) -> Any:  # noqa: ARG002
        return Picture(video=frame(7))


def rig_of(model: type[ReactorApp]) -> Rig:
    rig = Rig(model)
    rig.model.rig = rig
    return rig


async def test_a_step_calls_the_three_methods_and_its_frames_follow_its_messages() -> None:
    class Logging(App):
        async def process_input(self) -> Any:
            self.log.append("input")
            return self.state.brightness

        def generate(self, input: float) -> Any:
            self.log.append(("generate", input))
            return len(self.log)

        async def process_output(self, outcome: StepOutcome) -> Any:
            self.log.append(("output", outcome.result, outcome.error))
            await self.send(Made(number=outcome.result))
            return Picture(video=frame(outcome.result))

    rig = rig_of(Logging)
    async with rig.running():
        await rig.play(0.02)
        assert rig.model.log[:4] == ["input", ("generate", 1.0), ("output", 2, None), "input"]
        sent = [each for each in rig.sink.everything if isinstance(each, MessageSent)]
        first = rig.sink.everything.index(sent[0])
        assert rig.sink.everything[first + 1] is rig.sink.shown[0].bundle
        assert rig.sink.reds[:1] == [2]


async def test_the_input_is_the_state_by_default() -> None:
    class Default(App):
        def generate(self, input: Bright) -> Any:
            self.log.append(input)
            return Picture(video=frame(int(input.brightness)))

    rig = rig_of(Default)
    async with rig.running():
        await rig.play(0.1)
        assert rig.model.log[0] is rig.model.state


async def test_the_input_is_none_without_a_state() -> None:
    class Stateless(ReactorApp):
        output: Picture
        given: Any = "nothing yet"

        def generate(self, input: Any) -> Any:
            self.given = input
            return Picture(video=frame(1))

    rig = Rig(Stateless)
    async with rig.running():
        await rig.play(0.1)
        assert rig.model.given is None


class Paused(App):
    async def process_input(self) -> Any:
        self.log.append(self.rig.clock.now())
        if self.state.prompt:
            raise ApplicationError(self.state.prompt)
        return None

    @event(name="nothing")
    def nothing(self) -> None: ...


async def test_a_refused_step_is_tried_again_a_hundred_times_a_second_and_no_more() -> None:
    rig = rig_of(Paused)
    async with rig.running():
        rig.event("set_prompt", prompt="paused")
        await rig.play(0.5)
        rig.model.log.clear()
        await rig.play(1.0)
        assert 95 <= len(rig.model.log) <= 101


async def test_an_event_makes_a_refused_step_be_tried_again_at_once() -> None:
    rig = rig_of(Paused)
    async with rig.running():
        rig.event("set_prompt", prompt="paused")
        await rig.play(0.5)
        rig.model.log.clear()
        await rig.clock.advance(0.001)
        rig.event("nothing")
        await settle()
        assert len(rig.model.log) == 1
        rig.event("set_prompt", prompt="")
        frames = len(rig.sink.shown)
        await settle()
        assert len(rig.sink.shown) > frames


async def test_a_frame_of_a_client_makes_a_refused_step_be_tried_again() -> None:
    class Cameras(Input):
        camera: Video

    class Looking(App):
        input: Cameras

        async def process_input(self) -> Any:
            self.log.append(self.rig.clock.now())
            frames = self.input.camera.try_read()
            if frames is None:
                raise ApplicationError("no frame yet")
            return frames[0]

        def generate(self, input: Any) -> Any:
            return Picture(video=input)

    rig = rig_of(Looking)
    async with rig.running():
        await rig.clock.advance(0.001)
        rig.model.log.clear()
        rig.inputs.push_array("camera", frame(9))
        await settle()
        assert rig.model.log
        assert rig.sink.reds[:1] == [9]


async def test_a_change_of_the_reason_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "reactor_runtime.engine.session")
    rig = rig_of(Paused)
    async with rig.running():
        for reason in ("paused", "no image", "", "paused"):
            rig.event("set_prompt", prompt=reason)
            await rig.play(0.1)
    reasons = [record.getMessage().partition(": ")[2] for record in caplog.records if "skips" in record.getMessage()]
    assert reasons == ["paused", "no image", "paused"]
    assert all(record.levelno == logging.DEBUG for record in caplog.records)


async def test_a_refusal_without_a_reason_is_logged_by_its_name(caplog: pytest.LogCaptureFixture) -> None:
    class NotYet(ApplicationError):
        def __init__(self) -> None: ...

    class Waiting(App):
        async def process_input(self) -> Any:
            raise NotYet

    caplog.set_level(logging.DEBUG, "reactor_runtime.engine.session")
    rig = rig_of(Waiting)
    async with rig.running():
        await rig.play(0.1)
        assert rig.session.refusal == "NotYet"
    assert [record.getMessage() for record in caplog.records] == ["the model skips steps id=s-1: NotYet"]


class Failing(App):
    def generate(self, input: Any) -> Any:  # noqa: ARG002
        raise RuntimeError("CUDA error")


async def test_an_exception_of_generate_that_process_output_handles_changes_nothing() -> None:
    class Handling(Failing):
        async def process_output(self, outcome: StepOutcome) -> Any:
            assert outcome.result is None
            self.log.append(str(outcome.error))

    rig = rig_of(Handling)
    async with rig.running():
        await rig.play(0.1)
        assert set(rig.model.log) == {"CUDA error"}
        assert not rig.sink.shown
        assert not rig.session.crashed


async def test_an_exception_that_leaves_process_output_is_a_crash() -> None:
    rig = rig_of(Failing)
    rig.start()
    error = await rig.failure()
    assert str(error) == "CUDA error"
    assert rig.session.crashed


async def test_an_exception_of_process_input_is_no_crash() -> None:
    class Wrong(App):
        async def process_input(self) -> Any:
            raise KeyError("prompt")

    rig = rig_of(Wrong)
    rig.start()
    assert isinstance(await rig.failure(), KeyError)
    assert not rig.session.crashed


async def test_the_end_of_a_session_in_process_output_is_no_crash() -> None:
    class Waiting(App):
        async def process_output(self, outcome: StepOutcome) -> Any:  # noqa: ARG002
            await asyncio.Event().wait()

    rig = rig_of(Waiting)
    async with rig.running():
        await rig.play(0.1)
    assert not rig.session.crashed


async def test_an_output_that_cannot_be_shown_fails_at_the_return_of_process_output() -> None:
    class Floats(App):
        async def process_output(self, outcome: StepOutcome) -> Any:  # noqa: ARG002
            return Picture(video=np.zeros((4, 4, 3)))  # floats

    rig = rig_of(Floats)
    rig.start()
    error = await rig.failure()
    assert "frames are uint8" in str(error)
    where = attached_location(error)
    assert where is not None
    assert "# floats" in where.text


async def test_an_output_that_cannot_be_shown_fails_at_the_return_of_generate_without_process_output() -> None:
    class Floats(App):
        def generate(self, input: Any) -> Any:  # noqa: ARG002
            return Picture(video=np.zeros((4, 4, 3)))  # of generate

    rig = rig_of(Floats)
    rig.start()
    where = attached_location(await rig.failure())
    assert where is not None
    assert "# of generate" in where.text


async def test_no_handler_runs_within_a_step() -> None:
    class Slow(App):
        async def process_input(self) -> Any:
            self.log.append("begin")
            await asyncio.sleep(0)
            return None

        async def process_output(self, outcome: StepOutcome) -> Any:
            self.rig.event("set_prompt", prompt="within")
            await asyncio.sleep(0)
            self.log.append(self.state.prompt)
            return outcome.to_output()

    rig = rig_of(Slow)
    async with rig.running():
        await rig.play(0.02)
        assert rig.model.log[:3] == ["begin", "", "begin"]
        assert rig.model.state.prompt == "within"


class Chunks(App):
    """Chunks of 12 frames, which take 0.5 s, and what the input takes."""

    buffer_size = 1

    async def process_input(self) -> Any:
        self.rig.clock.spend(self.state.brightness)
        return None

    def generate(self, input: Any) -> Any:  # noqa: ARG002
        self.rig.clock.spend(0.5)
        return Picture(video=np.repeat(batch(1), 12, axis=0))


async def test_the_rate_follows_the_time_of_a_step() -> None:
    rig = rig_of(Chunks)
    async with rig.running():
        rig.event("set_brightness", brightness=0.1)
        await rig.play(12.0)
        assert rig.runtime.output_buffer.fps == pytest.approx(20, rel=0.02)


async def test_waiting_for_an_input_does_not_lower_the_rate() -> None:
    class Camera(Input):
        camera: Video

    class Reading(App):
        input: Camera

        async def process_input(self) -> Any:
            [frame] = await self.input.camera.read()
            return frame

        def generate(self, input: Any) -> Any:
            self.rig.clock.spend(0.05)
            return Picture(video=input)

    rig = rig_of(Reading)
    async with rig.running():
        for _ in range(12):
            rig.inputs.push_array("camera", frame(1))
            await rig.play(0.5)
        assert rig.runtime.output_buffer.fps == pytest.approx(20, rel=0.02)


async def test_a_declared_rate_holds_however_long_the_input_takes() -> None:
    class Preparing(App):
        fps = 10

        async def process_input(self) -> Any:
            self.rig.clock.spend(0.03)

        def generate(self, input: Any) -> Any:  # noqa: ARG002
            self.rig.clock.spend(0.05)
            return Picture(video=frame(1))

    rig = rig_of(Preparing)
    async with rig.running():
        await rig.play(6.0)
        dues = [shown.bundle.due for shown in rig.sink.shown[20:]]
    gaps = [second - first for first, second in itertools.pairwise(dues[:-1])]
    assert gaps == pytest.approx([0.1] * len(gaps))
    assert gaps


async def test_chunks_larger_than_the_buffer_leave_no_gap() -> None:
    rig = rig_of(Chunks)
    async with rig.running():
        rig.event("set_brightness", brightness=0.0)
        await rig.play(8.0)
        dues = [shown.bundle.due for shown in rig.sink.shown[60:]]
    gaps = [second - first for first, second in itertools.pairwise(dues[:-1])]
    assert max(gaps) < 1.1 * min(gaps)


async def test_a_completed_step_gives_its_own_duration() -> None:
    class Completed(App):
        async def process_output(self, outcome: StepOutcome) -> Any:
            return StepCompleted(output=outcome.to_output(), files={"a.txt": b"a"}, elapsed=0.05)

    rig = rig_of(Completed)
    async with rig.running():
        await rig.play(2.0)
        assert rig.runtime.output_buffer.fps == pytest.approx(20, rel=0.02)


async def test_a_completed_step_reports_its_error_and_the_session_continues(caplog: pytest.LogCaptureFixture) -> None:
    class Completed(App):
        async def process_output(self, outcome: StepOutcome) -> Any:
            return StepCompleted(output=outcome.to_output(), error=ValueError("no depth"))

    rig = rig_of(Completed)
    async with rig.running():
        await rig.play(0.2)
        assert len(rig.sink.shown) > 1
    assert "a step reports an error: no depth" in caplog.text


async def test_waiting_for_room_in_process_output_does_not_lower_the_rate() -> None:
    class Emitting(App):
        async def process_output(self, outcome: StepOutcome) -> Any:  # noqa: ARG002
            self.rig.clock.spend(0.05)
            await self.emit(Picture(video=batch(1, 2)))
            return Picture(video=batch(3, 4))

    rig = rig_of(Emitting)
    async with rig.running():
        await rig.play(4.0)
        assert rig.sink.reds[:8] == [1, 2, 3, 4] * 2
        assert rig.runtime.output_buffer.fps == pytest.approx(40, rel=0.02)


async def test_an_outcome_has_the_duration_of_generate() -> None:
    class Timed(App):
        def generate(self, input: Any) -> Any:  # noqa: ARG002
            raise RuntimeError

        async def process_output(self, outcome: StepOutcome) -> Any:
            self.log.append(outcome.elapsed)

    rig = rig_of(Timed)
    async with rig.running():
        await rig.play(0.02)
    assert all(elapsed >= 0 for elapsed in rig.model.log)
    assert rig.model.log


class Voice(Output):
    video: Video


async def test_a_loop_completes_its_steps() -> None:
    class Loop(ReactorApp):
        output: Voice
        fps = 10

        async def run(self) -> None:
            await self.connected.wait()
            await self.complete_step(StepCompleted())
            await self.complete_step(StepCompleted(output=Voice(video=frame(5)), elapsed=0.1))
            await asyncio.Event().wait()

    rig = Rig(Loop)
    async with rig.running():
        await rig.play(0.2)
        assert rig.sink.reds == [5]


async def test_the_bound_of_the_rate_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    class Fast(App):
        def generate(self, input: Any) -> Any:  # noqa: ARG002
            self.rig.clock.spend(0.1)
            return Picture(video=np.repeat(batch(1), 12, axis=0))

    caplog.set_level(logging.INFO, "reactor_runtime.engine.output.pace")
    rig = rig_of(Fast)
    async with rig.running():
        await rig.play(4.0)
        assert rig.runtime.output_buffer.fps == 60
    (line,) = [record.getMessage() for record in caplog.records if "max_fps" in record.getMessage()]
    assert line.startswith("the model makes more than max_fps=60 frames a second, and is shown at that rate")


async def test_chunks_of_a_loop_leave_no_gap() -> None:
    class Chunked(ReactorApp):
        buffer_size = 4
        output: Picture
        rig: Rig

        async def run(self) -> None:
            while True:
                await self.connected.wait()
                self.rig.clock.spend(0.5)
                await self.emit(Picture(video=np.repeat(batch(1), 12, axis=0)), compute_time=0.5)

    rig = rig_of(Chunked)
    rig.driver.start()
    async with rig.running():
        await rig.play(8.0)
        dues = [shown.bundle.due for shown in rig.sink.shown[60:]]
    await rig.driver.aclose()
    gaps = [second - first for first, second in itertools.pairwise(dues[:-1])]
    assert max(gaps) < 1.1 * min(gaps)
