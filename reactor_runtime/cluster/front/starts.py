"""When to start workers again that have ended before they were ready. Pure."""

from __future__ import annotations

from reactor_runtime.errors import LoadError

# The waits after the first, second … failed start; the last one repeats.
RETRY_S = (0.0, 1.0, 5.0, 15.0, 30.0)
MOST_FAILURES = 3


class FailedStarts:
    """Wait longer after each failed start in a row, and give up if none has ever succeeded."""

    def __init__(self) -> None:
        self.retry_at = 0.0
        self._failures = 0
        self._has_succeeded = False
        self._reason = ""

    def record_failure(self, reason: str, now: float) -> None:
        self.retry_at = now + RETRY_S[min(self._failures, len(RETRY_S) - 1)]
        self._failures += 1
        self._reason = reason

    def record_success(self) -> None:
        self._has_succeeded = True
        self._failures = 0

    def raise_failure(self) -> None:
        """Raise LoadError if the first starts have all failed."""
        if not self._has_succeeded and self._failures >= MOST_FAILURES:
            raise LoadError(
                f"{self._failures} workers have ended before they were ready, the last one: {self._reason}",
                hint="the log has what they printed; `reactor run` without --on ray serves the model on this machine",
            )
