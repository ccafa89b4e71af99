from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator

import numpy as np
import pytest

from reactor_runtime.ipc.messages import Bundle, BundleFrame, BundleSound, Credit
from reactor_runtime.ipc.ring import RingReader, RingWriter, create_memory, room_for
from reactor_runtime.media import jpeg
from reactor_runtime.server.delivery.playout import (
    MOST_MESSAGE_BYTES,
    MOST_MESSAGES,
    RATE_S,
    Playout,
    RecentStageTimes,
    StageTimes,
)
from reactor_runtime.server.encoding.encoded import EncodedFrame, EncodedSound
from reactor_runtime.server.encoding.encodings import DEFAULT
from reactor_runtime.server.encoding.jobs import RungsInUse
from reactor_runtime.server.telemetry.metrics import Metrics
from reactor_runtime.wire.containers import detach
from reactor_runtime.wire.media_header import FrameFlag, MediaHeader
from tests.engine.rig import frame
from tests.fakes import FakeClock, HandEncoder, settle, written


class PlayoutFixture:
    """A playout that runs on a fake clock, and a record of everything it plays."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.encoder = HandEncoder()
        self.credits: list[Credit] = []
        self.in_use: dict[str, list[int]] = {}
        self.as_video: set[str] = set()
        self.shown: list[tuple[int | str, float]] = []
        self.headers: list[MediaHeader] = []
        self.frames: list[EncodedFrame] = []
        self.sound_headers: list[MediaHeader] = []
        self.metrics = Metrics()
        self.playout = Playout(self.clock, self.encoder, self, self.credits.append, self.metrics)
        self.memory = create_memory()
        self.writer, self.reader = RingWriter(self.memory), RingReader(self.memory)
        self.has_room = True
        self.playout.start_session("s", 1000.0)
        self.running = asyncio.create_task(self.playout.run())

    def show_frame(self, frame: EncodedFrame) -> None:
        header, _ = detach(frame.file_on(DEFAULT, 0)[1].data)
        assert header == frame.header
        self.headers.append(header)
        self.frames.append(frame)
        self.shown.append((frame.seq, round(self.clock.now() - 1000.0, 4)))

    def rungs_in_use(self, track: str, seat: int | None) -> RungsInUse:  # noqa: ARG002  (see PlayoutTarget)
        return {DEFAULT: self.in_use.get(track, [0])}

    def needs_pixels(self, track: str, seat: int | None) -> bool:  # noqa: ARG002
        return track in self.as_video

    def play_sound(self, sound: EncodedSound) -> None:
        header, _ = detach(sound.data)
        assert header == sound.header
        self.sound_headers.append(header)
        self.shown.append((sound.track, round(self.clock.now() - 1000.0, 4)))

    def put_frame(
        self,
        number: int,
        due: float,
        *,
        broken: bool = False,
        sound: bool = False,
        session: str = "s",
        seat: int | None = None,
    ) -> None:
        """Queue a frame that is due `due` seconds after the start; a `broken` one fails to encode."""
        (offset,) = written(self.writer, number, [frame(number)])
        picture = BundleFrame("video", number, 1 << 40 if broken else offset, 2, 2, seat=seat)
        sounds = (BundleSound("audio", number, 0, 1, 6, 48000, 1000.0 + due),) if sound else ()
        bundle = Bundle(
            session=session,
            number=number,
            due=1000.0 + due,
            interval_s=0.1,
            handed_over=self.clock.now(),
            wall_us=5,
            applied=3,
            step_s=0.0,
            frames=(picture,),
            sounds=sounds,
            others_applied=() if seat is None else (3,),
        )
        self.playout.put_bundle(bundle, self.reader)

    def put_sound(self, number: int, due: float, *, at: float | None = None, interval_s: float = 0.5) -> None:
        """Queue sound without a frame; it begins `at`, by default when it is due."""
        (offset,) = written(self.writer, number, [np.zeros((1, 6), np.int16)])
        sound = BundleSound("audio", number, offset, 1, 6, 48_000, 1000.0 + (due if at is None else at))
        bundle = Bundle("s", number, 1000.0 + due, interval_s, self.clock.now(), 5, 3, 0.0, (), (sound,))
        self.playout.put_bundle(bundle, self.reader)

    def put_message(self, text: str, *, size_bytes: int = 0, n: int = 0) -> None:
        self.playout.put_message(lambda: self._show(text), size_bytes=size_bytes, n=n)

    def put_answer(self, text: str, n: int) -> None:
        self.playout.put_answer(lambda: self._show(text), n)

    def _show(self, text: str) -> None:
        self.shown.append((text, round(self.clock.now() - 1000.0, 4)))

    @property
    def order(self) -> list[int | str]:
        return [what for what, _ in self.shown]

    @property
    def credited(self) -> list[int]:
        return [credit.bundle for credit in self.credits]


@pytest.fixture
async def fixture() -> AsyncIterator[PlayoutFixture]:
    fixture = PlayoutFixture()
    yield fixture
    fixture.running.cancel()
    await asyncio.gather(fixture.running, return_exceptions=True)
    os.close(fixture.memory)


async def test_frames_are_shown_when_they_are_due_and_credited_then(fixture: PlayoutFixture) -> None:
    for number in range(3):
        fixture.put_frame(number, 0.1 * number)
    fixture.encoder.run_all()
    await fixture.clock.advance(0.05)
    assert (fixture.shown, fixture.credited) == ([(0, 0.0)], [0])
    await fixture.clock.advance(0.3)
    assert fixture.shown == [(0, 0.0), (1, 0.1), (2, 0.2)]
    assert fixture.credited == [0, 1, 2]


async def test_the_header_has_the_values_of_the_bundle(fixture: PlayoutFixture) -> None:
    fixture.put_frame(7, 0.25)
    fixture.encoder.run_all()
    await fixture.clock.advance(0.3)
    # The first frame of a session replaces what a client has of the session before.
    assert fixture.headers == [MediaHeader("video", 7, 250_000, 5, 3, FrameFlag.AFTER_FLUSH)]


async def test_each_rung_in_use_is_encoded_once_before_the_frame_is_shown(fixture: PlayoutFixture) -> None:
    fixture.in_use["video"] = [0, 2, 4, 6]
    fixture.put_frame(0, 0.0)
    assert len(fixture.encoder.jobs) == 3
    for job in (2, 0):
        fixture.encoder.run(job)
    await fixture.clock.advance(0.1)
    assert (fixture.shown, fixture.credited) == ([], [])
    fixture.encoder.run(1)
    assert fixture.credited == [0]
    assert sorted(fixture.frames[0].files[DEFAULT]) == [0, 2, 4, 6]


async def test_the_top_rung_is_not_encoded_when_no_client_is_on_it(fixture: PlayoutFixture) -> None:
    fixture.in_use["video"] = [3]
    fixture.put_frame(0, 0.0, sound=True)
    fixture.encoder.run_all()
    assert fixture.order == [0, "audio"]
    assert list(fixture.frames[0].files[DEFAULT]) == [3]


async def test_a_bundle_with_a_rung_that_fails_is_dropped_after_its_last_job(fixture: PlayoutFixture) -> None:
    fixture.in_use["video"] = [0, 1]
    fixture.put_frame(0, 0.0, broken=True)
    fixture.encoder.run(0)
    assert fixture.credited == []
    fixture.encoder.run(1)
    assert (fixture.shown, fixture.credited) == ([], [0])


async def test_frames_encoded_out_of_order_are_shown_in_order(fixture: PlayoutFixture) -> None:
    for number in range(3):
        fixture.put_frame(number, 0.0)
    fixture.encoder.run(2)
    fixture.encoder.run(1)
    await fixture.clock.advance(1.0)
    assert fixture.shown == []
    fixture.encoder.run(0)
    await fixture.clock.advance(1.0)
    assert fixture.order == [0, 1, 2]


async def test_a_stepped_session_is_shown_as_fast_as_its_controller_takes_it(fixture: PlayoutFixture) -> None:
    fixture.playout.start_session("s", 1000.0, stepped=True)
    for number in range(3):
        fixture.put_frame(number, due=number / 30)
    fixture.has_room = False
    fixture.encoder.run_all()
    await settle()
    assert (fixture.shown, fixture.credits) == ([], [])
    fixture.has_room = True
    fixture.playout.on_room()
    await settle()
    assert fixture.shown == [(0, 0.0), (1, 0.0), (2, 0.0)]


async def test_late_frames_catch_up_without_a_burst(fixture: PlayoutFixture) -> None:
    for number in range(4):
        fixture.put_frame(number, 0.1 * number)
    fixture.clock.spend(1.0)
    fixture.encoder.run_all()
    await fixture.clock.advance(1.0)
    times = [at for _, at in fixture.shown]
    gaps = [later - sooner for sooner, later in itertools.pairwise(times)]
    assert all(0.05 <= gap <= 0.1 for gap in gaps)


async def test_a_message_keeps_its_place_among_frames(fixture: PlayoutFixture) -> None:
    fixture.put_message("first")
    fixture.put_frame(0, 0.1)
    fixture.put_message("second")
    fixture.put_frame(1, 0.2)
    fixture.encoder.run_all()
    await fixture.clock.advance(1.0)
    assert fixture.order == ["first", 0, "second", 1]
    assert fixture.shown[0][1] == 0.0


async def test_an_answer_follows_the_messages_of_its_handler_and_nothing_else(fixture: PlayoutFixture) -> None:
    fixture.put_frame(0, 0.1)
    fixture.put_message("of a step")
    fixture.put_message("of 2", n=2)
    fixture.put_message("of 2 too", n=2)
    fixture.put_frame(1, 0.2)
    fixture.put_answer("answer 1", 1)
    fixture.put_answer("no number", 0)
    fixture.put_answer("answer 2", 2)
    fixture.encoder.run_all()
    await fixture.clock.advance(1.0)
    assert fixture.order == ["answer 1", "no number", 0, "of a step", "of 2", "of 2 too", "answer 2", 1]
    fixture.put_answer("answer 3", 2)
    assert fixture.order[-1] == "answer 3"


@pytest.mark.parametrize(("size_bytes", "most"), [(0, MOST_MESSAGES), (MOST_MESSAGE_BYTES // 4, 4)])
async def test_messages_that_wait_for_a_frame_are_bounded_and_stay_in_order(
    fixture: PlayoutFixture, size_bytes: int, most: int
) -> None:
    fixture.put_frame(0, 100.0)
    texts = [str(number) for number in range(most + 3)]
    for text in texts:
        fixture.put_message(text, size_bytes=size_bytes)
    assert fixture.order == texts[:3]
    assert len(fixture.playout) == most + 1
    fixture.encoder.run_all()
    await fixture.clock.advance(101.0)
    assert fixture.order == [*texts[:3], 0, *texts[3:]]


async def test_a_flush_drops_older_frames_and_flags_the_next(fixture: PlayoutFixture) -> None:
    for number in range(3):
        fixture.put_frame(number, 0.1 * (number + 1))
    fixture.put_message("between")
    fixture.encoder.run_all()
    await settle()
    fixture.playout.flush(before=3)
    assert (fixture.order, fixture.credited) == (["between"], [0, 1, 2])
    fixture.put_frame(3, 0.1)
    fixture.put_frame(4, 0.2)
    fixture.encoder.run_all()
    await fixture.clock.advance(1.0)
    assert fixture.order == ["between", 3, 4]
    assert [header.flags for header in fixture.headers] == [FrameFlag.AFTER_FLUSH, 0]


async def test_the_first_frame_after_each_flush_is_flagged(fixture: PlayoutFixture) -> None:
    for number in range(4):
        if number % 2 == 0:
            fixture.playout.flush(before=number)
        fixture.put_frame(number, 0.1 * (number + 1))
        fixture.encoder.run_all()
        await fixture.clock.advance(0.1)
    assert [header.flags for header in fixture.headers] == [FrameFlag.AFTER_FLUSH, 0] * 2


async def test_the_first_frame_of_each_seat_after_a_flush_is_flagged(fixture: PlayoutFixture) -> None:
    fixture.playout.flush(before=0)
    for number, seat in enumerate([0, 1, 1, 0]):
        fixture.put_frame(number, 0.1 * (number + 1), seat=seat)
        fixture.encoder.run_all()
        await fixture.clock.advance(0.1)
    assert [header.flags for header in fixture.headers] == [FrameFlag.AFTER_FLUSH, FrameFlag.AFTER_FLUSH, 0, 0]


async def test_a_flush_keeps_newer_frames(fixture: PlayoutFixture) -> None:
    fixture.put_frame(0, 0.1)
    fixture.put_frame(1, 0.2)
    fixture.encoder.run_all()
    await settle()
    fixture.playout.flush(before=1)
    await fixture.clock.advance(1.0)
    assert fixture.order == [1]


async def test_a_flush_delivers_messages_at_once_up_to_the_first_frame_that_it_keeps(fixture: PlayoutFixture) -> None:
    fixture.put_frame(0, 0.1)
    fixture.put_message("behind a dropped frame")
    fixture.put_frame(1, 0.2)
    fixture.put_message("behind a frame that is kept")
    # Sound alone may be queued out of order, with a number that the flush drops.
    fixture.put_sound(0, 0.25)
    fixture.put_message("behind a dropped frame and one that is kept")
    fixture.put_frame(2, 0.3)
    fixture.encoder.run_all()
    await settle()
    fixture.playout.flush(before=1)
    assert fixture.order == ["behind a dropped frame"]
    await fixture.clock.advance(1.0)
    assert fixture.order[1:] == [
        1,
        "behind a frame that is kept",
        "behind a dropped frame and one that is kept",
        2,
    ]


async def test_the_credit_of_a_dropped_bundle_is_returned_after_its_encoding(fixture: PlayoutFixture) -> None:
    fixture.put_frame(0, 0.1)
    fixture.playout.flush(before=1)
    await settle()
    assert fixture.credits == []
    fixture.encoder.run_all()
    await settle()
    assert fixture.credits == [Credit("s", 0, 0.0)]
    await fixture.clock.advance(1.0)
    assert fixture.order == []
    assert len(fixture.credits) == 1


async def test_a_frame_that_cannot_be_encoded_is_dropped_and_credited(
    fixture: PlayoutFixture, caplog: pytest.LogCaptureFixture
) -> None:
    fixture.put_frame(0, 0.0, broken=True)
    fixture.put_frame(1, 0.1)
    fixture.encoder.run_all()
    await fixture.clock.advance(1.0)
    assert (fixture.order, fixture.credited) == ([1], [0, 1])
    assert "could not be encoded" in caplog.text


async def test_frames_that_are_not_shown_are_counted_by_reason(fixture: PlayoutFixture) -> None:
    fixture.put_frame(0, 0.0, broken=True)
    fixture.encoder.run_all()
    fixture.put_frame(1, 0.1)
    fixture.put_frame(2, 0.2)
    fixture.playout.flush(before=2)
    fixture.playout.clear()
    counts = fixture.metrics.dropped.counts
    assert [counts[reason] for reason in ("failed", "flushed", "engine_lost")] == [1, 1, 1]
    assert fixture.metrics.frames.emitted["video"] == 3


@pytest.mark.parametrize(
    ("encoded_at", "held_up_s", "hold_ms", "late_ms"),
    [(0.1, 0.0, 150, 0), (0.4, 0.0, 0, 150), (0.1, 0.2, 150, 50)],
    ids=["early", "late", "early, and the loop is held up"],
)
async def test_the_stages_of_a_frame_count_how_long_it_was_held_or_late(
    fixture: PlayoutFixture, encoded_at: float, held_up_s: float, hold_ms: float, late_ms: float
) -> None:
    fixture.put_frame(0, 0.25)
    await fixture.clock.advance(encoded_at)
    fixture.encoder.run_all()
    fixture.clock.spend(held_up_s)
    await fixture.clock.advance(1.0)
    stages = fixture.playout.times.medians_ms()
    assert (stages["hold_ms"], stages["late_ms"], stages["age_ms"]) == (hold_ms, late_ms, 250 + late_ms)


async def test_sound_is_played_with_its_frame(fixture: PlayoutFixture) -> None:
    fixture.put_frame(0, 0.1, sound=True)
    fixture.encoder.run_all()
    await fixture.clock.advance(1.0)
    assert fixture.shown == [(0, 0.1), ("audio", 0.1)]


async def test_clearing_drops_everything_and_later_frames_are_shown(fixture: PlayoutFixture) -> None:
    fixture.put_frame(0, 0.1)
    fixture.put_message("never")
    fixture.playout.clear()
    fixture.put_frame(1, 0.1)
    fixture.encoder.run_all()
    await fixture.clock.advance(1.0)
    assert fixture.order == [1]
    assert len(fixture.playout) == 0


async def test_nothing_is_sent_to_the_next_engine_for_a_bundle_of_the_one_that_has_ended(
    fixture: PlayoutFixture,
) -> None:
    fixture.put_frame(0, 0.1)
    fixture.playout.clear()
    fixture.encoder.run_all()
    await fixture.clock.advance(1.0)
    assert (fixture.order, fixture.credits) == ([], [])


async def test_a_credit_has_the_time_when_the_bundle_was_ready(fixture: PlayoutFixture) -> None:
    fixture.put_frame(0, 0.5)
    await fixture.clock.advance(0.2)
    fixture.encoder.run_all()
    await fixture.clock.advance(1.0)
    assert [round(credit.ready_at - 1000.0, 4) for credit in fixture.credits] == [0.2]


async def test_sound_headers_have_exact_presentation_times(fixture: PlayoutFixture) -> None:
    fixture.put_sound(0, 0.25, at=0.2500004)
    fixture.put_sound(1, 0.5, at=0.4999996)
    fixture.encoder.run_all()
    await fixture.clock.advance(1.0)
    assert [header.pts_us for header in fixture.sound_headers] == [250_000, 500_000]


async def test_sound_alone_and_frames_do_not_delay_each_other(fixture: PlayoutFixture) -> None:
    fixture.put_sound(0, 0.0)
    fixture.put_sound(1, 0.5)
    fixture.put_message("after the second piece")
    for number in range(2, 5):
        fixture.put_frame(number, 0.1 * number)
    fixture.encoder.run_all()
    await fixture.clock.advance(1.0)
    assert fixture.shown == [
        ("audio", 0.0), (2, 0.2), (3, 0.3), (4, 0.4), ("audio", 0.5), ("after the second piece", 0.5)
    ]  # fmt: skip


async def test_long_sound_does_not_delay_the_next_frame(fixture: PlayoutFixture) -> None:
    fixture.put_frame(0, 0.0)
    fixture.put_sound(1, 0.05, interval_s=5.0)
    fixture.put_frame(2, 0.1)
    fixture.encoder.run_all()
    await fixture.clock.advance(1.0)
    assert fixture.shown == [(0, 0.0), ("audio", 0.05), (2, 0.1)]


async def test_a_frame_after_a_flush_is_not_spaced_from_the_last(fixture: PlayoutFixture) -> None:
    fixture.put_frame(0, 0.0)
    fixture.encoder.run_all()
    await fixture.clock.advance(0.01)
    fixture.playout.flush(before=1)
    fixture.put_frame(1, 0.01)
    fixture.encoder.run_all()
    await fixture.clock.advance(0.01)
    assert fixture.shown == [(0, 0.0), (1, 0.01)]


async def test_the_first_frame_and_sound_after_a_flush_are_flagged(fixture: PlayoutFixture) -> None:
    fixture.playout.flush(before=0)
    fixture.put_frame(0, 0.0)
    fixture.put_frame(1, 0.1, sound=True)
    fixture.put_frame(2, 0.2, sound=True)
    fixture.encoder.run_all()
    await fixture.clock.advance(1.0)
    assert [header.flags for header in fixture.headers] == [FrameFlag.AFTER_FLUSH, 0, 0]
    assert [header.flags for header in fixture.sound_headers] == [FrameFlag.AFTER_FLUSH, 0]


async def test_a_flush_drops_sound_without_frames(fixture: PlayoutFixture) -> None:
    fixture.put_sound(0, 0.5)
    fixture.put_frame(1, 0.1)
    fixture.encoder.run_all()
    await settle()
    fixture.playout.flush(before=2)
    fixture.put_sound(2, 0.2)
    fixture.encoder.run_all()
    await fixture.clock.advance(1.0)
    assert fixture.shown == [("audio", 0.2)]
    assert fixture.credited == [1, 0, 2]


@pytest.mark.parametrize("before_its_start", [False, True])
async def test_a_bundle_of_another_session_is_not_shown_and_returns_its_credit(
    fixture: PlayoutFixture, before_its_start: bool
) -> None:
    if before_its_start:
        fixture.playout.end_session()
        fixture.put_frame(3, 0.0)
    fixture.put_frame(4, 0.0, session="another")
    fixture.playout.start_session("next", 1000.0)
    fixture.put_frame(5, 0.0)
    numbers = [3, 4, 5] if before_its_start else [4, 5]
    assert fixture.credited == numbers
    assert not fixture.encoder.jobs
    await fixture.clock.advance(1.0)
    assert fixture.shown == []


async def test_a_session_starts_without_the_bundles_of_the_session_before(fixture: PlayoutFixture) -> None:
    fixture.put_frame(1, 0.5)
    fixture.playout.end_session()
    fixture.playout.start_session("next", 1000.25)
    fixture.put_frame(0, 0.5, session="next")
    fixture.encoder.run_all()
    await fixture.clock.advance(1.0)
    assert fixture.shown == [(0, 0.5)]
    assert fixture.headers[0].pts_us == 250_000
    assert [credit.session for credit in fixture.credits] == ["s", "next"]
    assert fixture.credited == [1, 0]


async def test_the_last_frame_of_a_session_is_shown_after_its_end(fixture: PlayoutFixture) -> None:
    fixture.put_frame(1, 0.5)
    fixture.playout.end_session()
    fixture.encoder.run_all()
    await fixture.clock.advance(1.0)
    assert fixture.shown == [(1, 0.5)]


def test_the_rate_is_that_of_the_frames_shown_in_the_last_two_seconds() -> None:
    times, stages = RecentStageTimes(), StageTimes(*[0.0] * len(StageTimes._fields))
    assert times.fps(0.0) == 0.0
    for number in range(100):
        times.add_times(stages, frame_at=number / 25)
        times.add_times(stages, frame_at=None)
    assert times.fps(4.0) == pytest.approx(25)
    assert times.fps(99 / 25 + RATE_S) == 0.0


async def test_of_another_session_the_frames_that_are_recorded_are_encoded_and_not_shown(
    fixture: PlayoutFixture,
) -> None:
    offset, room = fixture.writer.write(4, [frame(4)], [room_for(2, 2)])
    pictures = (BundleFrame("video", 4, offset, 2, 2, room=room), BundleFrame("other", 4, offset, 2, 2))
    fixture.playout.put_bundle(Bundle("another", 4, 1000.0, 0.1, 1000.0, 5, 3, 0.0, pictures), fixture.reader)
    assert fixture.credited == []
    fixture.encoder.run_all()
    assert fixture.credited == [4]
    assert jpeg.decode(fixture.writer.read_file(room)).shape == (2, 2, 3)
    await fixture.clock.advance(1.0)
    assert fixture.shown == []
