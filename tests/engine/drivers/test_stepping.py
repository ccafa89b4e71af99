"""Stepped sessions: the engine makes exactly the steps that are requested, with their inputs before them."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import pytest

from reactor_runtime.authoring.events.messages import CommandError
from reactor_runtime.authoring.styles.app import ApplicationError, ReactorApp
from reactor_runtime.authoring.styles.pipeline import ReactorPipeline
from reactor_runtime.authoring.tracks.tracks import Output, Video
from reactor_runtime.interface import (
    Idle,
    Input,
    InputField,
    InputState,
    ModelMessage,
    StepCompleted,
    StepOutcome,
    connected,
    disconnected,
    event,
)
from reactor_runtime.testing import PipelineExecutor
from reactor_runtime.testing.executor import StepsResult


class Picture(Output):
    video: Video


class Camera(Input):
    camera: Video


class Dial(InputState):
    level: int = InputField(default=3, ge=0, le=9)
    _made: int = 0


class Made(ModelMessage):
    number: int


def gray(level: int) -> np.ndarray[Any, Any]:
    return np.full((2, 2, 3), level, np.uint8)


class Dials(ReactorPipeline):
    """Show the level and a random number; count steps."""

    state: Dial
    input: Camera
    output: Picture

    def load(self, _config: Any) -> None:
        self.calls: list[str] = []

    @connected
    def begin(self) -> None:
        self.calls.append("connected")

    @disconnected
    def left(self) -> None:
        self.calls.append("disconnected")

    async def inference(self) -> AsyncIterator[Any]:
        while True:
            self.state._made += 1
            await self.send(Made(number=self.state._made))
            seen = self.input.camera.try_read(1)
            noise = random.randrange(4)
            yield gray(int(seen[0][0, 0, 0]) if seen else self.state.level * 10 + noise)

    @event(name="raise_level")
    def raise_level(self, by: int = InputField(ge=1, le=3)) -> Made:
        self.state.level += by
        return Made(number=self.state.level)

    @event(name="refuse")
    def refuse(self) -> None:
        raise CommandError("too_late", "the show is over")


def levels(result: StepsResult) -> list[int]:
    return [int(frame.array[0, 0, 0]) // 10 for frame in result.frames]


@pytest.fixture
def executor() -> Iterator[PipelineExecutor[Dials]]:
    with PipelineExecutor(Dials) as executor:
        executor.connect(stepped=True)
        yield executor


def test_exactly_the_requested_steps_are_made_and_none_without_a_request(executor: PipelineExecutor[Dials]) -> None:
    executor.run(1.0)
    assert executor.frames == []
    result = executor.step(3)
    assert (result.step, levels(result)) == (3, [3, 3, 3])
    assert [message.data["number"] for message in result.messages] == [1, 2, 3]
    executor.run(1.0)
    assert (executor.step().step, executor.state._made) == (4, 4)
    assert executor.step(0).frames == []


def test_state_comes_before_commands_and_both_before_the_steps(executor: PipelineExecutor[Dials]) -> None:
    result = executor.step(2, state={"level": 5}, commands=[("raise_level", {"by": 2}), ("raise_level", {"by": 1})])
    assert levels(result) == [8, 8]
    assert [(message.data["number"]) for message in result.messages] == [7, 8, 1, 2]
    assert [frame.applied for frame in result.frames] == [3, 3]


def test_frames_of_a_request_are_read_in_its_first_step(executor: PipelineExecutor[Dials]) -> None:
    result = executor.step(2, media={"camera": [gray(70), gray(90)]})
    assert levels(result)[0] == 9
    assert levels(result)[1] == 3


def test_a_seed_makes_the_same_frames_from_a_fresh_state(executor: PipelineExecutor[Dials]) -> None:
    def episode(seed: int) -> bytes:
        first = executor.step(5, seed=seed)
        second = executor.step(5, state={"level": 7})
        assert (first.step, second.step) == (5, 10)
        frames = [*first.frames, *second.frames]
        assert [frame.due_s for frame in frames] == pytest.approx([number / 30 for number in range(10)])
        return b"".join(frame.array.tobytes() for frame in frames)

    assert episode(4) == episode(4) != episode(5)


def test_a_reset_calls_the_hooks_and_keeps_what_waits_behind_it(executor: PipelineExecutor[Dials]) -> None:
    executor.step(state={"level": 9})
    assert levels(executor.step(reset=True)) == [3]
    assert executor.model.calls == ["connected", "disconnected", "connected"]
    seqs = [frame.seq for frame in executor.step(2).frames]
    assert seqs == [2, 3]


@pytest.mark.parametrize(
    ("inputs", "code", "message"),
    [
        ({"state": {"level": 10}}, "invalid_event", "state.level: 10 is above 9"),
        ({"state": {"lvl": 1}}, "invalid_event", "state.lvl: clients can't set the state field 'lvl'"),
        ({"state": {"_made": 1}}, "invalid_event", "state._made: clients can't set"),
        ({"commands": [("raise_level", {})]}, "invalid_event", "commands[0].data.by: missing"),
        ({"commands": [("raise_level", {"by": 9})]}, "invalid_event", "commands[0].data.by: 9 is above 3"),
        ({"commands": [("lower", {})]}, "unknown_event", "commands[0]: the model has no event 'lower'"),
    ],
)
def test_a_wrong_value_is_named_by_its_path_and_nothing_changes(
    executor: PipelineExecutor[Dials], inputs: dict[str, Any], code: str, message: str
) -> None:
    given = {**inputs, "commands": [*inputs.get("commands", []), ("raise_level", {"by": 1})]}
    with pytest.raises(CommandError) as refused:
        executor.step(2, **given)
    assert (refused.value.code, executor.state.level, executor.state._made) == (code, 3, 0)
    assert refused.value.message.startswith(message)
    assert executor.step().step == 1


def test_a_failed_command_skips_the_rest_and_keeps_what_was_applied(executor: PipelineExecutor[Dials]) -> None:
    up: dict[str, Any] = {"by": 1}
    commands: list[tuple[str, dict[str, Any]]] = [("raise_level", up), ("refuse", {}), ("raise_level", up)]
    with pytest.raises(CommandError, match=r"commands\[1\]: the show is over") as refused:
        executor.step(commands=commands)
    assert (refused.value.code, executor.state.level, executor.state._made) == ("command_failed", 4, 0)


def test_events_between_requests_are_handled_at_once(executor: PipelineExecutor[Dials]) -> None:
    executor.send_event("set_level", level=6)
    assert executor.state._made == 0
    assert levels(executor.step()) == [6]


def test_an_exception_of_a_step_is_raised_and_ends_the_session() -> None:
    class Failing(Dials):
        async def inference(self) -> AsyncIterator[Any]:
            yield gray(1)
            raise ZeroDivisionError("here")

    with PipelineExecutor(Failing) as executor:
        executor.connect(stepped=True)
        executor.step()
        with pytest.raises(ZeroDivisionError, match="here"):
            executor.step()
        executor.connect(stepped=True)
        assert executor.step().step == 1


def test_idle_is_a_step_without_a_frame_and_without_a_pause() -> None:
    class Idling(Dials):
        def inference(self) -> Iterator[Any]:  # type: ignore[override]
            while True:
                yield Idle

    with PipelineExecutor(Idling) as executor:
        executor.connect(stepped=True)
        began = executor.clock.now()
        result = executor.step(5)
        assert (result.step, result.frames, executor.clock.now()) == (5, [], began)


def test_a_generator_that_ends_is_started_again_for_the_next_step() -> None:
    class Short(Dials):
        def inference(self) -> Iterator[Any]:  # type: ignore[override]
            self.state._made += 1
            yield gray(self.state._made * 10)

    with PipelineExecutor(Short) as executor:
        executor.connect(stepped=True)
        assert levels(executor.step(3)) == [1, 2, 3]


def test_a_generator_that_yields_nothing_makes_no_step() -> None:
    class Empty(Dials):
        def inference(self) -> Iterator[Any]:  # type: ignore[override]
            yield from ()

    with PipelineExecutor(Empty) as executor:
        executor.connect(stepped=True)
        with pytest.raises(CommandError, match="ended without yielding anything"):
            executor.step()


def test_new_code_makes_the_steps_after_a_reload(executor: PipelineExecutor[Dials]) -> None:
    class Brighter(Dials):
        def inference(self) -> Iterator[Any]:  # type: ignore[override]
            while True:
                self.state._made += 1
                yield gray(self.state.level * 10 + 100)

    assert levels(executor.step(2, state={"level": 4})) == [4, 4]
    executor.reload(Brighter)
    result = executor.step(2)
    assert (result.step, levels(result), executor.state._made) == (4, [14, 14], 4)


class App(ReactorApp):
    state: Dial
    output: Picture

    async def process_input(self) -> int:
        if self.state.level == 0:
            raise ApplicationError("no level")
        return self.state.level

    def generate(self, level: int) -> Picture:
        return Picture(video=np.stack([gray(level * 10)] * 3))


def test_an_app_steps_and_its_refusal_is_no_step() -> None:
    with PipelineExecutor(App) as executor:
        executor.connect(stepped=True)
        result = executor.step(2)
        assert (result.step, levels(result)) == (2, [3] * 6)
        with pytest.raises(CommandError, match="no level") as refused:
            executor.step(2, state={"level": 0})
        assert (refused.value.code, executor.state.level) == ("refused", 0)
        assert executor.step(state={"level": 1}).step == 3


def test_frames_are_due_at_the_rate_of_the_model_however_long_a_step_takes() -> None:
    class Slow(App):
        async def process_output(self, outcome: StepOutcome) -> StepCompleted:
            return StepCompleted(output=outcome.to_output(), elapsed=60.0)

    with PipelineExecutor(Slow) as executor:
        executor.connect(stepped=True)
        frames = executor.step(2).frames
        assert [round(frame.due_s, 3) for frame in frames] == [0.0, 0.033, 0.067, 0.1, 0.133, 0.167]


def test_offline_steps_are_those_of_a_session_that_is_iterated() -> None:
    with PipelineExecutor(Dials) as executor:
        executor.connect()
        random.seed(8)
        iterated = [next(executor).output for _ in range(20)]
        executor.disconnect()
        executor.connect(stepped=True)
        stepped = executor.step(20, seed=8).frames
    assert [int(frame[0, 0, 0]) for frame in iterated] == [int(frame.array[0, 0, 0]) for frame in stepped]
