"""The time that a block took to make: since the previous block, or since monitoring was enabled again."""

from __future__ import annotations


class Stopwatch:
    """Measure the time from one block to the next. The first block starts it: preparation does not count.

    Nothing before a pause counts for the block: the model may have waited before it disabled the monitoring.
    """

    def __init__(self) -> None:
        self._running = True
        self._since: float | None = None

    @property
    def running(self) -> bool:
        return self._running

    def pause(self) -> None:
        """Stop measuring; may be called twice."""
        self._running = False

    def resume(self, now: float) -> None:
        """Measure from now on, after a pause; may be called twice."""
        if not self._running:
            self._running, self._since = True, now

    def read(self, now: float) -> float | None:
        """Return the seconds that the finished block took; None for the first one and while paused."""
        if not self._running or self._since is None:
            return None
        return now - self._since

    def begin(self, now: float) -> None:
        """Start to measure the next block."""
        self._since = now
