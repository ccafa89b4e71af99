"""The schedule of due times of bundles; the caller passes the time."""

from __future__ import annotations

import math

# An early frame moves the grid by this share of its earliness: the grid settles just after most arrivals of a camera.
PULL = 0.125
# By how much the rate may exceed the declared one, to follow the clock of a camera.
SURPLUS = 0.01


class Schedule:
    """Return due times one interval apart, on an absolute grid.

    A frame that comes in time stays on the grid, however early it came, so the rate does not drift. After a stall the
    grid restarts at the late frame; frames are not shown faster to catch up. Times are seconds of the caller's clock.
    """

    def __init__(self, fps: float) -> None:
        self._interval_s = _interval_s(fps)
        self._fps = fps
        self._due_s: float | None = None
        self._length_s: float | None = None
        # How far the grid may be moved back, one interval at most.
        self._behind_s = 0.0

    @property
    def fps(self) -> float:
        return self._fps

    def set_fps(self, fps: float) -> None:
        """Change the rate from the next frame on. Raises `ValueError` unless it is above 0 and finite."""
        self._interval_s = _interval_s(fps)
        self._fps = fps

    @property
    def upcoming(self) -> float | None:
        """Return when the next frame is due; None before the first, which is due at once."""
        if self._due_s is None:
            return None
        return self._due_s + (self._interval_s if self._length_s is None else self._length_s)

    def next(
        self,
        now: float,
        lead_s: float = 0.0,
        *,
        length_s: float | None = None,
        forgiven_s: float = 0.0,
        early_s: float = 0.0,
    ) -> float:
        """Return when the next frame is due and advance; never earlier than `lead_s` after `now`.

        The lead is the time still needed before the frame can be shown, such as for encoding. `length_s` is the
        duration of this frame, if not one interval. A frame late by at most `forgiven_s` keeps its place on the grid.
        An early frame moves the grid by an eighth of its earliness, of which at most `early_s` counts, until the grid
        has made up for late frames; beyond that the rate rises by 1 % at most.
        """
        earliest = now + lead_s
        upcoming = self.upcoming
        if upcoming is None:
            self._due_s = earliest
        elif earliest > upcoming + forgiven_s:
            self._behind_s += earliest - upcoming
            self._due_s = earliest
        else:
            self._behind_s = min(self._behind_s + SURPLUS * self._interval_s, self._interval_s)
            pull_s = min(PULL * max(0.0, min(upcoming - earliest, early_s)), self._behind_s)
            self._behind_s -= pull_s
            self._due_s = upcoming - pull_s
        self._length_s = length_s
        return self._due_s

    def reset(self) -> None:
        """Drop the grid: the next frame is due at once. The rate stays."""
        self._due_s = None
        self._behind_s = 0.0


def _interval_s(fps: float) -> float:
    # The second condition also refuses infinity and rates so small that their interval is infinite.
    if not (fps > 0 and 0 < 1 / fps < math.inf):
        raise ValueError(f"fps must be above 0 and finite, got {fps}")
    return 1 / fps
