"""How fast a model makes frames and how long before its due time a step must start, from the times of recent steps."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable

_WINDOW_FRAMES = 32
_MIN_STEPS = 4
_SLOWEST_FPS = 1.0

_WINDOW_STEPS = 64
_MARGIN_S = 0.0002


class RateEstimate:
    """Estimate the frame rate a model keeps up: frames made over the time it took, bounded to [1, max_fps].

    Smoothed over the newest steps that made 32 frames together (about a second of play), at least 4 steps. A ratio
    of sums rather than a mean of rates, which uneven steps would push too high. The slowest step counts as the second
    slowest: a cold first step or one stall is forgiven, a model that slowed down is followed from its second slow step.
    """

    def __init__(self, max_fps: float) -> None:
        if not (math.isfinite(max_fps) and max_fps >= _SLOWEST_FPS):
            raise ValueError(f"max_fps must be at least {_SLOWEST_FPS:g} and finite, got {max_fps}")
        self._max_fps = max_fps
        self._steps: deque[tuple[float, int]] = deque()  # seconds a frame, frames
        self._frames = 0
        self._fps: float | None = None

    @property
    def fps(self) -> float | None:
        """The estimate; None before the first sample."""
        return self._fps

    def add(self, frames: int, compute_s: float) -> float | None:
        """Count one step and return the new estimate; the first sample is taken as it is.

        Zero and negative times mean as fast as allowed; a time that is not a number or no frames change nothing.
        """
        if frames < 1 or math.isnan(compute_s):
            return self._fps
        frame_s = min(max(compute_s / frames, 0.0), 1 / _SLOWEST_FPS)
        self._steps.append((frame_s, frames))
        self._frames += frames
        while len(self._steps) > _MIN_STEPS and self._frames - self._steps[0][1] >= _WINDOW_FRAMES:
            self._frames -= self._steps.popleft()[1]
        shortest_s = self._frames / self._max_fps
        self._fps = max(_SLOWEST_FPS, min(self._max_fps, self._frames / max(shortest_s, self._compute_s())))
        return self._fps

    def _compute_s(self) -> float:
        slowest_first = sorted(self._steps, reverse=True)
        forgiven_s = 0.0
        if len(slowest_first) > 1:
            (slowest, frames), (second, _) = slowest_first[:2]
            forgiven_s = (slowest - second) * frames
        return sum(frame_s * frames for frame_s, frames in self._steps) - forgiven_s


class Lead:
    """Tell how long before its frames are due a step must start: its computing and what follows until they are shown.

    Looks at the newest 64 steps. Computing counts without its longest twentieth (3 of a full window): a rare stall
    makes one late frame instead of an early start, and with it a late answer to inputs, for a minute; a model that is
    uneven more often gets its frames queued. What follows (copying, encoding) counts without its longest quarter: it
    varies little, and a hair of lateness costs less than every input waiting for the slowest encode.
    """

    def __init__(self) -> None:
        self._compute_s: deque[float] = deque(maxlen=_WINDOW_STEPS)
        self._ready_s: deque[float] = deque(maxlen=_WINDOW_STEPS)
        self._value_s = math.inf

    @property
    def value_s(self) -> float:
        """The lead in seconds; infinite before the first sample, so that the first step starts at once."""
        return self._value_s

    def add(self, compute_s: float, ready_s: float) -> None:
        """Count a step: how long it computed, and how long from there until its first frame could be shown.

        What is negative, infinite or not a number changes nothing.
        """
        if not (0 <= compute_s < math.inf and 0 <= ready_s < math.inf):
            return
        self._compute_s.append(compute_s)
        self._ready_s.append(ready_s)
        self._value_s = _without_longest(self._compute_s, 0.05) + _without_longest(self._ready_s, 0.25) + _MARGIN_S


def _without_longest(values: Iterable[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[-1 - int(len(ordered) * share)]
