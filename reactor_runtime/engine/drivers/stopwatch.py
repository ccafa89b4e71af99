"""The time that a block took to make: since the previous block, without the time while monitoring is disabled."""

from __future__ import annotations


class Stopwatch:
    """Measure the time from one block to the next. The first block starts it: preparation does not count."""

    def __init__(self) -> None:
        self._running = True
        self._since: float | None = None
        self._before_pause_s = 0.0

    @property
    def running(self) -> bool:
        return self._running

    def pause(self, now: float) -> None:
        """Stop measuring; may be called twice."""
        if self._running and self._since is not None:
            self._before_pause_s += now - self._since
        self._running = False

    def resume(self, now: float) -> None:
        """Continue to measure after a pause; may be called twice."""
        if not self._running:
            self._running, self._since = True, now

    def read(self, now: float) -> float | None:
        """Return the seconds that the finished block took; None for the first one and while paused."""
        if not self._running or self._since is None:
            return None
        return self._before_pause_s + now - self._since

    def begin(self, now: float) -> None:
        """Start to measure the next block."""
        self._since, self._before_pause_s = now, 0.0
