"""A pipeline step by step."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import traceback
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import pytest

from reactor_runtime.interface import CommandError, Idle, PipelineExecutor, StepResult, connected, disconnected, event
from reactor_runtime.testing import Message
from reactor_runtime.testing.executor import copy_output
from tests.testing.models import Blinker, Counter, Level, Picture, Step, frame
from tests.torched import torch


def red(step: StepResult) -> int:
    return int(step.output.video.flat[0])


def test_a_step_result_has_output_compute_time_and_messages() -> None:
    with PipelineExecutor(Counter, config={"frames": 3}) as executor:
        executor.connect()
        step = next(executor)
    assert isinstance(step.output, Picture)
    assert step.output.video.shape == (3, 2, 2, 3)
    assert 0 <= step.compute_time < 1
    assert step.messages == [Message("step", {"number": 1})]


def test_each_next_is_one_step() -> None:
    with PipelineExecutor(Counter) as executor:
        executor.connect()
        for number in range(1, 30):
            assert next(executor).messages == [Message("step", {"number": number})]
            assert executor.state._steps == number


def test_an_event_is_handled_at_once_and_seen_by_the_next_step() -> None:
    with PipelineExecutor(Counter) as executor:
        executor.connect()
        assert red(next(executor)) == 1
        assert executor.send_event("set_level", level=4.0) is None
        assert (executor.state.level, executor.state._steps) == (4, 1)
        assert executor.send_event("double") == Step(number=8)
        step = next(executor)
    assert red(step) == 8
    assert [message.data["number"] for message in step.messages] == [-1, 2]


@pytest.mark.parametrize(
    ("event", "data", "message"),
    [
        ("set_level", {"level": 10}, "set_level.level: 10 is above 9"),
        ("set_level", {}, "set_level.level"),
        ("set_level", {"level": 1, "more": 2}, "more"),
        ("set_level", {"level": float("nan")}, "nan"),
        ("set_level", {"level": object()}, "level"),
        ("set_lvel", {"level": 1}, "no event 'set_lvel'; it has: break, double, refuse, set_level"),
    ],
)
def test_a_wrong_event_is_a_value_error_and_changes_nothing(event: str, data: dict[str, Any], message: str) -> None:
    with PipelineExecutor(Counter) as executor:
        executor.connect()
        with pytest.raises(ValueError, match=message):
            executor.send_event(event, **data)
        assert executor.state == Level()


def test_an_exception_of_a_handler_is_raised_and_the_session_continues() -> None:
    with PipelineExecutor(Counter) as executor:
        executor.connect()
        with pytest.raises(CommandError, match="full: no more"):
            executor.send_event("refuse")
        with pytest.raises(KeyError, match="broken") as raised:
            executor.send_event("break")
        assert red(next(executor)) == 1
    assert traceback.extract_tb(raised.value.__traceback__)[-1].line == 'raise KeyError("broken")'


def test_an_exception_of_inference_is_raised_with_the_author_s_line_and_ends_the_session() -> None:
    class Failing(Counter):
        def inference(self) -> Iterator[Any]:
            yield frame(1)
            raise ZeroDivisionError("here")

    with PipelineExecutor(Failing) as executor:
        executor.connect()
        next(executor)
        with pytest.raises(ZeroDivisionError, match="here") as raised:
            next(executor)
        assert traceback.extract_tb(raised.value.__traceback__)[-1].line == 'raise ZeroDivisionError("here")'
        with pytest.raises(RuntimeError, match=r"call connect\(\) first"):
            next(executor)
        executor.connect()
        assert next(executor).output.flat[0] == 1


def test_a_payload_that_cannot_be_shown_is_raised_as_at_the_yield() -> None:
    class Wrong(Counter):
        def inference(self) -> Iterator[Any]:
            yield np.zeros((2, 2, 3))

    with PipelineExecutor(Wrong) as executor:
        executor.connect()
        with pytest.raises(TypeError, match="video: got float64"):
            next(executor)


def test_the_state_is_fresh_for_each_client() -> None:
    with PipelineExecutor(Counter) as executor:
        for _ in range(3):
            executor.connect()
            assert executor.state == Level()
            executor.send_event("set_level", level=5)
            assert red(next(executor)) == 5
            executor.disconnect()
        with pytest.raises(RuntimeError, match=r"connect\(\)"):
            _ = executor.state


def test_a_generator_that_ends_is_started_again_with_the_same_state() -> None:
    class Short(Counter):
        def inference(self) -> Iterator[Any]:
            self.state._steps += 1
            yield frame(self.state._steps)

    with PipelineExecutor(Short) as executor:
        executor.connect()
        assert [int(next(executor).output.flat[0]) for _ in range(5)] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("nothing", [None, Idle, Idle()], ids=["None", "Idle", "Idle()"])
def test_an_idle_step_has_no_output(nothing: object) -> None:
    class Idling(Counter):
        def inference(self) -> Iterator[Any]:
            while True:
                yield nothing

    with PipelineExecutor(Idling) as executor:
        executor.connect()
        assert [next(executor).output for _ in range(3)] == [None, None, None]
        assert executor.clock.now() == pytest.approx(1000.02)


def test_an_async_generator_is_stepped_and_its_waiting_takes_no_time() -> None:
    class Sleepy(Counter):
        async def inference(self) -> AsyncIterator[Any]:  # type: ignore[override]
            while True:
                await asyncio.sleep(50)
                yield frame(self.state.level)

    with PipelineExecutor(Sleepy) as executor:
        executor.connect()
        for _ in range(20):
            next(executor)
        assert executor.clock.now() == pytest.approx(2000, abs=1)


def test_the_same_events_at_the_same_steps_give_the_same_outputs() -> None:
    def played() -> list[Any]:
        said: list[Any] = []
        with PipelineExecutor(Counter, config={"frames": 7}) as executor:
            executor.connect()
            for number in range(40):
                if number % 3 == 0:
                    executor.send_event("set_level", level=number % 10)
                step = next(executor)
                frames = [(shown.due_s, shown.seq, shown.applied, shown.array.tolist()) for shown in executor.frames]
                said.append((step.output.video.tolist(), step.messages, frames))
        return said

    assert played() == played()


def test_outputs_do_not_change_when_the_author_reuses_the_array() -> None:
    class Reusing(Counter):
        def inference(self) -> Iterator[Any]:
            array = frame(0)
            while True:
                array += 1
                yield Picture(video=array)

    with PipelineExecutor(Reusing) as executor:
        executor.connect()
        assert [red(step) for step in [next(executor) for _ in range(3)]] == [1, 2, 3]


def test_frames_are_due_on_the_schedule_and_say_which_events_they_show() -> None:
    with PipelineExecutor(Counter, config={"frames": 2}) as executor:
        executor.connect()
        executor.run(0.35)
        executor.send_event("set_level", level=3)
        executor.run(1)
        frames = executor.frames
    assert [shown.due_s for shown in frames] == pytest.approx([number / 10 for number in range(len(frames))])
    assert [shown.seq for shown in frames] == list(range(len(frames)))
    assert {(shown.applied, int(shown.array.flat[0])) for shown in frames} == {(0, 1), (1, 3)}
    assert 14 <= len(frames) <= 18


def test_a_pipeline_steps_as_often_as_its_frames_need() -> None:
    with PipelineExecutor(Counter) as executor:
        executor.connect()
        executor.run(2)
        assert 20 <= executor.state._steps <= 24


def test_frames_flushed_before_they_are_due_are_not_listed() -> None:
    class Cutting(Counter):
        @event(name="cut")
        def cut(self) -> None:
            self.output_buffer.flush()

        def inference(self) -> Iterator[Any]:
            yield np.stack([frame(1), frame(2), frame(3)])
            yield Idle

    with PipelineExecutor(Cutting) as executor:
        executor.connect()
        next(executor)
        assert [int(shown.array.flat[0]) for shown in executor.frames] == [1, 2, 3]
        executor.send_event("cut")
        assert [(shown.due_s, int(shown.array.flat[0])) for shown in executor.frames] == [(0.0, 0)]


def test_a_model_that_cuts_at_every_step_lets_time_pass() -> None:
    class Cutting(Counter):
        def inference(self) -> Iterator[Any]:
            while True:
                yield frame(1)
                self.output_buffer.flush()

    with PipelineExecutor(Cutting) as executor:
        executor.connect()
        executor.run(0.01)
        assert executor.clock.now() == pytest.approx(1000.01)


def test_a_model_that_never_yields_is_given_up_on() -> None:
    class Waiting(Counter):
        async def inference(self) -> AsyncIterator[Any]:  # type: ignore[override]
            await asyncio.Event().wait()
            yield frame(1)

    with PipelineExecutor(Waiting) as executor:
        executor.connect()
        with pytest.raises(RuntimeError, match=r"waited 60 s of the model's time for inference\(\) to yield"):
            next(executor)
        executor.disconnect()


def test_hooks_come_in_pairs_and_their_exceptions_are_raised() -> None:
    class Hooked(Counter):
        @connected
        async def greet(self) -> None:
            await asyncio.sleep(1)
            self.calls = ["connected"]

        @disconnected
        def part(self) -> None:
            raise OSError("parting")

    with PipelineExecutor(Hooked) as executor:
        executor.connect()
        assert executor.model.calls == ["connected"]
        with pytest.raises(OSError, match="parting"):
            executor.disconnect()
        executor.connect()


def test_two_models_in_one_process_share_nothing() -> None:
    class Other(Counter):
        def inference(self) -> Iterator[Any]:
            while True:
                yield frame(100 + self.state.level)

    with PipelineExecutor(Counter) as one, PipelineExecutor(Other) as other:
        one.connect()
        other.connect()
        one.send_event("set_level", level=2)
        assert [red(next(one)), int(next(other).output.flat[0]), red(next(one))] == [2, 101, 2]
        assert len(other.messages) == 0


def test_threads_of_the_author_s_are_waited_for_and_none_is_left() -> None:
    class Threaded(Counter):
        async def inference(self) -> AsyncIterator[Any]:  # type: ignore[override]
            while True:
                yield await asyncio.to_thread(frame, self.state.level)

    before = threading.active_count()
    with PipelineExecutor(Threaded) as executor:
        executor.connect()
        assert [int(next(executor).output.flat[0]) for _ in range(10)] == [1] * 10
        assert executor.clock.now() < 1001
    assert threading.active_count() == before


def test_closing_ends_the_session_and_every_task() -> None:
    closed: list[str] = []

    class Closing(Counter):
        def inference(self) -> Iterator[Any]:
            task = asyncio.get_running_loop().create_task(self.linger())
            try:
                while True:
                    assert not task.done()
                    yield frame(self.state.level)
            finally:
                closed.append(f"inference {self.state.level}")

        async def linger(self) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(1)
                closed.append("task")

    with PipelineExecutor(Closing) as executor:
        executor.connect()
        next(executor)
    executor.close()
    assert closed == ["inference 1", "task"]
    with pytest.raises(RuntimeError, match="is closed"):
        executor.connect()


def test_a_studio_that_is_not_closed_ends_when_it_is_collected() -> None:
    closed: list[int] = []

    class Closing(Counter):
        def inference(self) -> Iterator[Any]:
            try:
                while True:
                    yield frame(self.state.level)
            finally:
                closed.append(self.state.level)

    executor = PipelineExecutor(Closing)
    executor.connect()
    next(executor)
    del executor
    gc.collect()
    assert closed == [1]


def test_a_studio_collected_while_another_loop_runs_is_closed_without_a_warning(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    async def drop() -> None:
        executors.clear()

    executors = [PipelineExecutor(Counter)]
    executors[0].connect()
    next(executors[0])
    loop = executors[0]._loop
    asyncio.run(drop())
    gc.collect()
    assert loop.is_closed()
    del loop  # which holds what it ran
    gc.collect()
    assert capsys.readouterr() == ("", "")
    assert caplog.records == []


async def test_it_runs_inside_a_running_loop_which_continues_after_it() -> None:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    with PipelineExecutor(Counter) as executor:
        executor.connect()
        next(executor)
    assert (asyncio.get_running_loop(), asyncio.current_task()) == (loop, task)
    await asyncio.sleep(0)


def test_a_model_without_steps_is_refused() -> None:
    with pytest.raises(TypeError, match="Blinker has no steps"):
        PipelineExecutor(Blinker)


def test_an_exception_of_load_is_raised() -> None:
    class Unloaded(Counter):
        def load(self, config: dict[str, Any]) -> None:
            raise FileNotFoundError(f"no weights at {config['weights']}")

    with pytest.raises(FileNotFoundError, match="weights"):
        PipelineExecutor(Unloaded, config={"weights": "none.pt"})


def test_load_may_assign_inference() -> None:
    class Assigned(Counter):
        def load(self, config: dict[str, Any]) -> None:
            super().load(config)
            self.inference = lambda: iter([frame(7)]) and (frame(7) for _ in range(3))  # type: ignore[method-assign]

    with PipelineExecutor(Assigned) as executor:
        executor.connect()
        assert next(executor).output.flat[0] == 7


def test_connect_and_disconnect_are_in_turn() -> None:
    with PipelineExecutor(Counter) as executor:
        executor.disconnect()
        executor.connect()
        with pytest.raises(RuntimeError, match="connected already"):
            executor.connect()


def test_a_failing_session_is_logged_as_in_the_server(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Counter):
        @connected
        def greet(self) -> None:
            raise OSError("no camera")

    with caplog.at_level(logging.ERROR), PipelineExecutor(Failing) as executor:
        with pytest.raises(OSError, match="no camera"):
            executor.connect()
        assert "the session failed" in caplog.text


def test_a_copied_output_does_not_change_with_the_author_s_array() -> None:
    array, tensor = np.zeros(3), torch.zeros(3)
    copies = [
        copy_output(array),
        copy_output(tensor),
        copy_output(Picture(video=array)),
        copy_output(Picture(video=tensor)),
    ]
    array += 1
    tensor += 1
    assert [np.asarray(getattr(copy, "video", copy)).tolist() for copy in copies] == [[0, 0, 0]] * 4


def test_an_output_that_is_no_array_is_not_copied() -> None:
    assert copy_output("frame") == "frame"
