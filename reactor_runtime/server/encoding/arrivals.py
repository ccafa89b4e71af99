"""Measurement of the network path to one client from its acknowledgements: rate, round trip and skipped frames.

Pure: the time is an argument. The ladder chooses a rung from the measurements.
"""

from __future__ import annotations

import statistics
from collections import deque
from itertools import pairwise
from typing import NamedTuple

FEWEST = 2
SHOWN_S = 3.0
# Limits the memory for clients that stopped acknowledging.
MOST_SKIPPED = 1000


class Measure(NamedTuple):
    """The recent state of the path: of the last second, or longer where acknowledgements are rare."""

    acknowledgements: int
    span_s: float
    # The rate of acknowledgements: a client that does not show every frame acknowledges several at once.
    shown_fps: float
    fps: float
    offered_fps: float
    size_bytes: float
    # The median.
    round_trip_s: float
    # The median between two frames, so that a single stall does not count.
    gap_s: float
    # The rate of the fastest frame of the last 3 s, from sending to acknowledgement.
    bytes_per_s: float

    @property
    def skips(self) -> float:
        """Return the share of the frames that were skipped."""
        return 1 - self.fps / self.offered_fps


class _Arrived(NamedTuple):
    at: float
    frames: int
    size_bytes: int
    round_trip_s: float


class Arrivals:
    """Keep the acknowledgements of the last `look_back_s`, at least two, and the frames skipped since the oldest."""

    def __init__(self) -> None:
        self._arrived: deque[_Arrived] = deque()
        self._skipped: deque[float] = deque(maxlen=MOST_SKIPPED)
        self._fastest: deque[tuple[float, float]] = deque()

    @property
    def skips(self) -> int:
        """Return the number of frames skipped since the oldest acknowledgement kept."""
        return len(self._skipped)

    @property
    def fastest_bytes_per_s(self) -> float:
        """Return the rate of the fastest frame of the last 3 s, from sending to acknowledgement; 0.0 without one."""
        return self._fastest[0][1] if self._fastest else 0.0

    def frame_skipped(self, now: float) -> None:
        """Count a frame that was replaced before it could be sent."""
        self._skipped.append(now)

    def frame_arrived(self, size_bytes: int, round_trip_s: float, now: float) -> None:
        """Record the size and the round trip of one frame."""
        bytes_per_s = size_bytes / max(round_trip_s, 1e-4)
        while self._fastest and self._fastest[-1][1] <= bytes_per_s:
            self._fastest.pop()
        self._fastest.append((now, bytes_per_s))
        while now - self._fastest[0][0] > SHOWN_S:
            self._fastest.popleft()

    def add_acknowledgement(
        self, frames: int, size_bytes: int, round_trip_s: float, now: float, look_back_s: float
    ) -> None:
        """Count frames acknowledged together, of `size_bytes` in all."""
        self._arrived.append(_Arrived(now, frames, size_bytes, round_trip_s))
        while len(self._arrived) > FEWEST and now - self._arrived[1].at > look_back_s:
            self._arrived.popleft()
        while self._skipped and self._skipped[0] < self._arrived[0].at:
            self._skipped.popleft()

    def reset(self) -> None:
        """Drop all measurements, as after a change of the frame size."""
        self._arrived.clear()
        self._skipped.clear()

    def measure(self, latest: int | None = None) -> Measure | None:
        """Summarise all acknowledgements kept, or the `latest` few; return None if there are too few."""
        arrived = list(self._arrived)[-latest if latest else None :]
        span_s = arrived[-1].at - arrived[0].at if arrived else 0.0
        if len(arrived) < (latest or FEWEST) or span_s <= 0:
            return None
        gaps = sorted((b.at - a.at) / b.frames for a, b in pairwise(arrived))
        later = arrived[1:]
        frames = sum(each.frames for each in later)
        skipped = sum(at >= arrived[0].at for at in self._skipped)
        return Measure(
            acknowledgements=len(arrived),
            span_s=span_s,
            shown_fps=len(later) / span_s,
            fps=frames / span_s,
            offered_fps=(frames + skipped) / span_s,
            size_bytes=sum(each.size_bytes for each in later) / frames,
            round_trip_s=statistics.median(each.round_trip_s for each in later),
            gap_s=gaps[(len(gaps) - 1) // 2],
            bytes_per_s=self.fastest_bytes_per_s,
        )
