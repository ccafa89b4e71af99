"""Decides when to start workers again after some that have ended before they were ready. Pure."""

from __future__ import annotations

from reactor_runtime.errors import LoadError

# The waits after the first, second … failed start; the last one repeats.
RETRY_S = (0.0, 1.0, 5.0, 15.0, 30.0)
MOST_FAILURES = 3


class WorkerStarts:
    """Wait longer after each failed start in a row, and give up if none has ever succeeded.

    A start has failed if the worker ends before it is ready. The first starts are those made before any has failed.
    While one of them is in progress nothing is given up, because another machine may load what one can't.
    """

    def __init__(self) -> None:
        self.retry_at = 0.0
        self._in_progress: set[str] = set()
        self._first: set[str] = set()
        self._failures = 0
        self._has_succeeded = False
        self._reason = ""

    def begin(self, worker: str) -> None:
        self._in_progress.add(worker)
        if not self._failures:
            self._first.add(worker)

    def forget(self, worker: str) -> None:
        """Count neither a success nor a failure of a worker, which was released or has gone."""
        self._in_progress.discard(worker)
        self._first.discard(worker)

    def record_failure(self, worker: str, reason: str, now: float) -> None:
        """Count the end of a worker whose start is in progress; do nothing for another."""
        if worker not in self._in_progress:
            return
        self.forget(worker)
        self.retry_at = now + RETRY_S[min(self._failures, len(RETRY_S) - 1)]
        self._failures += 1
        self._reason = reason

    def record_success(self, worker: str) -> None:
        self.forget(worker)
        self._has_succeeded = True
        self._failures = 0

    def raise_failure(self) -> None:
        """Raise LoadError if the first starts have all failed."""
        if not self._has_succeeded and self._failures >= MOST_FAILURES and not self._first:
            raise LoadError(
                f"{self._failures} workers have ended before they were ready, the last one: {self._reason}",
                hint="the log has what they printed; `reactor run` without --on ray serves the model on this machine",
            )
