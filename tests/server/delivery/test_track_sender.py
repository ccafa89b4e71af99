"""A track on its way to a client that paints slowly: the age of each frame when it is acknowledged."""

from __future__ import annotations

from collections import deque

import pytest

from reactor_runtime.server.delivery.track_sender import TrackSender
from reactor_runtime.server.encoding.encoded import EncodedFrame, MediaFile
from reactor_runtime.server.encoding.encodings import DEFAULT
from reactor_runtime.wire.media_header import MediaHeader

MS = 0.001
FPS = 60


def frame_of(seq: int, size_bytes: int) -> EncodedFrame:
    header = MediaHeader("main_video", seq, 0, 0)
    files = {
        rung: MediaFile("video", header, bytes(int(size_bytes * each.share))) for rung, each in enumerate(DEFAULT.rungs)
    }
    return EncodedFrame(header, {DEFAULT: files}, 1 / FPS)


def painted(size_bytes: int, paint_s: float, seconds: float) -> tuple[list[tuple[float, float]], int]:
    """Send frames of noise to a client that paints one after the other and acknowledges each when it is painted.

    Return when each frame was acknowledged and how old it was then, and how many were skipped.
    """
    sender = TrackSender(DEFAULT)
    waiting: tuple[EncodedFrame, float] | None = None
    queue: deque[tuple[int, float]] = deque()
    painting: tuple[float, int, float] | None = None
    ages, made, skipped = [], 0, 0
    for tick in range(int(seconds / MS)):
        now = 1.0 + tick * MS
        if painting is not None and painting[0] <= now:
            _, seq, made_at = painting
            painting = None
            ages.append((now - 1.0, now - made_at))
            sender.frames_acknowledged(seq, now)
        if tick * MS >= made / FPS:
            if waiting is not None:
                sender.frame_skipped(now)
                skipped += 1
            waiting, made = (frame_of(made, size_bytes), now), made + 1
        if waiting is not None and sender.next_send_at(now) <= now:
            sender.send_frame(waiting[0], DEFAULT, now, None)
            queue.append((waiting[0].seq, waiting[1]))
            waiting = None
        if painting is None and queue:
            painting = (now + paint_s, *queue.popleft())
    return ages, skipped


@pytest.mark.parametrize("size_bytes", [200_000, 330_000])
def test_no_frame_of_a_slow_painter_s_first_two_seconds_is_old(size_bytes: int) -> None:
    ages, _ = painted(size_bytes, 0.067, 6.0)
    assert max(age for at, age in ages if at < 2.0) <= 0.150
    assert len([at for at, _ in ages if at < 2.0]) >= 0.9 * 2 / 0.067


@pytest.mark.parametrize("size_bytes", [30_000, 330_000, 1_000_000])
def test_a_client_that_paints_every_frame_in_time_loses_none(size_bytes: int) -> None:
    ages, skipped = painted(size_bytes, 0.004, 2.0)
    assert skipped == 0
    assert max(age for _, age in ages) <= 0.006
