from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import pytest

from reactor_runtime.interface import Idle, ReactorPipeline, event
from reactor_runtime.ipc.messages import EventApplied, Flush, Started, StateChanged
from tests.engine.rig import Bright, Picture, Plain, Rig, batch, frame, iter_frames, log, rig_of
from tests.fakes import settle
from tests.timeouts import TIMEOUT_S


class Counting(Plain):
    def inference(self) -> Iterator[Any]:
        red = 0
        while True:
            yield frame(red)
            red += 1


class CountingAsync(Plain):
    async def inference(self) -> AsyncIterator[Any]:
        red = 0
        while True:
            await asyncio.sleep(0)
            yield Picture(video=frame(red))
            red += 1


@pytest.mark.parametrize("model", [Counting, CountingAsync], ids=["sync", "async"])
async def test_every_yield_is_a_frame_in_order_on_the_schedule(model: type[Plain]) -> None:
    rig = rig_of(model)
    async with rig.running():
        await rig.play(1.0)
    count = len(rig.sink.shown) - 1  # the last is the black one of the end
    assert rig.sink.reds[:-1] == list(range(count))
    assert [shown.bundle.due for shown in rig.sink.shown[:10]] == pytest.approx([1000 + n / 10 for n in range(10)])


async def test_a_batch_is_one_step_and_many_frames() -> None:
    class Batches(Plain):
        def inference(self) -> Iterator[Any]:
            while True:
                self.log.append("step")
                yield batch(1, 2, 3)

    rig = rig_of(Batches)
    async with rig.running():
        await rig.play(1.0)
        assert rig.sink.reds[:6] == [1, 2, 3, 1, 2, 3]
        assert len(log(rig)) == pytest.approx(len(rig.sink.reds) / 3, abs=1)


async def test_a_session_starts_with_its_state_and_ends_with_a_flush() -> None:
    rig = rig_of(Counting)
    async with rig.running():
        await rig.play(0.1)
    assert rig.sink.everything[0] == Started("s-1", 1000.0, {"brightness": 1.0, "prompt": ""})
    assert isinstance(rig.sink.everything[-2], Flush)


@pytest.mark.parametrize("nothing", [None, Idle, Idle()], ids=["None", "Idle", "Idle()"])
async def test_an_idle_model_is_stepped_a_hundred_times_a_second_and_no_more(nothing: object) -> None:
    class Idling(Plain):
        def inference(self) -> Iterator[Any]:
            while True:
                self.log.append(self.rig.clock.now())
                yield nothing

    rig = rig_of(Idling)
    async with rig.running():
        await rig.play(1.0)
        assert 95 <= len(log(rig)) <= 101
    assert not rig.sink.shown


async def test_an_event_wakes_an_idle_model_at_once() -> None:
    class Waiting(Plain):
        def inference(self) -> Iterator[Any]:
            while not self.state.prompt:
                yield Idle
            while True:
                yield frame(9)

    rig = rig_of(Waiting)
    async with rig.running():
        await rig.play(0.014, grain_s=0.001)
        rig.event("set_prompt", 1, prompt="a cat")
        await settle()
        assert rig.sink.reds[:1] == [9]
        assert rig.sink.shown[0].bundle.applied == (1,)


async def test_events_change_the_state_between_steps_and_the_frame_has_their_number() -> None:
    class Showing(Plain):
        def inference(self) -> Iterator[Any]:
            while True:
                yield frame(int(self.state.brightness * 10))

    rig = rig_of(Showing)
    async with rig.running():
        await rig.play(0.5)
        rig.event("set_brightness", 1, brightness=2)
        await rig.play(1.0)
    applied = {shown.bundle.applied: shown.red for shown in rig.sink.shown[:-1]}
    assert applied == {(0,): 10, (1,): 20}


async def test_the_first_frame_that_shows_an_event_has_its_arrival_time() -> None:
    class Still(Plain):
        def inference(self) -> Iterator[Any]:
            yield from iter_frames(1)

    rig = rig_of(Still)
    async with rig.running():
        await rig.play(0.5)
        came_at = rig.clock.now()
        rig.event("set_brightness", brightness=2)
        await rig.play(1.0)
    first = next(shown.bundle for shown in rig.sink.shown if shown.bundle.applied == (1,))
    assert first.inputs == (came_at,)
    assert [shown.bundle.number for shown in rig.sink.shown if shown.bundle.inputs] == [first.number]


async def test_an_event_within_a_sync_step_is_seen_only_after_it() -> None:
    class Reading(Plain):
        def inference(self) -> Iterator[Any]:
            while True:
                before = self.state.brightness
                self.rig.event("set_brightness", brightness=before / 2)
                self.log.append(before == self.state.brightness)
                yield frame(1)

    rig = rig_of(Reading)
    async with rig.running():
        await rig.play(1.0)
        assert rig.model.state.brightness < 0.1
    assert all(log(rig))
    assert len(log(rig)) > 5


async def test_an_event_within_an_async_step_is_seen_only_after_it() -> None:
    class Reading(Plain):
        async def inference(self) -> AsyncIterator[Any]:
            while True:
                before = self.state.brightness
                self.rig.event("set_brightness", brightness=before / 2)
                for _ in range(20):
                    await asyncio.sleep(0)
                self.log.append(before == self.state.brightness)
                yield frame(1)

    rig = rig_of(Reading)
    async with rig.running():
        await rig.play(1.0)
    assert all(log(rig))
    assert len(log(rig)) > 5


async def test_a_generator_that_ends_is_restarted_with_the_same_state() -> None:
    class Finite(Plain):
        def inference(self) -> Iterator[Any]:
            self.state.brightness += 0.1
            for red in (1, 2):
                yield frame(red)

    rig = rig_of(Finite)
    async with rig.running():
        await rig.play(0.5)
        assert rig.sink.reds[:6] == [1, 2, 1, 2, 1, 2]
    assert rig.sink.of(StateChanged)[1].changes == {"brightness": pytest.approx(1.2)}


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
async def test_a_generator_that_never_yields_is_restarted_twenty_times_a_second_and_warned_of_once(
    asynchronous: bool, caplog: pytest.LogCaptureFixture
) -> None:
    class Empty(Plain):
        def inference(self) -> Iterator[Any]:
            self.log.append("run")
            yield from ()

    class EmptyAsync(Plain):
        async def inference(self) -> AsyncIterator[Any]:
            self.log.append("run")
            for _ in ():
                yield

    rig = rig_of(EmptyAsync if asynchronous else Empty)
    async with rig.running():
        await rig.play(1.0)
        assert 18 <= len(log(rig)) <= 21
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


async def test_the_next_session_has_fresh_state_and_a_new_generator() -> None:
    rig = rig_of(Counting)
    async with rig.running():
        rig.event("set_brightness", brightness=2)
        await rig.play(0.5)
    rig.sink.shown.clear()
    rig._played = 0
    async with rig.running():
        assert rig.model.state.brightness == 1.0
        await rig.play(0.2)
        assert rig.sink.reds[:2] == [0, 1]
    assert [started.state["brightness"] for started in rig.sink.of(Started)] == [1.0, 1.0]


async def test_a_generator_s_finally_sees_the_state_which_is_none_later() -> None:
    class Careful(Plain):
        def inference(self) -> Iterator[Any]:
            try:
                while True:
                    yield frame(1)
            finally:
                self.log.append(self.state.brightness)

    rig = rig_of(Careful)
    assert rig.model.state is None
    async with rig.running():
        rig.event("set_brightness", brightness=0.5)
        await rig.play(0.2)
    assert log(rig) == [0.5]
    assert rig.model.state is None


async def test_an_async_step_that_waits_ends_with_the_session_and_its_finally_may_await() -> None:
    class Blocked(Plain):
        async def inference(self) -> AsyncIterator[Any]:
            try:
                yield frame(1)
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                self.log.append(self.state.brightness)

    rig = rig_of(Blocked)
    async with rig.running():
        await rig.play(0.5)
    assert log(rig) == [1.0]


async def test_a_session_that_stops_before_it_began_is_over_at_once() -> None:
    rig = rig_of(CountingAsync)
    rig.start()
    await asyncio.wait_for(rig.stop(), TIMEOUT_S)
    assert not rig.sink.shown


async def test_inference_may_be_assigned_in_load() -> None:
    class Assigned(Plain):
        def load(self, config: dict[str, Any]) -> None:
            super().load(config)
            self.inference = lambda: iter_frames(5)  # type: ignore[method-assign]

        def inference(self) -> Iterator[Any]:
            raise AssertionError("replaced in load()")

    rig = rig_of(Assigned)
    async with rig.running():
        await rig.play(0.2)
        assert rig.sink.reds[0] == 5


async def test_a_step_starts_when_its_frames_are_about_to_be_needed() -> None:
    class Timed(Plain):
        def inference(self) -> Iterator[Any]:
            while True:
                self.log.append(self.rig.clock.now())
                self.rig.clock.spend(0.005)
                yield frame(1)

    rig = rig_of(Timed)
    async with rig.running():
        await rig.play(2.0)
        late = [shown.bundle.due - at for shown, at in zip(rig.sink.shown[8:16], log(rig)[8:16], strict=True)]
    assert max(late) < 0.015  # of 0.1: the step, encoding and a margin


class Batches(ReactorPipeline):
    state: Bright
    output: Picture
    buffer_size = 8

    rig: Rig

    def inference(self) -> Iterator[Any]:
        while True:
            self.rig.clock.spend(0.2)
            yield batch(1, 2, 3, 4)


async def test_the_rate_includes_the_work_between_two_steps_and_no_batch_is_followed_by_a_gap() -> None:
    rig = Rig(Batches)
    rig.model.rig = rig
    rig.sink.hand_over_s = 0.010
    async with rig.running():
        await rig.play(6.0)
        dues = [shown.bundle.due for shown in rig.sink.shown[40:]]
        assert rig.runtime.output_buffer.fps == pytest.approx(4 / 0.240, rel=0.02)
    gaps = [second - first for first, second in itertools.pairwise(dues[:-1])]
    assert max(gaps) < 1.1 * min(gaps)


def slow_batches(frames: int, **declared: int) -> type[ReactorPipeline]:
    """Return a model of 24 fps that yields batches of so many frames."""

    class Undeclared(ReactorPipeline):
        state: Bright
        output: Picture

        rig: Rig

        def inference(self) -> Iterator[Any]:
            while True:
                self.rig.clock.spend(frames / 24)
                yield np.repeat(batch(1), frames, axis=0)

    return type("Declared", (Undeclared,), dict(declared)) if declared else Undeclared


async def gaps_of(model: type[ReactorPipeline]) -> list[float]:
    rig = Rig(model)
    rig.model.rig = rig
    async with rig.running():
        await rig.play(8.0)
        dues = [shown.bundle.due for shown in rig.sink.shown[60:]]
    return [second - first for first, second in itertools.pairwise(dues[:-1])]


async def test_batches_larger_than_the_default_buffer_leave_no_gap() -> None:
    gaps = await gaps_of(slow_batches(12))
    assert max(gaps) < 1.1 * min(gaps)


async def test_a_declared_buffer_size_is_kept_however_large_the_batches_are() -> None:
    gaps = await gaps_of(slow_batches(12, buffer_size=4))
    assert max(gaps) > 2 * min(gaps)


async def test_a_grown_buffer_leaves_steps_just_in_time() -> None:
    class Uneven(Plain):
        fps = 50

        def inference(self) -> Iterator[Any]:
            yield np.repeat(batch(1), 20, axis=0)
            while True:
                self.log.append(self.rig.clock.now())
                self.rig.clock.spend(0.005)
                yield frame(1)

    rig = rig_of(Uneven)
    async with rig.running():
        await rig.play(2.0)
        early = [shown.bundle.due - at for shown, at in zip(rig.sink.shown[60:68], log(rig)[40:48], strict=True)]
    assert max(early) < 0.015


async def test_waiting_between_two_steps_does_not_lower_the_rate() -> None:
    rig = Rig(Batches)
    rig.model.rig = rig
    async with rig.running():
        await rig.play(2.0)
        rig.session.pause(True)
        await rig.play(5.0)
        rig.session.pause(False)
        await rig.play(3.0)
        assert rig.runtime.output_buffer.fps == pytest.approx(20, rel=0.02)


async def test_set_fps_changes_the_rate_of_the_running_session() -> None:
    class Faster(Plain):
        @event(name="faster")
        def faster(self) -> None:
            self.output_buffer.set_fps(50)

        def inference(self) -> Iterator[Any]:
            return iter_frames(1)

    rig = rig_of(Faster)
    async with rig.running():
        await rig.play(1.0)
        before = len(rig.sink.shown)
        rig.event("faster")
        await rig.play(1.0)
        assert len(rig.sink.shown) - before > 40


async def test_a_handler_may_flush_a_batch_that_is_still_being_queued() -> None:
    class Long(Plain):
        buffer_size = 4

        @event(name="reset")
        def reset(self) -> None:
            self.output_buffer.flush()

        def inference(self) -> Iterator[Any]:
            yield np.repeat(batch(7), 100, axis=0)
            yield from iter_frames(8)

    rig = rig_of(Long)
    async with rig.running():
        await rig.play(0.5)
        rig.event("reset", 1)
        await rig.play(0.5)
        assert rig.sink.of(EventApplied)
        assert rig.sink.reds.index(0) < 12
        assert 8 in rig.sink.reds


async def test_frames_made_before_an_event_do_not_claim_to_show_it() -> None:
    class Long(Plain):
        def inference(self) -> Iterator[Any]:
            while True:
                yield np.repeat(batch(int(self.state.brightness * 10)), 20, axis=0)

    rig = rig_of(Long)
    async with rig.running():
        await rig.play(0.5)
        rig.event("set_brightness", 1, brightness=2)
        await rig.play(0.1)
        assert rig.sink.of(EventApplied)
        await rig.play(5.0)
        shown = {(each.bundle.applied, each.red) for each in rig.sink.shown}
    assert shown == {((0,), 10), ((1,), 20)}
