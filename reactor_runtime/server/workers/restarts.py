"""When the model's process is started again after it has ended: soon at first, then later and later."""

from __future__ import annotations

LONGEST_PAUSE_S = 30.0
STEADY_S = 30.0
MOST_FAILED_LOADS = 5


class Restarts:
    """Count how often the process has ended, and say how long to wait each time; pure.

    A model that has never served isn't started again: whoever started the server corrects it. One that has is loaded up
    to five times in a row, since what keeps it from loading may pass: memory still in use, a disk that isn't there.
    """

    def __init__(self) -> None:
        self.failed_loads = 0
        self._has_served = False
        self._in_a_row = 0

    def after_serving(self, served_s: float) -> float:
        """Take note of the end of a process that was ready for `served_s`; returns the pause, 0 for the first end."""
        self._has_served = True
        if served_s > STEADY_S:
            self._in_a_row = 0
        return self._next_pause_s()

    def loaded(self) -> None:
        """Take note of a load that worked."""
        self.failed_loads = 0

    def after_failed_load(self) -> float | None:
        """Take note of a load that failed; returns the pause, or None when there is no use in trying again."""
        self.failed_loads += 1
        if not self._has_served or self.failed_loads == MOST_FAILED_LOADS:
            return None
        return self._next_pause_s()

    def after_shortage(self) -> float:
        """Take note that no process could be started for want of descriptors or memory; returns the pause."""
        return max(0.5, self._next_pause_s())

    def _next_pause_s(self) -> float:
        doublings, self._in_a_row = min(self._in_a_row, 10) - 1, self._in_a_row + 1
        return 0.0 if doublings < 0 else min(LONGEST_PAUSE_S, 0.5 * 2**doublings)
