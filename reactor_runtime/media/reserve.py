"""The playout reserve: how long before they are due the blocks of a model with uneven steps should be ready."""

from __future__ import annotations

import math
from collections import deque

_WINDOW_STEPS = 16
# A step that took this many times the median is a stall, for which no reserve is kept.
_STALL = 2.0
# By how many times the range between neighbouring steps the longest step to come may exceed the longest seen. For
# steps evenly distributed between two times the expected excess is 1; with 3 the first three steps suffice.
_EXCESS = 3.0
# In intervals of the frames: a block late by less is not noticed.
_EVEN = 0.5


class PlayoutReserve:
    """Estimate the reserve of a model from its newest 16 steps: what two of its longest steps in a row would use up.

    Zero for steps of single frames, and for a model whose steps vary by less than half the interval of its frames. At
    most as long as one step plays, or as the frames play that may be queued besides one step.
    """

    def __init__(self) -> None:
        # Seconds per frame.
        self._steps: deque[float] = deque(maxlen=_WINDOW_STEPS)
        self.target_s = 0.0
        # The mean duration of a step of the newest size.
        self.step_s = 0.0
        self.steps = 0

    def add(self, frames: int, compute_s: float, *, interval_s: float, room: int) -> None:
        """Add a step of `frames` that play for `interval_s` each; `room` is how many frames may be queued.

        Negative, infinite and NaN times are ignored.
        """
        if frames < 1 or not 0 <= compute_s < math.inf:
            return
        self.steps += 1
        self._steps.append(compute_s / frames)
        ordered = sorted(self._steps)
        ordered = [step for step in ordered if step <= _STALL * ordered[(len(ordered) - 1) // 2]]
        mean = sum(ordered) / len(ordered)
        self.step_s = frames * mean
        self.target_s = 0.0
        if frames < 2 or len(ordered) < 2:
            return
        longest = ordered[-1] + _EXCESS * (ordered[-1] - ordered[0]) / (len(ordered) - 1)
        # The first long step uses up what it takes more than the mean, the second one what it takes longer than its
        # frames play: a model that is faster than its rate makes up for the first one before.
        needed_s = frames * (longest - mean + max(0.0, longest - max(interval_s, mean)))
        if needed_s >= _EVEN * interval_s:
            self.target_s = min(needed_s, min(frames, max(0, room - frames)) * interval_s)
