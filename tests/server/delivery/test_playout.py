from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator
from dataclasses import replace

import numpy as np
import pytest

from reactor_runtime.ipc.messages import Bundle, BundleFrame, BundleSound, Credit
from reactor_runtime.ipc.ring import RingReader, RingWriter, create_memory
from reactor_runtime.server.delivery.playout import Playout
from reactor_runtime.server.encoding.encoded import EncodedFrame, EncodedSound
from reactor_runtime.wire.media_header import FrameFlag, MediaHeader, detach
from tests.engine.rig import frame
from tests.fakes import FakeClock, HandEncoder, settle, written


class Theatre:
    """A playout that runs on a fake clock, and everything that comes out of it."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.encoder = HandEncoder()
        self.credits: list[Credit] = []
        self.in_use: dict[str, list[int]] = {}
        self.shown: list[tuple[int | str, float]] = []
        self.headers: list[MediaHeader] = []
        self.frames: list[EncodedFrame] = []
        self.sound_headers: list[MediaHeader] = []
        self.playout = Playout(self.clock, self.encoder, self, self.credits.append)
        self.memory = create_memory()
        self.writer, self.reader = RingWriter(self.memory), RingReader(self.memory)
        self.running = asyncio.create_task(self.playout.run())

    def show_frame(self, frame: EncodedFrame) -> None:
        header, _ = detach(frame.data)
        assert header is not None
        self.headers.append(header)
        self.frames.append(frame)
        self.shown.append((frame.seq, round(self.clock.now() - 1000.0, 4)))

    def rungs_in_use(self, track: str) -> list[int]:
        return self.in_use.get(track, [0])

    def play_sound(self, sound: EncodedSound) -> None:
        header, _ = detach(sound.data)
        assert header is not None
        self.sound_headers.append(header)
        self.shown.append((sound.track, round(self.clock.now() - 1000.0, 4)))

    def put_frame(self, number: int, due: float, *, broken: bool = False, sound: bool = False) -> None:
        """Queue a frame that is due so many seconds after the start; `broken` ones can't be encoded."""
        (offset,) = written(self.writer, number, [frame(number)])
        picture = BundleFrame("video", number, 1 << 40 if broken else offset, 2, 2)
        sounds = (BundleSound("audio", number, 0, 1, 6, 48000, 1000.0 + due),) if sound else ()
        bundle = Bundle(
            session="s",
            number=number,
            due=1000.0 + due,
            interval_s=0.1,
            handed_over=self.clock.now(),
            wall_us=5,
            applied=3,
            step_s=0.0,
            pictures=(picture,),
            sounds=sounds,
        )
        self.playout.put_bundle(bundle, self.reader, 1000.0)

    def put_sound(self, number: int, due: float, *, at: float | None = None, interval_s: float = 0.5) -> None:
        """Queue a piece of sound that comes alone; `at` says when it begins, if not when it is due."""
        (offset,) = written(self.writer, number, [np.zeros((1, 6), np.int16)])
        sound = BundleSound("audio", number, offset, 1, 6, 48_000, 1000.0 + (due if at is None else at))
        bundle = Bundle("s", number, 1000.0 + due, interval_s, self.clock.now(), 5, 3, 0.0, (), (sound,))
        self.playout.put_bundle(bundle, self.reader, 1000.0)

    def say(self, text: str) -> None:
        self.playout.put_message(lambda: self.shown.append((text, round(self.clock.now() - 1000.0, 4))))

    @property
    def order(self) -> list[int | str]:
        return [what for what, _ in self.shown]

    @property
    def credited(self) -> list[int]:
        return [credit.bundle for credit in self.credits]


@pytest.fixture
async def theatre() -> AsyncIterator[Theatre]:
    theatre = Theatre()
    yield theatre
    theatre.running.cancel()
    await asyncio.gather(theatre.running, return_exceptions=True)
    os.close(theatre.memory)


async def test_frames_are_shown_when_they_are_due_and_credited_then(theatre: Theatre) -> None:
    for number in range(3):
        theatre.put_frame(number, 0.1 * number)
    theatre.encoder.run_all()
    await theatre.clock.advance(0.05)
    assert (theatre.shown, theatre.credited) == ([(0, 0.0)], [0])
    await theatre.clock.advance(0.3)
    assert theatre.shown == [(0, 0.0), (1, 0.1), (2, 0.2)]
    assert theatre.credited == [0, 1, 2]


async def test_the_header_says_what_the_moment_said(theatre: Theatre) -> None:
    theatre.put_frame(7, 0.25)
    theatre.encoder.run_all()
    await theatre.clock.advance(0.3)
    assert theatre.headers == [MediaHeader("video", 7, 250_000, 5, 3, 0)]


async def test_each_rung_in_use_is_encoded_once_and_shown_when_all_are(theatre: Theatre) -> None:
    theatre.in_use["video"] = [0, 2, 4, 6]
    theatre.put_frame(0, 0.0)
    assert len(theatre.encoder.jobs) == 3  # the best, another quality, and what is smaller
    for job in (2, 0):
        theatre.encoder.run(job)
    await theatre.clock.advance(0.1)
    assert (theatre.shown, theatre.credited) == ([], [])
    theatre.encoder.run(1)
    assert theatre.credited == [0]
    assert (theatre.frames[0].rung, sorted(theatre.frames[0].worse)) == (0, [2, 4, 6])


async def test_the_best_rung_is_left_out_when_nobody_is_on_it(theatre: Theatre) -> None:
    theatre.in_use["video"] = [3]
    theatre.put_frame(0, 0.0, sound=True)
    theatre.encoder.run_all()
    assert theatre.order == [0, "audio"]
    assert (theatre.frames[0].rung, theatre.frames[0].worse) == (3, {})


async def test_a_moment_that_one_rung_can_t_be_had_of_is_skipped_once_nothing_reads_it(theatre: Theatre) -> None:
    theatre.in_use["video"] = [0, 1]
    theatre.put_frame(0, 0.0, broken=True)
    theatre.encoder.run(0)
    assert theatre.credited == []
    theatre.encoder.run(1)
    assert (theatre.shown, theatre.credited) == ([], [0])


async def test_frames_encoded_out_of_order_are_shown_in_order(theatre: Theatre) -> None:
    for number in range(3):
        theatre.put_frame(number, 0.0)
    theatre.encoder.run(2)
    theatre.encoder.run(1)
    await theatre.clock.advance(1.0)
    assert theatre.shown == []
    theatre.encoder.run(0)
    await theatre.clock.advance(1.0)
    assert theatre.order == [0, 1, 2]


async def test_what_is_late_catches_up_without_a_burst(theatre: Theatre) -> None:
    for number in range(4):
        theatre.put_frame(number, 0.1 * number)
    theatre.clock.spend(1.0)
    theatre.encoder.run_all()
    await theatre.clock.advance(1.0)
    times = [at for _, at in theatre.shown]
    gaps = [later - sooner for sooner, later in itertools.pairwise(times)]
    assert all(0.05 <= gap <= 0.1 for gap in gaps)


async def test_a_message_comes_after_the_frames_before_it_and_before_those_after(theatre: Theatre) -> None:
    theatre.say("first")
    theatre.put_frame(0, 0.1)
    theatre.say("second")
    theatre.put_frame(1, 0.2)
    theatre.encoder.run_all()
    await theatre.clock.advance(1.0)
    assert theatre.order == ["first", 0, "second", 1]
    assert theatre.shown[0][1] == 0.0


async def test_a_flush_drops_what_is_older_and_says_so_in_the_next_frame(theatre: Theatre) -> None:
    for number in range(3):
        theatre.put_frame(number, 0.1 * (number + 1))
    theatre.say("said between")
    theatre.encoder.run_all()
    await settle()
    theatre.playout.flush(before=3)
    assert (theatre.order, theatre.credited) == (["said between"], [0, 1, 2])
    theatre.put_frame(3, 0.1)
    theatre.put_frame(4, 0.2)
    theatre.encoder.run_all()
    await theatre.clock.advance(1.0)
    assert theatre.order == ["said between", 3, 4]
    assert [header.flags for header in theatre.headers] == [FrameFlag.AFTER_FLUSH, 0]


async def test_a_flush_spares_what_is_newer(theatre: Theatre) -> None:
    theatre.put_frame(0, 0.1)
    theatre.put_frame(1, 0.2)
    theatre.encoder.run_all()
    await settle()
    theatre.playout.flush(before=1)
    await theatre.clock.advance(1.0)
    assert theatre.order == [1]


async def test_the_memory_of_a_dropped_moment_is_given_back_only_when_nobody_reads_it(theatre: Theatre) -> None:
    theatre.put_frame(0, 0.1)
    theatre.playout.flush(before=1)
    await settle()
    assert theatre.credits == []
    theatre.encoder.run_all()
    await settle()
    assert theatre.credits == [Credit("s", 0, 0.0)]
    await theatre.clock.advance(1.0)
    assert theatre.order == []
    assert len(theatre.credits) == 1


async def test_a_frame_that_cannot_be_encoded_is_skipped_and_credited(
    theatre: Theatre, caplog: pytest.LogCaptureFixture
) -> None:
    theatre.put_frame(0, 0.0, broken=True)
    theatre.put_frame(1, 0.1)
    theatre.encoder.run_all()
    await theatre.clock.advance(1.0)
    assert (theatre.order, theatre.credited) == ([1], [0, 1])
    assert "could not be encoded" in caplog.text


async def test_sound_is_played_with_its_frame(theatre: Theatre) -> None:
    theatre.put_frame(0, 0.1, sound=True)
    theatre.encoder.run_all()
    await theatre.clock.advance(1.0)
    assert theatre.shown == [(0, 0.1), ("audio", 0.1)]


async def test_clearing_forgets_everything_and_the_next_is_shown(theatre: Theatre) -> None:
    theatre.put_frame(0, 0.1)
    theatre.say("never")
    theatre.playout.clear()
    theatre.put_frame(1, 0.1)
    theatre.encoder.run_all()
    await theatre.clock.advance(1.0)
    assert theatre.order == [1]
    assert len(theatre.playout) == 0


async def test_a_credit_says_when_the_moment_was_ready(theatre: Theatre) -> None:
    theatre.put_frame(0, 0.5)
    await theatre.clock.advance(0.2)
    theatre.encoder.run_all()
    await theatre.clock.advance(1.0)
    assert [round(credit.ready_at - 1000.0, 4) for credit in theatre.credits] == [0.2]


async def test_sound_says_when_it_begins_to_the_sample(theatre: Theatre) -> None:
    theatre.put_sound(0, 0.25, at=0.2500004)
    theatre.put_sound(1, 0.5, at=0.4999996)
    theatre.encoder.run_all()
    await theatre.clock.advance(1.0)
    assert [header.pts_us for header in theatre.sound_headers] == [250_000, 500_000]


async def test_sound_alone_holds_up_no_frame_and_no_frame_sound(theatre: Theatre) -> None:
    theatre.put_sound(0, 0.0)
    theatre.put_sound(1, 0.5)
    theatre.say("said after the second piece")
    for number in range(2, 5):
        theatre.put_frame(number, 0.1 * number)
    theatre.encoder.run_all()
    await theatre.clock.advance(1.0)
    assert theatre.shown == [
        ("audio", 0.0), (2, 0.2), (3, 0.3), (4, 0.4), ("audio", 0.5), ("said after the second piece", 0.5)
    ]  # fmt: skip


async def test_a_frame_that_lasts_long_does_not_hold_up_itself(theatre: Theatre) -> None:
    theatre.put_frame(0, 0.0)
    theatre.put_sound(1, 0.05, interval_s=5.0)
    theatre.put_frame(2, 0.1)
    theatre.encoder.run_all()
    await theatre.clock.advance(1.0)
    assert theatre.shown == [(0, 0.0), ("audio", 0.05), (2, 0.1)]


async def test_black_after_a_flush_waits_for_nothing(theatre: Theatre) -> None:
    theatre.put_frame(0, 0.0)
    theatre.encoder.run_all()
    await theatre.clock.advance(0.01)
    theatre.playout.flush(before=1)
    theatre.put_frame(1, 0.01)
    theatre.encoder.run_all()
    await theatre.clock.advance(0.01)
    assert theatre.shown == [(0, 0.0), (1, 0.01)]


async def test_the_first_of_each_track_after_a_flush_says_so(theatre: Theatre) -> None:
    theatre.playout.flush(before=0)
    theatre.put_frame(0, 0.0)
    theatre.put_frame(1, 0.1, sound=True)
    theatre.put_frame(2, 0.2, sound=True)
    theatre.encoder.run_all()
    await theatre.clock.advance(1.0)
    assert [header.flags for header in theatre.headers] == [FrameFlag.AFTER_FLUSH, 0, 0]
    assert [header.flags for header in theatre.sound_headers] == [FrameFlag.AFTER_FLUSH, 0]


async def test_a_flush_drops_sound_that_comes_alone(theatre: Theatre) -> None:
    theatre.put_sound(0, 0.5)
    theatre.put_frame(1, 0.1)
    theatre.encoder.run_all()
    await settle()
    theatre.playout.flush(before=2)
    theatre.put_sound(2, 0.2)
    theatre.encoder.run_all()
    await theatre.clock.advance(1.0)
    assert theatre.shown == [("audio", 0.2)]
    assert theatre.credited == [1, 0, 2]


async def test_a_moment_that_is_turned_away_takes_what_was_encoded_of_it_along(theatre: Theatre) -> None:
    ahead = Bundle("gone", 4, 1000.0, 0.1, 1000.0, 5, 0, 0.0, (BundleFrame("video", 4, 0, 2, 2),), (), hints=1)
    theatre.playout.reject_bundle(ahead, theatre.reader)
    assert not theatre.credits
    theatre.encoder.run_all()
    assert theatre.credits == [Credit("gone", 4, 0.0)]
    theatre.playout.reject_bundle(replace(ahead, number=5, hints=0), theatre.reader)
    assert theatre.credits[1:] == [Credit("gone", 5, 0.0)]
    assert not theatre.encoder.jobs
