from __future__ import annotations

import asyncio

import numpy as np
import pytest

from reactor_runtime.authoring.events.messages import ClientInfo
from reactor_runtime.engine.output.emitter import Emitter
from reactor_runtime.engine.output.output_buffer import OutputBuffer
from reactor_runtime.engine.output.sink import Black, OutgoingBundle
from reactor_runtime.engine.session import ModelSession
from reactor_runtime.interface import Audio, Output, ReactorPipeline, Video
from reactor_runtime.ipc.messages import Credit, Flush
from tests.engine.rig import Bright, Picture, batch, frame, served_model
from tests.fakes import CollectingSink, FakeClock, settle
from tests.timeouts import TIMEOUT_S


class Fixed(ReactorPipeline):
    state: Bright
    output: Picture
    fps = 10
    buffer_size = 3


class Adaptive(ReactorPipeline):
    state: Bright
    output: Picture
    max_fps = 50


class Both(Output):
    video: Video
    audio: Audio


class Sounding(ReactorPipeline):
    state: Bright
    output: Both
    fps = 10


class Desk:
    """An emitter within a session, and what its tests hold."""

    def __init__(self, model: type[ReactorPipeline] = Fixed, *, works_ahead: bool = True) -> None:
        self.clock = FakeClock()
        self.sink = CollectingSink(self.clock)
        self.emitter = Emitter(served_model(model), self.clock, self.sink, works_ahead=works_ahead)
        self.buffer = OutputBuffer(self.emitter)
        self.session = self.open("s-1")

    def open(self, name: str) -> ModelSession:
        client = ClientInfo("c", 0.0)
        session = ModelSession(name, client, self.clock, started_at_unix=1e9)
        self.emitter.open(session)
        return session

    async def credit(self, number: int) -> None:
        self.emitter.credit(Credit("s-1", number, self.clock.now()))
        await settle()

    @property
    def due(self) -> list[float]:
        return [round(shown.bundle.due - 1000.0, 6) for shown in self.sink.shown]

    @property
    def seqs(self) -> list[int]:
        return [shown.bundle.pieces[0].seq for shown in self.sink.shown]


async def test_no_more_than_buffer_size_moments_are_outstanding() -> None:
    desk = Desk()
    emitting = asyncio.create_task(desk.emitter.emit(batch(0, 1, 2, 3, 4)))
    await settle()
    assert (desk.sink.reds, emitting.done()) == ([0, 1, 2], False)
    await desk.credit(0)
    assert (desk.sink.reds, emitting.done()) == ([0, 1, 2, 3], False)
    await desk.credit(1)
    assert (desk.sink.reds, emitting.done()) == ([0, 1, 2, 3, 4], True)


@pytest.mark.parametrize("took_s", [0.0, 0.25, 0.5])
async def test_without_working_ahead_emit_returns_when_the_next_step_has_to_begin(took_s: float) -> None:
    desk = Desk(works_ahead=False)
    # How long the first one took is unknown.
    await asyncio.wait_for(desk.emitter.emit(frame(0)), TIMEOUT_S)
    await desk.credit(0)
    await desk.clock.advance(took_s)
    emitting = asyncio.create_task(desk.emitter.emit(batch(1, 2, 3)))
    await settle()
    begins_s = desk.due[-1] + 0.1 - took_s
    await desk.clock.advance(max(0.0, begins_s - 0.001 - (desk.clock.now() - 1000.0)))
    assert emitting.done() == (took_s == 0.5)
    await desk.clock.advance(0.002)
    await asyncio.wait_for(emitting, TIMEOUT_S)


async def test_waiting_for_the_end_of_output_ends_with_the_session() -> None:
    desk = Desk(works_ahead=False)
    await desk.emitter.emit(frame(0))
    emitting = asyncio.create_task(desk.emitter.emit(frame(1)))
    await settle()
    assert not emitting.done()
    desk.session.stop()
    await asyncio.wait_for(emitting, TIMEOUT_S)


async def test_a_credit_frees_its_memory_and_counts_once() -> None:
    desk = Desk()
    await desk.emitter.emit(batch(0, 1, 2))
    emitting = asyncio.create_task(desk.emitter.emit(batch(3, 4)))
    await desk.credit(0)
    await desk.credit(0)
    assert desk.sink.reds == [0, 1, 2, 3]
    assert desk.sink.released == [0, 0]
    await desk.credit(1)
    await asyncio.wait_for(emitting, TIMEOUT_S)


async def test_drop_keeps_what_fits_from_the_front_and_counts_the_rest() -> None:
    desk = Desk()
    await asyncio.wait_for(desk.emitter.emit(batch(0, 1, 2, 3, 4), drop=True), TIMEOUT_S)
    await desk.credit(0)
    await desk.emitter.emit(frame(9))
    assert (desk.sink.reds, desk.seqs) == ([0, 1, 2, 9], [0, 1, 2, 5])


async def test_frames_are_due_on_the_schedule_whenever_they_come() -> None:
    desk = Desk()
    await desk.emitter.emit(batch(0, 1))
    desk.clock.spend(0.03)
    await desk.emitter.emit(frame(2))
    assert desk.due == pytest.approx([0.0, 0.1, 0.2], abs=1e-6)


async def test_a_stall_moves_the_schedule() -> None:
    desk = Desk()
    await desk.emitter.emit(frame(0))
    desk.clock.spend(1.0)
    await desk.emitter.emit(batch(1, 2))
    assert desk.due == pytest.approx([0.0, 1.0, 1.1], abs=1e-6)


async def test_flush_drops_the_rest_of_a_batch_and_shows_black_of_the_same_size_at_once() -> None:
    desk = Desk()
    emitting = asyncio.create_task(desk.emitter.emit(np.zeros((9, 4, 6, 3), np.uint8)))
    await settle()
    desk.clock.spend(0.05)
    desk.buffer.flush()
    await asyncio.wait_for(emitting, TIMEOUT_S)
    flush, black = desk.sink.everything[-2:]
    assert flush == Flush("s-1", before=3)
    assert len(desk.sink.shown) == 4
    assert desk.sink.shown[-1].bundle is black
    assert desk.sink.shown[-1].bundle.pieces[0].payload == Black(4, 6)
    assert desk.due[-1] == pytest.approx(0.05)


async def test_flush_before_the_first_frame_shows_nothing() -> None:
    desk = Desk()
    desk.buffer.flush()
    assert not desk.sink.shown


async def test_frames_after_a_flush_follow_the_black_one() -> None:
    desk = Desk()
    await desk.emitter.emit(frame(1))
    desk.buffer.flush()
    await desk.emitter.emit(frame(2))
    assert (desk.sink.reds, desk.seqs) == ([1, 0, 2], [0, 1, 2])
    assert desk.due == pytest.approx([0.0, 0.0, 0.1], abs=1e-6)


async def test_a_declared_rate_does_not_follow_the_compute_time() -> None:
    desk = Desk()
    assert not desk.emitter.pace.adaptive
    assert desk.buffer.fps == 10


async def test_an_adaptive_rate_follows_frames_over_compute_time_within_its_bounds() -> None:
    desk = Desk(Adaptive)
    assert desk.emitter.pace.adaptive
    await desk.emitter.emit(batch(1, 2), compute_time=0.1)
    assert desk.buffer.fps == pytest.approx(20)
    for _ in range(40):
        await desk.emitter.emit(frame(1), compute_time=0.0001, drop=True)
    assert desk.buffer.fps == pytest.approx(50)
    for _ in range(10):
        await desk.emitter.emit(frame(1), compute_time=60.0, drop=True)
    assert 1 <= desk.buffer.fps < 5


@pytest.mark.parametrize("fps", [0, -1, float("nan"), float("inf")])
async def test_an_impossible_rate_is_refused(fps: float) -> None:
    desk = Desk()
    with pytest.raises(ValueError, match="fps must be above 0"):
        desk.buffer.set_fps(fps)
    assert desk.buffer.fps == 10


async def test_numpy_scalars_are_rates_and_times_and_nothing_after_them_is_a_float32() -> None:
    desk = Desk(Adaptive)
    await desk.emitter.emit(batch(1, 2), compute_time=np.float32(0.125))  # type: ignore[arg-type]
    assert desk.buffer.fps == 16
    desk.buffer.set_fps(np.float32(10))  # type: ignore[arg-type]
    await desk.emitter.emit(frame(1))
    bundles = [shown.bundle for shown in desk.sink.shown]
    assert {type(value) for each in bundles for value in (each.due, each.interval_s, each.step_s)} == {float}
    assert desk.due == pytest.approx([0.0, 0.0625, 0.1625], abs=1e-6)


async def test_a_hand_over_that_fails_takes_no_room() -> None:
    class Broken(CollectingSink):
        def send_bundle(self, bundle: OutgoingBundle) -> None:
            raise OSError(f"no memory for {bundle.number}")

    desk = Desk()
    desk.emitter = Emitter(served_model(Fixed), desk.clock, Broken(desk.clock))
    desk.open("s-2")
    with pytest.raises(OSError, match="no memory"):
        await desk.emitter.emit(frame(1))
    assert len(desk.emitter.outstanding) == 0


async def test_a_rate_set_in_a_session_lasts_from_the_next_frame_to_its_end() -> None:
    desk = Desk()
    await desk.emitter.emit(batch(0, 1))
    desk.buffer.set_fps(20)
    await desk.emitter.emit(frame(2))
    assert desk.due == pytest.approx([0.0, 0.1, 0.15], abs=1e-6)
    desk.emitter.close()
    desk.open("s-2")
    assert desk.buffer.fps == 10


async def test_a_rate_set_outside_a_session_is_for_all_of_them() -> None:
    desk = Desk(Adaptive)
    desk.emitter.close()
    desk.buffer.set_fps(24)
    desk.open("s-2")
    assert (desk.buffer.fps, desk.emitter.pace.adaptive) == (24, False)


async def test_a_session_begins_with_sequence_number_0_and_an_empty_queue() -> None:
    desk = Desk()
    await desk.emitter.emit(batch(1, 2, 3))
    desk.emitter.close()
    desk.sink.shown.clear()
    desk.open("s-2")
    await asyncio.wait_for(desk.emitter.emit(batch(4, 5, 6)), TIMEOUT_S)
    assert (desk.sink.reds, desk.seqs) == ([4, 5, 6], [0, 1, 2])


async def test_the_end_of_a_session_shows_nothing_that_is_queued() -> None:
    desk = Desk()
    await desk.emitter.emit(batch(1, 2))
    desk.emitter.close()
    assert desk.sink.of(Flush) == [Flush("s-1", before=2)]
    assert desk.sink.reds == [1, 2, 0]


async def test_emitting_without_a_session_hands_nothing_over_and_raises_nothing() -> None:
    desk = Desk()
    desk.emitter.close()
    for _ in range(100):
        await asyncio.wait_for(desk.emitter.emit(frame(1), drop=True), TIMEOUT_S)
    desk.buffer.flush()
    assert not desk.sink.shown


async def test_an_emit_that_waits_returns_when_the_session_stops() -> None:
    desk = Desk()
    emitting = asyncio.create_task(desk.emitter.emit(batch(*range(9))))
    await settle()
    desk.session.stop()
    await asyncio.wait_for(emitting, TIMEOUT_S)
    assert desk.sink.reds == [0, 1, 2]


async def test_a_moment_says_when_it_was_handed_over_and_what_was_applied() -> None:
    desk = Desk()
    desk.clock.spend(0.25)
    desk.session.applied = (7,)
    await desk.emitter.emit(frame(1))
    bundle = desk.sink.shown[0].bundle
    assert (bundle.applied, bundle.wall_us) == ((7,), 1_000_000_000_250_000)


async def test_sound_is_cut_among_the_frames_it_comes_with() -> None:
    desk = Desk(Sounding)
    await desk.emitter.emit(Both(video=batch(1, 2, 3, 4), audio=np.arange(10, dtype=np.int16)))
    lengths = [piece.payload.shape[1] for shown in desk.sink.shown for piece in shown.bundle.pieces[1:]]
    assert lengths == [3, 3, 2, 2]


async def test_a_bad_payload_shows_nothing_of_its_batch() -> None:
    desk = Desk()
    with pytest.raises(TypeError, match=r"video: got float32 \(2, 2, 3\)"):
        await desk.emitter.emit(frame(1).astype(np.float32))
    assert not desk.sink.shown


async def test_each_late_bundle_makes_room_for_another_until_three_are_late() -> None:
    desk = Desk()
    emitting = asyncio.create_task(desk.emitter.emit(Picture(video=batch(*range(1, 10)))))
    await settle()
    for shown in (3, 4, 5, 5, 5):
        assert len(desk.sink.shown) == shown
        await desk.clock.advance(1 / desk.emitter.pace.schedule.fps)
        desk.session.wake()
        await settle()
    emitting.cancel()
    await asyncio.gather(emitting, return_exceptions=True)
