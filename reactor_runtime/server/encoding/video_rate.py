"""The rate of a video stream that one client's network carries, from the acknowledgements of its frames.

Pure: the time is an argument. A JPEG's quality is chosen by `ladder.py`.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

LOWEST_BITS_PER_S, HIGHEST_BITS_PER_S = 64e3, 64e6
# The share of the measured rate that is used after a fall.
SPARE = 0.85
# The factor of a climb, and the share of the rate that has to be in use for one.
STEP, IN_USE = 1.3, 0.7
# The share that frames must have of what they may have, for a fall.
LEAST_IN_USE = 0.5
# Frames that wait on their way, besides this time, for an interval are late; two of them show a slow network, and so
# does this share of skipped frames.
JITTER_S, LATE_FRAMES, SKIPS = 0.01, 2, 0.1
# So many are needed for DOUBTED_S after a fall: the rate then leaves room, so that late frames are more likely those of
# a busy machine.
LATE_AFTER_FALL = 4
# No climb while frames wait for so many intervals.
WAITED_INTERVALS = 0.5
# Only gaps of more intervals than these are signs of that: of the latest frames, or the median of a second. After a
# stall the frames follow each other quickly.
SLOWER, STEADILY_SLOWER = 1.1, 1.04
# In the second after a climb frames are late that wait for this share of an interval, and STEADILY_SLOWER is enough:
# the climb is then the likely cause.
LATE_AFTER_CLIMB = 0.25
# A climb by STEP makes round trips longer by 0.23 of an interval where it puts the whole network to use. Near that, the
# next climb would fail; beyond, this one has failed.
NEAR_LIMIT, BEYOND_LIMIT = 0.2, 0.25
# A smaller change of the rate is not worth a key.
WORTH_A_KEY = 0.95
# The wait before a climb: while the network may carry more, after a fall, and at most after climbs that failed.
SOON_S, DOUBTED_S, LONGEST_S = 1.0, 16.0, 64.0
# The share of the round trips after a fall below which the network has become better.
FASTER = 0.85
# A client that holds frames for this share of the time between them is itself what limits their number.
HELD_SHARE = 0.8
LOOK_BACK_S = 1.0
SHORTEST_S = 10.0
MOST_IN_FLIGHT = 256


class _Sent(NamedTuple):
    seq: int
    size_bytes: int
    interval_s: float
    at: float


class _Arrived(NamedTuple):
    at: float
    bits: float
    frames: int
    interval_s: float
    round_trip_s: float
    held_s: float


class _Shortest(NamedTuple):
    at: float
    round_trip_s: float
    bits: float


class VideoRate:
    """Follow what one client's network carries, in bits a second.

    Falls to the measured rate when frames queue on their way: when two in a row wait for an interval, or four in the
    16 s after a fall; in the second after a climb a quarter of an interval is enough. Climbs by 30 % while the rate is
    in use and no frame is late: each second until a climb makes round trips so much longer that the next one would
    fail, then after 16 s, and twice as long after each one that fails. If the round trips become shorter, the network
    has changed, and it climbs each second again. A rate that is not in use, as with a still image, stays: it would be a
    guess.
    """

    def __init__(self, bits_per_s: float, now: float, patience_s: float = SOON_S) -> None:
        self.bits_per_s = _within(bits_per_s)
        self._patience_s = patience_s
        self._changed_at = now
        self._climbed_at = self._fell_at = -math.inf
        self._late_frames = 0
        self._in_flight: deque[_Sent] = deque(maxlen=MOST_IN_FLIGHT)
        self._arrived: deque[_Arrived] = deque()
        self._skipped: deque[float] = deque(maxlen=MOST_IN_FLIGHT)
        self._shortest: deque[_Shortest] = deque()
        # The time that a client takes to paint a frame, if it holds each until the one before is painted; else 0.
        self.painter_s = 0.0
        # The median round trip in the second after the last change.
        self._typical_s: float | None = None
        # The median round trip before a climb, until the climb is judged a second later.
        self._before_climb_s: float | None = None

    @property
    def fastest_bits_per_s(self) -> float:
        """Return a rate that the network has shown to carry: that of the fastest frame of the last second."""
        return max((each.bits / each.frames / max(each.round_trip_s, 1e-4) for each in self._arrived), default=0.0)

    def frame_sent(self, seq: int, size_bytes: int, interval_s: float, now: float) -> None:
        """Count a message as sent; `interval_s` is the time for which the encoder had its bits."""
        if self._in_flight and seq <= self._in_flight[-1].seq:
            self._in_flight.clear()
        self._in_flight.append(_Sent(seq, size_bytes, interval_s, now))

    def frame_skipped(self, now: float) -> None:
        """Count a frame that was replaced while the client's window was closed."""
        self._skipped.append(now)

    def frames_acknowledged(self, seq: int, held_s: float, now: float) -> None:
        """Count all frames up to `seq` as shown, the last of them so many seconds after its receipt."""
        if not self._in_flight or not self._in_flight[0].seq <= seq <= self._in_flight[-1].seq:
            return
        size_bytes = frames = 0
        while self._in_flight and self._in_flight[0].seq <= seq:
            sent = self._in_flight.popleft()
            size_bytes, frames = size_bytes + sent.size_bytes, frames + 1
        round_trip_s = max(0.0, now - sent.at - held_s)
        self._arrived.append(_Arrived(now, 8 * size_bytes, frames, sent.interval_s, round_trip_s, held_s))
        while now - self._arrived[0].at > LOOK_BACK_S and len(self._arrived) > LATE_FRAMES + 1:
            self._arrived.popleft()
        self._follow_painter()
        while self._skipped and now - self._skipped[0] > LOOK_BACK_S:
            self._skipped.popleft()
        waited_s = round_trip_s - self._unhindered(round_trip_s, 8 * size_bytes / frames, now) - JITTER_S
        # Frames of the rate before may still be on the way.
        if sent.at >= self._changed_at:
            late_s = (LATE_AFTER_CLIMB if self._has_just_climbed(now) else 1) * sent.interval_s
            self._late_frames = self._late_frames + 1 if waited_s > late_s else 0
            self._decide(waited_s > WAITED_INTERVALS * sent.interval_s, now)

    def _follow_painter(self) -> None:
        if len(self._arrived) <= LATE_FRAMES:
            return
        gap_s = statistics.median(self._gaps(len(self._arrived)))
        held_s = statistics.median(each.held_s for each in self._arrived)
        if held_s > HELD_SHARE * gap_s:
            self.painter_s = min(gap_s, held_s)
        # Where the network is what limits the frames, the client need not have become faster.
        elif min(gap_s, held_s) < HELD_SHARE * self.painter_s:
            self.painter_s = 0.0

    def _decide(self, waited: bool, now: float) -> None:
        interval_s = self._arrived[-1].interval_s
        settled = now - self._changed_at >= LOOK_BACK_S
        slower = STEADILY_SLOWER if self._has_just_climbed(now) else SLOWER
        enough = LATE_AFTER_FALL if now - self._fell_at < DOUBTED_S else LATE_FRAMES
        if self._late_frames >= enough and min(self._gaps(enough + 1)) > slower * interval_s:
            self._fall(LATE_FRAMES + 1, now)
        elif settled and self._before_climb_s is not None:
            self._judge_climb(_median(self._recent(now)) - self._before_climb_s, now)
        elif settled and len(self._arrived) > LATE_FRAMES and len(self._skipped) > SKIPS * LOOK_BACK_S / interval_s:
            if statistics.median(self._gaps(len(self._arrived))) > STEADILY_SLOWER * interval_s:
                self._fall(len(self._arrived), now)
        elif settled and not waited:
            self._climb_if_due(now)

    def _has_just_climbed(self, now: float) -> bool:
        return now - self._climbed_at < LOOK_BACK_S

    def _gaps(self, count: int) -> list[float]:
        """Return the time for each frame of the latest acknowledgements."""
        return [(b.at - a.at) / b.frames for a, b in pairwise(list(self._arrived)[-count:])]

    def _fall(self, count: int, now: float) -> None:
        """Fall to what the network carried of late, if that is less; a single gap does not count.

        A frame that was alone on its way took its round trip but for the delay of the path, and not the gap before it.
        """
        latest = list(self._arrived)[-count + 1 :]
        bits = statistics.mean(each.bits / each.frames for each in latest)
        if bits < LEAST_IN_USE * self.bits_per_s * latest[-1].interval_s:
            # Small frames, as of a still image, are late for another reason than the rate.
            return
        delay_s = self._shortest[0].round_trip_s - self._shortest[0].bits * SPARE / self.bits_per_s
        taken_s = [min(gap, each.round_trip_s - delay_s) for gap, each in zip(self._gaps(count), latest, strict=True)]
        bits_per_s = SPARE * bits / max(statistics.median(taken_s), 1e-4)
        if bits_per_s <= WORTH_A_KEY * self.bits_per_s:
            self._lower(bits_per_s, now)
            self._fell_at = now

    def _lower(self, bits_per_s: float, now: float) -> None:
        failed = now - self._climbed_at < DOUBTED_S
        self._patience_s = min(LONGEST_S, max(DOUBTED_S, 2 * self._patience_s)) if failed else DOUBTED_S
        self._climbed_at = -math.inf
        self._change(min(bits_per_s, self.bits_per_s / STEP if failed else math.inf), now)

    def _judge_climb(self, longer_s: float, now: float) -> None:
        self._before_climb_s = None
        interval_s = self._arrived[-1].interval_s
        if longer_s > BEYOND_LIMIT * interval_s:
            self._lower(self.bits_per_s / STEP, now)
        elif longer_s > NEAR_LIMIT * interval_s:
            self._patience_s = max(DOUBTED_S, self._patience_s)

    def _recent(self, now: float) -> list[_Arrived]:
        return [each for each in self._arrived if now - each.at <= LOOK_BACK_S]

    def _climb_if_due(self, now: float) -> None:
        recent = self._recent(now)
        round_trip_s = _median(recent)
        if self._typical_s is None:
            self._typical_s = round_trip_s
        if round_trip_s < FASTER * self._typical_s - JITTER_S / 2:
            self._patience_s = SOON_S
        in_use = sum(each.bits for each in recent) >= IN_USE * self.bits_per_s * LOOK_BACK_S
        if in_use and now - self._changed_at >= self._patience_s:
            self._climbed_at = now
            self._change(STEP * self.bits_per_s, now)
            self._before_climb_s = round_trip_s

    def _unhindered(self, round_trip_s: float, bits: float, now: float) -> float:
        """Estimate the round trip of a frame that waits for no other, from the shortest one of the last 10 s."""
        while self._shortest and self._shortest[-1].round_trip_s >= round_trip_s:
            self._shortest.pop()
        self._shortest.append(_Shortest(now, round_trip_s, bits))
        while now - self._shortest[0].at > SHORTEST_S:
            self._shortest.popleft()
        shortest = self._shortest[0]
        return shortest.round_trip_s + max(0.0, bits - shortest.bits) * SPARE / self.bits_per_s

    def _change(self, bits_per_s: float, now: float) -> None:
        self.bits_per_s, self._changed_at = _within(bits_per_s), now
        self._late_frames = 0
        self._skipped.clear()
        self._typical_s = self._before_climb_s = None


def _within(bits_per_s: float) -> float:
    return min(HIGHEST_BITS_PER_S, max(LOWEST_BITS_PER_S, bits_per_s))


def _median(arrived: Sequence[_Arrived]) -> float:
    return statistics.median(each.round_trip_s for each in arrived)
