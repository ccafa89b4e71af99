from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactor_runtime.media import jpeg, wav
from reactor_runtime.server.delivery.options import ClientOptions, RawBytes
from reactor_runtime.server.delivery.outbox import (
    MOST_KEPT,
    MOST_MESSAGE_BYTES,
    MOST_MESSAGES,
    MOST_SOUND_S,
    RAW_RETRY_S,
    Outbox,
)
from reactor_runtime.server.encoding.encoded import EncodedFrame, EncodedSound, MediaFile, VideoPiece
from reactor_runtime.server.encoding.encodings import DEFAULT, ENCODINGS
from reactor_runtime.server.encoding.raw_encoding import RAW
from reactor_runtime.server.encoding.track_encoding import TrackEncoding
from reactor_runtime.server.telemetry.metrics import Metrics
from reactor_runtime.wire.containers import attach, detach
from reactor_runtime.wire.fragmented_mp4 import VideoMessage, write_message
from reactor_runtime.wire.media_header import FrameFlag, MediaHeader
from reactor_runtime.wire.messages import View
from tests.engine.rig import frame as pixels
from tests.fakes import FakeClock, frame_of
from tests.server.admission_fixture import drain
from tests.server.encoding.png_encoding import PNG


def frame(seq: int, track: str = "video") -> EncodedFrame:
    return frame_of(seq, b"%s %d" % (track.encode(), seq), track)


def sound(number: int, duration_s: float = 0.1, track: str = "audio") -> EncodedSound:
    return EncodedSound(MediaHeader(track, number, 0, 0), b"sound %d" % number, duration_s)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def outbox(clock: FakeClock) -> Outbox:
    return Outbox(ClientOptions(clock))


async def test_frames_that_are_sent_are_counted_by_track_encoding_and_rung(clock: FakeClock) -> None:
    metrics = Metrics()
    outbox = Outbox(ClientOptions(clock, metrics))
    for seq in range(2):
        outbox.offer_frame(frame(seq))
        await drain(outbox)
    assert dict(metrics.frames.sent) == {("video", "jpeg", 0): 2}


async def test_a_newer_frame_replaces_an_unsent_one_which_counts_as_skipped(outbox: Outbox) -> None:
    for seq in range(5):
        outbox.offer_frame(frame(seq))
    assert await drain(outbox) == [b"video 4"]
    counters = outbox.counters
    assert (counters.offered, counters.sent, counters.skipped) == (5, 1, 4)
    assert counters.sent_by_track == {"video": 1}


def test_media_that_is_kept_is_sent_in_order_with_messages_and_none_is_replaced(outbox: Outbox) -> None:
    had_room: list[bool] = []
    outbox.keep_media(lambda: had_room.append(outbox.has_room))
    for seq in range(MOST_KEPT - 1):
        outbox.offer_frame(frame(seq))
        outbox.queue_message(f"message {seq}")
    assert outbox.has_room
    # More than a second.
    outbox.queue_sound(sound(0, 3.0))
    assert (outbox.has_room, had_room) == (False, [])
    items = [outbox.take_next()[0] for _ in range(2 * MOST_KEPT - 1)]
    sent = [item.data if isinstance(item, MediaFile) else item for item in items]
    expected = [each for seq in range(MOST_KEPT - 1) for each in (b"video %d" % seq, f"message {seq}")]
    assert sent == [*expected, b"sound 0"]
    # Once, when it was full before.
    assert had_room == [True]
    assert outbox.counters.sent_by_track == {"video": MOST_KEPT - 1}
    assert outbox.counters.sent_bytes == sum(len(b"video %d" % seq) for seq in range(MOST_KEPT - 1))


def test_a_frame_that_is_kept_is_counted_with_the_encoding_and_rung_of_its_file(clock: FakeClock) -> None:
    metrics = Metrics()
    outbox = Outbox(ClientOptions(clock, metrics), View(codecs=("raw",)))
    outbox.keep_media(lambda: None)
    # It was encoded before the client chose another encoding.
    outbox.offer_frame(frame_of(0, {1: b"jpeg"}))
    header = MediaHeader("video", 1, 0, 0)
    outbox.offer_frame(EncodedFrame(header, {RAW: {0: MediaFile("video", header, b"raw")}}, 0.1))
    items = [outbox.take_next()[0] for _ in range(2)]
    assert [item.data for item in items if isinstance(item, MediaFile)] == [b"jpeg", b"raw"]
    assert dict(metrics.frames.sent) == {("video", "jpeg", 1): 1, ("video", "raw", 0): 1}


def raw_frame(seq: int, data: bytes) -> EncodedFrame:
    header = MediaHeader("video", seq, 0, 0)
    return EncodedFrame(header, {RAW: {0: MediaFile("video", header, data)}}, 0.1)


def take_raw(outbox: Outbox, seq: int, clock: FakeClock) -> bytes | None:
    """Offer a raw frame of 10 bytes; return what is sent now, None if it is to be tried again."""
    outbox.offer_frame(raw_frame(seq, bytes(10)))
    item, retry_at = outbox.take_next()
    assert item is not None or retry_at == clock.now() + RAW_RETRY_S
    return item.data if isinstance(item, MediaFile) else None


def watcher(options: ClientOptions, view: View, address: str | None) -> Outbox:
    outbox = Outbox(options, view)
    outbox.limit_raw(address)
    return outbox


def test_viewers_that_leave_too_many_bytes_of_raw_frames_unread_wait_for_each_other(clock: FakeClock) -> None:
    options, view = ClientOptions(clock, raw_bytes=RawBytes(10)), View(codecs=("raw",))
    first, second, controller = (watcher(options, view, address) for address in ("192.0.2.1", "192.0.2.2", None))
    assert take_raw(first, 0, clock)
    assert take_raw(second, 0, clock) is None
    assert take_raw(controller, 0, clock)
    # The socket of the first has taken its frame.
    assert first.take_next() == (None, None)
    assert take_raw(second, 1, clock)
    assert take_raw(first, 1, clock) is None
    # The second one is not served any more.
    second.notify_queued(None)
    assert take_raw(first, 2, clock)


def test_the_viewers_of_one_address_leave_others_half_of_the_raw_bytes(clock: FakeClock) -> None:
    options, view = ClientOptions(clock, raw_bytes=RawBytes(20)), View(codecs=("raw",))
    first, second, other = (watcher(options, view, f"192.0.2.{number}") for number in (1, 1, 2))
    assert take_raw(first, 0, clock)
    assert take_raw(second, 0, clock) is None
    assert take_raw(other, 0, clock)
    first.notify_queued(None)
    assert take_raw(second, 1, clock)


def flagged(seq: int, flags: FrameFlag = FrameFlag.AFTER_FLUSH) -> MediaHeader:
    return MediaHeader("video", seq, 0, 0, flags=flags)


def file_of(header: MediaHeader) -> MediaFile:
    return MediaFile("video", header, attach(header, b"\xff\xd8\xff\xd9"))


def video_piece(header: MediaHeader) -> bytes:
    return attach(header, write_message(VideoMessage(None, b"sample"), 0, 0, 1))


def sent_flags(outbox: Outbox) -> list[tuple[int, bool]]:
    """Return the numbers of what is sent now, and whether it has the flag for the first one after a flush."""
    found = []
    while isinstance(item := outbox.take_next()[0], MediaFile):
        assert detach(item.data)[0] == item.header
        found.append((item.header.seq, item.header.is_after_flush))
    return found


@pytest.mark.parametrize("replaces", ["frame", "viewers", "view", "view before", "piece"])
def test_what_is_sent_after_a_skipped_first_frame_after_a_flush_has_its_flag(
    outbox: Outbox, clock: FakeClock, replaces: str
) -> None:
    first = EncodedFrame(flagged(1), {DEFAULT: {0: file_of(flagged(1))}}, 0.1)
    second = EncodedFrame(header := flagged(2, FrameFlag(0)), {DEFAULT: {0: file_of(header)}}, 0.1)
    if replaces == "view before":
        outbox.set_view(View(tracks=()))
    if replaces == "viewers":
        outbox.skip_frame(first.header, "viewers")
    else:
        outbox.offer_frame(first)
    if replaces == "view":
        outbox.set_view(View(tracks=()))
    outbox.set_view(View())
    if replaces == "piece":
        begin_video(outbox, clock)
        outbox.put_piece(VideoPiece(MediaFile("video", header, video_piece(header)), "h264", True, 1 / 30, 1 / 30))
    else:
        outbox.offer_frame(second)
    assert sent_flags(outbox) == [(2, True)]
    outbox.track_sender("video").end_video()
    outbox.offer_frame(EncodedFrame(header := flagged(3, FrameFlag(0)), {DEFAULT: {0: file_of(header)}}, 0.1))
    assert sent_flags(outbox) == [(3, False)]


def test_a_frame_that_is_kept_has_the_flag_of_one_that_the_view_left_out(outbox: Outbox) -> None:
    outbox.keep_media(lambda: None)
    outbox.set_view(View(tracks=()))
    for header in (flagged(1), flagged(2, FrameFlag(0)), flagged(3, FrameFlag(0))):
        outbox.offer_frame(EncodedFrame(header, {DEFAULT: {0: file_of(header)}}, 0.1))
        outbox.set_view(View())
    assert sent_flags(outbox) == [(2, True), (3, False)]


def test_a_piece_of_video_from_before_a_flush_does_not_get_the_flag_of_a_skipped_frame(
    outbox: Outbox, clock: FakeClock
) -> None:
    begin_video(outbox, clock)
    before = flagged(1, FrameFlag(0))
    outbox.put_piece(VideoPiece(MediaFile("video", before, video_piece(before)), "h264", True, 1 / 30, 1 / 30))
    outbox.track_sender("video").end_video()
    for header in (flagged(2), flagged(3, FrameFlag(0))):
        outbox.offer_frame(EncodedFrame(header, {DEFAULT: {0: file_of(header)}}, 0.1))
    assert sent_flags(outbox) == [(1, False), (3, True)]


def test_the_flag_of_a_skipped_frame_ends_with_its_session(outbox: Outbox) -> None:
    outbox.skip_frame(flagged(1), "viewers")
    outbox.leave_session()
    header = flagged(0, FrameFlag(0))
    outbox.offer_frame(EncodedFrame(header, {DEFAULT: {0: file_of(header)}}, 0.1))
    assert sent_flags(outbox) == [(0, False)]


def flagged_sound(number: int, flags: FrameFlag = FrameFlag.AFTER_FLUSH) -> EncodedSound:
    header = replace(flagged(number, flags), track="audio")
    return EncodedSound(header, attach(header, wav.encode(np.zeros((1, 16), np.int16), 8000)), 0.6)


def test_sound_after_a_dropped_first_piece_after_a_flush_has_its_flag(outbox: Outbox) -> None:
    for number in range(3):
        outbox.queue_sound(flagged_sound(number, FrameFlag(number == 0)))
    assert sent_flags(outbox) == [(2, True)]


def test_a_piece_of_a_frame_that_was_sent_as_a_file_flags_no_other(outbox: Outbox) -> None:
    outbox.offer_frame(EncodedFrame(header := flagged(10), {DEFAULT: {0: file_of(header)}}, 0.1))
    assert sent_flags(outbox) == [(10, True)]
    outbox.put_piece(VideoPiece(MediaFile("video", header, video_piece(header)), "h264", True, 1 / 30, 1 / 30))
    outbox.acknowledge("video", 10)
    outbox.offer_frame(EncodedFrame(header := flagged(11, FrameFlag(0)), {DEFAULT: {0: file_of(header)}}, 0.1))
    assert sent_flags(outbox) == [(11, False)]


@pytest.mark.parametrize("waits", [False, True], ids=["before it comes", "while it waits"])
def test_sound_after_a_first_piece_after_a_flush_that_the_view_left_out_has_its_flag(
    outbox: Outbox, waits: bool
) -> None:
    if not waits:
        outbox.set_view(View(tracks=()))
    outbox.queue_sound(flagged_sound(0))
    outbox.set_view(View(tracks=()))
    outbox.set_view(View())
    for number in (1, 2):
        outbox.queue_sound(flagged_sound(number, FrameFlag(0)))
        assert sent_flags(outbox) == [(number, number == 1)]


def test_a_frame_that_is_skipped_is_counted_with_its_reason(clock: FakeClock) -> None:
    metrics = Metrics()
    outbox = Outbox(ClientOptions(clock, metrics), View(tracks=("left",)))
    outbox.skip_frame(MediaHeader("left", 0, 0, 0), "viewers")
    outbox.skip_frame(MediaHeader("right", 0, 0, 0), "viewers")
    assert (outbox.counters.offered, outbox.counters.skipped, metrics.skipped.counts["viewers"]) == (1, 1, 1)


async def test_tracks_replace_only_their_own_frames(outbox: Outbox) -> None:
    for seq in range(3):
        outbox.offer_frame(frame(seq, "left"))
        outbox.offer_frame(frame(seq, "right"))
    assert await drain(outbox) == [b"left 2", b"right 2"]


async def test_items_are_sent_in_the_order_of_queueing(outbox: Outbox) -> None:
    outbox.offer_frame(frame(1, "left"))
    outbox.queue_message("one")
    outbox.queue_sound(sound(1))
    outbox.offer_frame(frame(1, "right"))
    outbox.queue_message("two")
    assert await drain(outbox) == [b"left 1", "one", b"sound 1", b"right 1", "two"]


async def test_a_frame_waits_for_the_window_and_a_message_does_not(outbox: Outbox, clock: FakeClock) -> None:
    await close_window(outbox, clock)
    outbox.offer_frame(frame(100))
    outbox.queue_message("at once")
    assert await drain(outbox) == ["at once"]
    outbox.acknowledge("video", 2)
    assert await drain(outbox) == [b"video 100"]


async def close_window(outbox: Outbox, clock: FakeClock) -> None:
    """Acknowledge once, then send until no more is allowed."""
    outbox.offer_frame(frame(0))
    await drain(outbox)
    clock.spend(0.01)
    outbox.acknowledge("video", 0)
    for seq in range(1, 100):
        outbox.offer_frame(frame(seq))
        await drain(outbox)
    assert outbox.counters.skipped > 80


async def test_a_stalled_window_allows_the_newest_frame_at_the_retry_time(outbox: Outbox, clock: FakeClock) -> None:
    await close_window(outbox, clock)
    outbox.offer_frame(frame(200))
    item, retry_at = outbox.take_next()
    assert item is None
    assert retry_at is not None
    clock.spend(retry_at - clock.now())
    assert await drain(outbox) == [b"video 200"]


async def test_the_thousand_and_first_message_is_refused(outbox: Outbox) -> None:
    taken = [outbox.queue_message(str(number)) for number in range(MOST_MESSAGES + 1)]
    assert taken == [True] * MOST_MESSAGES + [False]
    assert await drain(outbox) == [str(number) for number in range(MOST_MESSAGES)]


async def test_messages_are_limited_in_encoded_bytes(outbox: Outbox) -> None:
    quarter = "é" * (MOST_MESSAGE_BYTES // 8)
    assert [outbox.queue_message(quarter) for _ in range(5)] == [True] * 4 + [False]
    assert outbox.take_next()[0] == quarter
    assert [outbox.queue_message(quarter) for _ in range(2)] == [True, False]


async def test_an_empty_queue_too_refuses_a_message_above_4_mib(outbox: Outbox) -> None:
    largest = "x" * MOST_MESSAGE_BYTES
    assert [outbox.queue_message(text) for text in (f"{largest}x", largest, "x")] == [False, True, False]
    assert await drain(outbox) == [largest]


async def test_more_than_a_second_of_sound_drops_the_oldest(outbox: Outbox) -> None:
    for number in range(15):
        outbox.queue_sound(sound(number))
    assert MOST_SOUND_S == 1
    assert await drain(outbox) == [b"sound %d" % number for number in range(5, 15)]


async def test_each_track_has_a_second_of_sound(outbox: Outbox) -> None:
    for number in range(0, 30, 2):
        outbox.queue_sound(sound(number, track="left"))
        outbox.queue_sound(sound(number + 1, 0.01, "right"))
    kept = [*range(10, 30, 2), *range(1, 30, 2)]
    assert await drain(outbox) == [b"sound %d" % number for number in sorted(kept)]


async def test_a_piece_longer_than_a_second_is_the_only_one_of_its_track(outbox: Outbox) -> None:
    for number in range(3):
        outbox.queue_sound(sound(number, 5.0))
    outbox.queue_sound(sound(3, 0.1, "other"))
    assert await drain(outbox) == [b"sound 2", b"sound 3"]


async def test_sound_that_was_sent_makes_room(outbox: Outbox) -> None:
    for first in range(0, 100, 5):
        for number in range(first, first + 5):
            outbox.queue_sound(sound(number))
        assert await drain(outbox) == [b"sound %d" % number for number in range(first, first + 5)]


async def test_sound_is_kept_while_frames_are_skipped(outbox: Outbox, clock: FakeClock) -> None:
    await close_window(outbox, clock)
    for number in range(200, 208):
        outbox.offer_frame(frame(number))
        outbox.queue_sound(sound(number))
    assert await drain(outbox) == [b"sound %d" % number for number in range(200, 208)]
    assert outbox.counters.skipped > 80


async def test_dropped_sound_is_not_sent_and_later_sound_is(outbox: Outbox) -> None:
    outbox.queue_sound(sound(1))
    outbox.offer_frame(frame(1))
    outbox.sounds.drop_tracks()
    for number in range(2, 12):
        outbox.queue_sound(sound(number))
    assert await drain(outbox) == [b"video 1", *(b"sound %d" % number for number in range(2, 12))]


async def test_sound_of_a_track_outside_the_new_view_is_dropped(outbox: Outbox) -> None:
    for number, track in enumerate(("left", "right", "left")):
        outbox.queue_sound(sound(number, track=track))
    outbox.set_view(View(tracks=("right",)))
    assert await drain(outbox) == [b"sound 1"]


async def test_pausing_drops_waiting_media_and_leaves_messages(outbox: Outbox) -> None:
    outbox.offer_frame(frame(1))
    outbox.set_view(View(paused=True))
    outbox.offer_frame(frame(2))
    outbox.queue_sound(sound(1))
    outbox.queue_message("still here")
    assert await drain(outbox) == ["still here"]
    outbox.set_view(View())
    outbox.offer_frame(frame(3))
    assert await drain(outbox) == [b"video 3"]


async def test_a_client_gets_the_tracks_of_its_view(outbox: Outbox) -> None:
    outbox.set_view(View(tracks=("left",)))
    for track in ("left", "right"):
        outbox.offer_frame(frame(1, track))
    outbox.queue_sound(sound(1))
    assert await drain(outbox) == [b"left 1"]


async def test_a_frame_that_is_not_in_the_encoding_of_the_client_is_sent_in_the_default_one(clock: FakeClock) -> None:
    metrics = Metrics()
    outbox = Outbox(ClientOptions(clock, metrics, encodings=(*ENCODINGS, PNG)), View(codecs=("png",)))
    outbox.offer_frame(frame(1))
    assert await drain(outbox) == [b"video 1"]
    assert dict(metrics.frames.sent) == {("video", "jpeg", 0): 1}


@pytest.mark.parametrize("encoding", [RAW, PNG], ids=lambda encoding: str(encoding.name))
def test_a_frame_without_a_file_that_the_client_can_decode_is_not_queued(
    clock: FakeClock, encoding: TrackEncoding
) -> None:
    outbox = Outbox(ClientOptions(clock, encodings=(*ENCODINGS, PNG)))
    frame_alone = replace(frame(1), files={encoding: frame(1).files[DEFAULT]})
    assert not outbox.accepts(frame_alone)
    outbox.offer_frame(frame_alone)
    assert outbox.take_next() == (None, None)


async def test_a_frame_that_waits_is_sent_when_the_client_changes_its_encoding(clock: FakeClock) -> None:
    outbox = Outbox(ClientOptions(clock, encodings=(*ENCODINGS, PNG)))
    outbox.offer_frame(frame(1))
    outbox.set_view(View(codecs=("png",)))
    assert await drain(outbox) == [b"video 1"]


async def test_a_view_in_the_same_encoding_keeps_what_waits_and_what_is_known_of_the_path(outbox: Outbox) -> None:
    outbox.offer_frame(frame(1))
    sender = outbox.track_sender("video")
    outbox.set_view(View(max_fps=60))
    assert outbox.track_sender("video") is sender
    assert await drain(outbox) == [b"video 1"]


@pytest.mark.parametrize("max_fps", [10.0, 15.0, 24.0])
async def test_a_client_gets_at_most_the_rate_of_its_view(outbox: Outbox, clock: FakeClock, max_fps: float) -> None:
    outbox.set_view(View(max_fps=max_fps))
    received = 0
    for seq in range(30 * 5):
        outbox.offer_frame(frame(seq))
        received += len(await drain(outbox))
        clock.spend(1 / 30)
    assert 5 * max_fps * 0.9 <= received <= 5 * max_fps + 1


async def test_a_higher_rate_holds_from_the_next_frame_on(outbox: Outbox) -> None:
    outbox.set_view(View(max_fps=0.01))
    for seq in (1, 2):
        outbox.offer_frame(frame(seq))
        assert await drain(outbox) == [b"video 1"][seq - 1 :]
    outbox.set_view(View())
    assert await drain(outbox) == [b"video 2"]


async def test_a_finished_outbox_sends_its_messages_and_nothing_else(outbox: Outbox) -> None:
    outbox.offer_frame(frame(1))
    outbox.queue_sound(sound(1))
    outbox.queue_message("goodbye")
    outbox.finish()
    outbox.offer_frame(frame(2))
    assert await drain(outbox) == ["goodbye"]
    assert outbox.finished
    assert outbox.take_next() == (None, None)


@pytest.mark.parametrize(
    "change",
    [
        lambda outbox: outbox.queue_message("hello"),
        lambda outbox: outbox.queue_sound(sound(1)),
        lambda outbox: outbox.offer_frame(frame(1)),
        lambda outbox: outbox.acknowledge("video", 0),
        lambda outbox: outbox.set_view(View(max_fps=60)),
        lambda outbox: outbox.finish(),
    ],
    ids=["message", "sound", "frame", "acknowledgement", "view", "finish"],
)
async def test_the_sender_is_notified_of_each_change_that_may_allow_it_to_send(
    outbox: Outbox, change: Callable[[Outbox], object]
) -> None:
    notified: list[None] = []
    outbox.offer_frame(frame(0))
    outbox.notify_queued(lambda: notified.append(None))
    change(outbox)
    assert len(notified) == 1


async def test_an_acknowledgement_of_an_unknown_track_is_ignored(outbox: Outbox) -> None:
    outbox.acknowledge("no such track", 5)
    assert not outbox.track_senders


def on_rungs(seq: int, *rungs: int) -> EncodedFrame:
    """Make a frame on these rungs only, whose files name their rung."""
    return frame_of(seq, {rung: b"rung %d" % rung for rung in rungs})


@pytest.mark.parametrize(
    ("wanted", "encoded", "sent"),
    [
        (0, (0, 3), 0),
        (3, (0, 3), 3),
        (2, (0, 3), 3),
        (5, (0, 3), 3),
        (1, (2, 4), 2),
        (6, (0,), 0),
        (4, (0, 2, 5, 6), 5),
    ],
)
def test_a_client_gets_the_file_of_its_rung_or_of_the_next_worse_one(
    wanted: int, encoded: tuple[int, ...], sent: int
) -> None:
    assert on_rungs(1, *encoded).file_on(DEFAULT, wanted) == (sent, on_rungs(1, sent).file_on(DEFAULT, sent)[1])


async def test_a_client_that_skips_most_frames_gets_smaller_ones(outbox: Outbox, clock: FakeClock) -> None:
    taken = []
    for seq in range(90):
        outbox.offer_frame(on_rungs(seq, *range(7)))
        if seq % 10 == 0:
            outbox.acknowledge("video", seq - 10)
            taken += await drain(outbox)
        clock.spend(1 / 30)
    rung = outbox.track_senders["video"].ladder.rung
    assert rung > 0
    assert taken[0] == b"rung 0"
    assert b"rung %d" % rung in taken


def test_the_held_flag_is_set_on_every_rung() -> None:
    file = attach(MediaHeader("video", 7, 1, 2, 3), jpeg.encode(pixels(9)))
    held = frame_of(7, {0: file, 4: file}).as_held()
    for held_file in held.files[DEFAULT].values():
        header, _ = detach(held_file.data)
        assert header is not None
        assert header.flags == FrameFlag.HELD


def test_a_held_frame_differs_only_in_its_flag() -> None:
    header = MediaHeader("video", 7, 1, 2, 3, FrameFlag.AFTER_FLUSH)
    file = jpeg.encode(pixels(9))
    files = {0: MediaFile("video", header, attach(header, file))}
    held = EncodedFrame(header, {DEFAULT: files}, 0.1).as_held()
    again, same = detach(held.files[DEFAULT][0].data)
    assert same == file
    assert again == held.header == MediaHeader("video", 7, 1, 2, 3, FrameFlag.AFTER_FLUSH | FrameFlag.HELD)


@given(st.lists(st.sampled_from(["message", "frame", "sound", "take"]), max_size=60))
def test_order_is_kept_and_nothing_is_sent_twice(actions: list[str]) -> None:
    async def play() -> None:
        outbox = Outbox(ClientOptions(FakeClock()))
        messages: list[str] = []
        taken: list[str | bytes] = []
        for number, action in enumerate(actions):
            if action == "message":
                messages.append(str(number))
                outbox.queue_message(str(number))
            elif action == "frame":
                outbox.offer_frame(frame(number))
            elif action == "sound":
                outbox.queue_sound(sound(number))
            else:
                taken += await drain(outbox)
        taken += await drain(outbox)
        assert [item for item in taken if isinstance(item, str)] == messages
        numbers = [int(item.split()[-1]) for item in taken]
        assert numbers == sorted(set(numbers))
        counters = outbox.counters
        assert counters.offered == counters.sent + counters.skipped

    asyncio.run(play())


async def test_a_hundred_short_pieces_of_sound_last_a_second(outbox: Outbox) -> None:
    for number in range(101):
        outbox.queue_sound(sound(number, 0.01))
    assert await drain(outbox) == [b"sound %d" % number for number in range(1, 101)]


async def test_as_many_pieces_of_sound_are_dropped_as_a_longer_one_needs(outbox: Outbox) -> None:
    for number, duration_s in enumerate((0.4, 0.4, 0.2, 0.7)):
        outbox.queue_sound(sound(number, duration_s))
    assert await drain(outbox) == [b"sound 2", b"sound 3"]


def test_a_finished_outbox_that_keeps_media_has_room_for_ever(outbox: Outbox) -> None:
    outbox.keep_media(lambda: None)
    for number in range(MOST_KEPT):
        outbox.queue_sound(sound(number))
    assert not outbox.has_room
    outbox.finish()
    assert outbox.has_room


def test_a_view_without_encodings_or_seat_keeps_those_of_the_view_before(clock: FakeClock) -> None:
    outbox = Outbox(ClientOptions(clock), View(codecs=("raw",), seat=1))
    outbox.set_view(View(max_fps=60))
    assert (outbox.encoding, outbox.view) == (RAW, View(max_fps=60, codecs=("raw",), seat=1))
    outbox.set_view(View(codecs=()))
    assert outbox.encoding is DEFAULT


async def test_the_frame_that_has_waited_longest_is_sent_first(outbox: Outbox) -> None:
    for seq, track in ((0, "left"), (0, "right"), (1, "left")):
        outbox.offer_frame(frame(seq, track))
    assert await drain(outbox) == [b"right 0", b"left 1"]


def test_the_next_attempt_is_when_the_first_of_several_tracks_may_be_sent(outbox: Outbox, clock: FakeClock) -> None:
    outbox.set_view(View(max_fps=10))
    times: list[float | None] = []
    for track in ("left", "right"):
        outbox.offer_frame(frame(0, track))
        assert outbox.take_next()[0] is not None
        outbox.offer_frame(frame(1, track))
        times.append(outbox.take_next()[1])
        clock.spend(0.02)
    assert times[0] is not None
    assert outbox.take_next() == (None, times[0])


def test_a_frame_that_is_replaced_counts_by_the_reason(clock: FakeClock) -> None:
    metrics = Metrics()
    outbox = Outbox(ClientOptions(clock, metrics))
    for seq in range(3):
        outbox.offer_frame(frame(seq))
    assert sum(metrics.skipped.counts.values()) == 2


def piece(seq: int) -> VideoPiece:
    file = MediaFile("video", MediaHeader("video", seq, 0, 0), b"piece %d" % seq)
    return VideoPiece(file, "h264", is_key=seq == 0, interval_s=1 / 30, paced_s=1 / 30)


def begin_video(outbox: Outbox, clock: FakeClock) -> None:
    sender = outbox.track_sender("video")
    sender.video_rate(clock.now())
    sender.begin_video("h264", on_room=lambda: None, on_key_wanted=lambda: None)


async def test_a_piece_of_video_takes_the_place_of_a_file_that_waits(outbox: Outbox, clock: FakeClock) -> None:
    outbox.offer_frame(frame(0))
    outbox.offer_frame(frame(0, "other"))
    begin_video(outbox, clock)
    outbox.put_piece(piece(1))
    outbox.put_piece(piece(2))
    assert await drain(outbox) == [b"other 0", b"piece 1", b"piece 2"]


async def test_a_piece_for_a_track_that_gets_files_again_is_not_sent(outbox: Outbox, clock: FakeClock) -> None:
    begin_video(outbox, clock)
    outbox.track_sender("video").end_video()
    outbox.offer_frame(frame(0))
    outbox.put_piece(piece(1))
    assert await drain(outbox) == [b"video 0"]


async def test_pieces_that_wait_are_dropped_with_the_media_and_the_next_one_may_be_encoded(
    outbox: Outbox, clock: FakeClock
) -> None:
    begin_video(outbox, clock)
    sender = outbox.track_sender("video")
    sender.unsent += 1
    outbox.put_piece(piece(7))
    assert sender.room_at(clock.now()) == math.inf
    outbox.drop_media()
    assert await drain(outbox) == []
    assert sender.room_at(clock.now()) <= clock.now()


async def test_frames_of_the_session_before_leave_room_for_those_of_the_next(outbox: Outbox, clock: FakeClock) -> None:
    await close_window(outbox, clock)
    outbox.leave_session()
    outbox.offer_frame(frame(0))
    assert await drain(outbox) == [b"video 0"]
