"""Decides when an engine process starts again after its end: soon at first, then after longer and longer pauses."""

from __future__ import annotations

LONGEST_PAUSE_S = 30.0
STEADY_S = 30.0
MOST_FAILED_LOADS = 5


class Restarts:
    """Count the ends of an engine process and return the pause after each; pure.

    A model that has never served is not loaded again: its author has to correct it. A model that has served is loaded
    up to five times in a row, since the cause may pass: memory still in use, a disk that is not mounted.
    """

    def __init__(self) -> None:
        self.failed_loads = 0
        self._has_served = False
        self._in_a_row = 0

    def after_load(self) -> None:
        """Reset the count of failed loads after a load that succeeded."""
        self.failed_loads = 0

    def after_serving(self, served_s: float) -> float:
        """Return the pause after the end of a process that was ready for `served_s`; 0 after the first end."""
        self._has_served = True
        if served_s > STEADY_S:
            self._in_a_row = 0
        return self._next_pause_s()

    def after_failed_load(self) -> float | None:
        """Return the pause after a failed load, or None when the load is not to be repeated."""
        self.failed_loads += 1
        if not self._has_served or self.failed_loads == MOST_FAILED_LOADS:
            return None
        return self._next_pause_s()

    def after_shortage(self) -> float:
        """Return the pause after a start that failed for lack of descriptors or memory."""
        return max(0.5, self._next_pause_s())

    def _next_pause_s(self) -> float:
        doublings, self._in_a_row = min(self._in_a_row, 10) - 1, self._in_a_row + 1
        return 0.0 if doublings < 0 else min(LONGEST_PAUSE_S, 0.5 * 2**doublings)
