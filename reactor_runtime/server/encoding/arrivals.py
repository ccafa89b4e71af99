"""What acknowledgements tell of the way to a client: how many frames come, how fast, how many had to be skipped."""

from __future__ import annotations

import statistics
from collections import deque
from itertools import pairwise
from typing import NamedTuple

FEWEST = 2
SHOWN_S = 3.0
MOST_SKIPPED = 1000  # a client that has stopped acknowledging skips without end


class Measure(NamedTuple):
    """What the last second, or longer, was like."""

    acknowledgements: int
    span_s: float
    shown_fps: float  # acknowledgements: a client that shows some of what it gets acknowledges several frames at once
    fps: float
    offered_fps: float
    size_bytes: float
    round_trip_s: float  # in the median
    gap_s: float  # between two frames, in the median: a single stall doesn't make it long
    speed: float  # bytes a second of the quickest frame of the last 3 s, from sending to acknowledgement

    @property
    def skips(self) -> float:
        """Share of the frames that were skipped."""
        return 1 - self.fps / self.offered_fps


class _Arrived(NamedTuple):
    at: float
    frames: int
    size_bytes: int  # of all of them
    round_trip_s: float


class Arrivals:
    """Keep the acknowledgements of the last `look_back_s`, at least two, and the frames skipped meanwhile."""

    def __init__(self) -> None:
        self._arrived: deque[_Arrived] = deque()
        self._skipped: deque[float] = deque(maxlen=MOST_SKIPPED)
        self._quickest: deque[tuple[float, float]] = deque()

    @property
    def skips(self) -> int:
        """How many frames were skipped in the time looked back on."""
        return len(self._skipped)

    def skipped(self, now: float) -> None:
        """Count a frame that was replaced before it could be sent."""
        self._skipped.append(now)

    def passed(self, size_bytes: int, round_trip_s: float, now: float) -> None:
        """Note how quickly one frame came through."""
        speed = size_bytes / max(round_trip_s, 1e-4)
        while self._quickest and self._quickest[-1][1] <= speed:
            self._quickest.pop()
        self._quickest.append((now, speed))
        while now - self._quickest[0][0] > SHOWN_S:
            self._quickest.popleft()

    def add(self, frames: int, size_bytes: int, round_trip_s: float, now: float, look_back_s: float) -> None:
        """Count frames acknowledged together, of so many bytes in all."""
        self._arrived.append(_Arrived(now, frames, size_bytes, round_trip_s))
        while len(self._arrived) > FEWEST and now - self._arrived[1].at > look_back_s:
            self._arrived.popleft()
        while self._skipped and self._skipped[0] < self._arrived[0].at:
            self._skipped.popleft()

    def forget(self) -> None:
        """Begin anew: what was counted was of another size."""
        self._arrived.clear()
        self._skipped.clear()

    def measure(self, latest: int | None = None) -> Measure | None:
        """Sum up, if need be only the `latest` few acknowledgements; None for too little."""
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
            speed=self._quickest[0][1] if self._quickest else 0.0,
        )
