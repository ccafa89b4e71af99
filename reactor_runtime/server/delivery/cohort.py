"""Cohorts: clients that take the same frames of a track as video, and share one encoder.

A frame that depends on those before it cannot be skipped after it was encoded. So the newest frame waits before the
encoder, until every member has room for it. Which clients are in which cohort is left to `cohorts.py`.
"""

from __future__ import annotations

import logging
import math
import statistics
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.clock import Clock, Timer
from reactor_runtime.server.delivery.client import Client
from reactor_runtime.server.delivery.fanout import CohortPiece
from reactor_runtime.server.delivery.track_sender import TrackSender
from reactor_runtime.server.encoding.encoded import EncodedFrame, MediaFile, VideoPiece
from reactor_runtime.server.encoding.encoder import Encoder
from reactor_runtime.server.encoding.video_encoding import VideoEncoding
from reactor_runtime.server.telemetry.metrics import Metrics
from reactor_runtime.wire.media_header import MediaHeader

logger = logging.getLogger(__name__)

# Clients that join within this time of each other share a key, but none waits longer than that.
SHARED_KEY_S, LONGEST_WAIT_S = 0.3, 1.0
# Keys that clients ask for.
SHORTEST_KEYS_S = 1.0
# A member holds the others up if they wait for it longer than an interval, for so many of the last frames.
HELD_UP, OF_FRAMES = 3, 10
# Or once for so long, as a stalled one does.
LONGEST_HELD_UP_S = 0.2
# The rates of the members of a cohort differ by less than this factor.
SPREAD = 2.5
# Bits of a pixel that no encoder needs more of.
MOST_BITS_A_PIXEL = 1.0
# The bits of a frame change when the time between frames has changed by this factor.
PACE_CHANGE = 1.4
# The encoder is too slow if half of this many frames take it longer than this share of the time between them.
BUSY_FRAMES, BUSY_SHARE = 30, 0.5


class Member:
    """A client in a cohort; after a break in its stream, it becomes another member."""

    def __init__(self, client: Client, sender: TrackSender) -> None:
        self.client = client
        self.sender = sender
        # Whether a key was encoded for it, which is also before the key is published.
        self.has_key = False
        # How long the first member with room waited for this one, and whether that was too long for the last frames.
        self.delay_s = 0.0
        self.late: deque[bool] = deque(maxlen=OF_FRAMES)

    @property
    def bits_per_s(self) -> float:
        return math.inf if self.sender.rate is None else self.sender.rate.bits_per_s


class _Piece(NamedTuple):
    data: bytes
    encode_s: float


class Cohort:
    """Encode the newest frame of a track whenever all members have room for another; belongs to the server's loop.

    One frame is encoded at a time, in order. A newer frame replaces the one that waits. A new member gets the next key,
    which members that join within 300 ms share. Calls `on_files` with a client that gets files until the next key,
    `on_late` with members that hold the others up or whose network is much slower, and `on_failed` with the reason when
    the encoder fails or is too slow.
    """

    def __init__(
        self,
        encoding: VideoEncoding,
        encoder: Encoder,
        clock: Clock,
        publish: Callable[[CohortPiece], None],
        metrics: Metrics,
        *,
        on_files: Callable[[Client], None],
        on_late: Callable[[Cohort, Member], None],
        on_failed: Callable[[str], None],
    ) -> None:
        self.members: dict[Client, Member] = {}
        self.encoding = encoding
        self._encoder = encoder
        self._clock = clock
        self._publish = publish
        self._metrics = metrics
        self._on_files = on_files
        self._on_late = on_late
        self._on_failed = on_failed
        self._video = encoding.open(max(1, len(encoder.threads) - 1))
        self._waiting: EncodedFrame | None = None
        # Members without room for the frame that waits; None if no frame waits, or one is being encoded.
        self._closed: set[Member] | None = None
        self._first_room_at: float | None = None
        self._is_encoding = False
        # What was encoded before a reset is not published.
        self._stream = 0
        self._needs_key = False
        self._key_at = math.inf
        self._latest_key_at = self._first_join_at = -math.inf
        self._timer: Timer | None = None
        self._started_at = -math.inf
        self._pace_s = 0.0
        # The bits of a frame, and the rate and pace that they are for.
        self._budget = (0, 0.0, 1.0)
        self._encode_s: deque[float] = deque(maxlen=BUSY_FRAMES)
        # Between the starts of these.
        self._gaps: deque[float] = deque(maxlen=BUSY_FRAMES)

    @property
    def bits_per_s(self) -> float:
        """Return the rate that all members can take."""
        return min((member.bits_per_s for member in self.members.values()), default=math.inf)

    @property
    def _viewing(self) -> list[Member]:
        return [member for member in self.members.values() if member.has_key]

    def join(self, client: Client, sender: TrackSender) -> None:
        """Add a client, which gets files until its first key is published."""
        now = self._clock.now()
        viewed = bool(self._viewing)
        self.members[client] = Member(client, sender)
        if self._key_at == math.inf:
            self._first_join_at = now
        wanted_at = min(now + SHARED_KEY_S, self._first_join_at + LONGEST_WAIT_S) if viewed else now
        self._key_at = max(wanted_at, self._latest_key_at + SHARED_KEY_S)
        self._look(now)

    def leave(self, client: Client) -> None:
        """Remove a client, which gets files from here on."""
        member = self.members.pop(client, None)
        if member is None:
            return
        member.sender.end_video()
        if not self.members:
            self.reset()
        elif self._closed is not None:
            self._closed.discard(member)
            self._start_or_wait(self._clock.now())

    def reset(self) -> None:
        """Drop the frame that waits, and begin with a key: another session follows."""
        self._waiting = self._closed = None
        self._stream += 1
        self._needs_key = True
        if self._timer is not None:
            self._timer.cancel()

    def offer_frame(self, frame: EncodedFrame) -> None:
        """Encode a frame when all members have room, unless a newer one is offered before."""
        if frame.pixels is None or not self.members:
            return
        # Before it can wait: a member that leaves would start to encode it.
        if not self.encoding.accepts(*frame.pixels.shape[:2]):
            self._on_failed("unsupported")
            return
        now = self._clock.now()
        first_room_at = now if self._first_room_at is None else self._first_room_at
        if self._closed and now - first_room_at > max(LONGEST_HELD_UP_S, HELD_UP * frame.interval_s):
            for member in tuple(self._closed):
                self._on_late(self, member)
        for member in self._viewing:
            counters = member.client.outbox.counters
            counters.offered += 1
            if self._waiting is not None:
                counters.skipped += 1
                self._metrics.skipped.add(member.sender.piece_skipped(now))
        if self._waiting is not None and self._waiting.header.is_after_flush:
            frame = replace(frame, header=frame.header.as_after_flush())
        self._waiting = frame
        self._needs_key |= frame.header.is_after_flush
        self._look(now)

    def _look(self, now: float) -> None:
        """Start to encode the frame that waits, or find the members that it waits for."""
        if self._waiting is None or self._is_encoding:
            return
        if self._closed is None:
            viewing = self._viewing
            self._closed = {member for member in viewing if member.sender.room_at(now) > now}
            self._first_room_at = now if len(self._closed) < len(viewing) else None
        self._start_or_wait(now)

    def _on_room(self, member: Member) -> None:
        """Called when a member may have room again."""
        if self._closed is not None and member in self._closed:
            now = self._clock.now()
            self._open(member, now)
            self._start_or_wait(now)

    def _on_key_wanted(self, member: Member) -> None:
        """Begin the stream of a member anew, which gets files until then; at most once a second."""
        if self._closed is not None:
            self._closed.discard(member)
        member.sender.end_video()
        self.join(member.client, member.sender)
        self._key_at = max(self._key_at, self._latest_key_at + SHORTEST_KEYS_S)
        self._on_files(member.client)

    def _open(self, member: Member, now: float) -> None:
        if self._closed is None or member.sender.room_at(now) > now:
            return
        self._closed.discard(member)
        if self._first_room_at is None:
            self._first_room_at = now
        member.delay_s = now - self._first_room_at

    def _start_or_wait(self, now: float) -> None:
        if self._waiting is None or self._closed is None:
            return
        waits_until = [member.sender.room_at(now) for member in self._closed]
        if not self._closed and not self._viewing and self._key_at > now:
            waits_until.append(self._key_at)
        if not waits_until:
            self._start(self._waiting, now)
            return
        if self._timer is not None:
            self._timer.cancel()
        if (at := min(waits_until)) < math.inf:
            self._timer = self._clock.call_at(at, self._on_time)

    def _on_time(self) -> None:
        now = self._clock.now()
        for member in tuple(self._closed or ()):
            self._open(member, now)
        self._start_or_wait(now)

    def _start(self, frame: EncodedFrame, now: float) -> None:
        pixels = frame.pixels
        assert pixels is not None, "frames without pixels are not offered"
        self._waiting = self._closed = None
        self._is_encoding = True
        viewing = self._viewing
        for member in viewing:
            member.late.append(member.delay_s > frame.interval_s)
            member.delay_s = 0.0
        key = self._needs_key or self._key_at <= now
        if key:
            self._needs_key, self._key_at, self._latest_key_at = False, math.inf, now
            viewing = list(self.members.values())
            for member in viewing:
                member.has_key = True
        bits = self._bits_of(frame, pixels, viewing, now)
        work = partial(self._encode, pixels, frame.header, frame.interval_s, bits, key)
        self._encoder.submit([work], partial(self._on_encoded, frame, viewing, self._stream, key))

    def _bits_of(self, frame: EncodedFrame, pixels: NDArray[np.uint8], members: Sequence[Member], now: float) -> int:
        """Return the bits of a frame, for the slowest member's rate and the time between frames."""
        self._gaps.append(now - self._started_at)
        self._started_at = now
        # Frames that wait for the network must not get larger for it, nor for a member that takes few of them.
        self._pace_s = min((member.sender.pace_s(frame.interval_s) for member in members), default=frame.interval_s)
        rate = min((member.bits_per_s for member in members), default=0.0)
        bits, for_rate, for_pace_s = self._budget
        change = self._pace_s / for_pace_s
        if rate != for_rate or not 1 / PACE_CHANGE <= change <= PACE_CHANGE:
            height, width, _ = pixels.shape
            bits = round(min(rate * self._pace_s, height * width * MOST_BITS_A_PIXEL))
            self._budget = (bits, rate, self._pace_s)
        return bits

    def _encode(
        self, pixels: NDArray[np.uint8], header: MediaHeader, interval_s: float, bits: int, key: bool
    ) -> _Piece:
        """Encode a frame; runs on an encoder thread."""
        began = self._clock.now()
        data = self._video.encode(pixels, header, interval_s, bits=bits, key=key)
        return _Piece(data, self._clock.now() - began)

    def _on_encoded(
        self, frame: EncodedFrame, members: Iterable[Member], stream: int, key: bool, outcome: Future[list[_Piece]]
    ) -> None:
        self._is_encoding = False
        if not self.members:
            return
        if (error := outcome.exception()) is not None:
            logger.error(
                "encoding %s as %s failed: its clients get files", frame.track, self.encoding.name, exc_info=error
            )
            self._on_failed("unsupported")
            return
        (encoded,) = outcome.result()
        self._metrics.frames.encoded[frame.track, self.encoding.name, 0] += 1
        if stream == self._stream:
            self._publish_piece(frame, encoded.data, members, key=key)
        if self._is_too_slow(encoded.encode_s):
            self._on_failed("codec_busy")
            return
        for member in self._late_members():
            self._on_late(self, member)
        self._look(self._clock.now())

    def _publish_piece(self, frame: EncodedFrame, data: bytes, members: Iterable[Member], *, key: bool) -> None:
        present = [member for member in members if self.members.get(member.client) is member]
        for member in present:
            if member.sender.takes_video is None:
                member.sender.begin_video(
                    self.encoding.name,
                    on_room=partial(self._on_room, member),
                    on_key_wanted=partial(self._on_key_wanted, member),
                )
            member.sender.unsent += 1
        file = MediaFile("video", frame.header, data)
        piece = VideoPiece(file, self.encoding.name, key, frame.interval_s, self._budget[2])
        self._publish(CohortPiece(piece, {member.client for member in present}))

    def _is_too_slow(self, encode_s: float) -> bool:
        self._encode_s.append(encode_s)
        if len(self._encode_s) < BUSY_FRAMES:
            return False
        gap_s = max(self._pace_s, statistics.median(self._gaps))
        return statistics.median(self._encode_s) > BUSY_SHARE * gap_s

    def _late_members(self) -> list[Member]:
        """Return the members that the others should not wait for, or share a rate with."""
        viewing = self._viewing
        fastest = max((member.bits_per_s for member in viewing), default=0.0)
        late = [member for member in viewing if sum(member.late) >= HELD_UP or member.bits_per_s * SPREAD < fastest]
        return late if len(late) < len(viewing) else []
