"""Estimates from recent steps: the frame rate of a model, and how long before its due time a step must start."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable

_WINDOW_FRAMES = 32
_MIN_STEPS = 4
_SLOWEST_FPS = 1.0
_STALL = 2.0

_WINDOW_STEPS = 64
_MARGIN_S = 0.0002


class RateEstimate:
    """Estimate the frame rate a model sustains: frames divided by compute time, within [1, max_fps].

    Uses the newest steps that made 32 frames together (about a second), at least 4 steps. A ratio of sums, because
    uneven steps push a mean of rates too high. A slowest step that took more than twice as long as the second slowest
    counts as that one: a cold first step or one stall has no effect, and a model that became slower is followed from
    its second slow step.
    """

    def __init__(self, max_fps: float) -> None:
        if not (math.isfinite(max_fps) and max_fps >= _SLOWEST_FPS):
            raise ValueError(f"max_fps must be at least {_SLOWEST_FPS:g} and finite, got {max_fps}")
        self._max_fps = max_fps
        # Seconds per frame, and frames.
        self._steps: deque[tuple[float, int]] = deque()
        self._frames = 0
        self._fps: float | None = None

    @property
    def fps(self) -> float | None:
        """Return the estimate; None before the first sample."""
        return self._fps

    @property
    def exceeds_max(self) -> bool:
        """Return whether the model makes at least a tenth more frames than `max_fps` allows."""
        return len(self._steps) >= _MIN_STEPS and 1.1 * self._compute_s() * self._max_fps <= self._frames

    def add(self, frames: int, compute_s: float) -> float | None:
        """Add one step and return the new estimate.

        Times up to zero count as the fastest allowed; NaN and steps without frames are ignored.
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
            forgiven_s = (slowest - second) * frames if slowest > _STALL * second else 0.0
        return sum(frame_s * frames for frame_s, frames in self._steps) - forgiven_s


class Lead:
    """Estimate how long before its frames are due a step must start: for computing, copying and encoding.

    Uses the newest 64 steps. Of their computing times the longest eighth (8 of a full window) does not count: a longer
    lead makes every input wait for the stalls of a few steps, a shorter one shows more frames late. Simulated with
    stalls of 150 ms in one step of 20, a batch of 4 at 30 fps reacts after 157 ms and 1.1 % of the gaps are long; with
    a lead for all but the longest twentieth after 182 ms, with 1.0 %. If stalls are more frequent, frames are queued.
    Copying and encoding count without their longest quarter: they vary little, and a slightly late frame costs less
    than making every input wait for the slowest encode.
    """

    def __init__(self) -> None:
        self._compute_s: deque[float] = deque(maxlen=_WINDOW_STEPS)
        self._ready_s: deque[float] = deque(maxlen=_WINDOW_STEPS)
        self._value_s = math.inf

    @property
    def value_s(self) -> float:
        """Return the lead in seconds; infinite before the first sample, so that the first step starts at once."""
        return self._value_s

    def add(self, compute_s: float, ready_s: float) -> None:
        """Add a step: its compute time, and the time from then until its first frame could be shown.

        Negative, infinite and NaN times are ignored.
        """
        if not (0 <= compute_s < math.inf and 0 <= ready_s < math.inf):
            return
        self._compute_s.append(compute_s)
        self._ready_s.append(ready_s)
        self._value_s = _without_longest(self._compute_s, 0.125) + _without_longest(self._ready_s, 0.25) + _MARGIN_S


def _without_longest(values: Iterable[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[-1 - int(len(ordered) * share)]
