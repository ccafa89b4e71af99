"""Decides whether a front may use the workers of an earlier front, which may still run. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from reactor_runtime.cluster.messages import FrontIdentity
from reactor_runtime.errors import UsageError


class Takeover:
    """Wait until each worker that was found has answered; `other` is the front that one of them has.

    `on_complete` is called when the last one has answered.
    """

    def __init__(self, found: Iterable[str], *, on_complete: Callable[[], None] = lambda: None) -> None:
        self.other: FrontIdentity | None = None
        self._waiting = set(found)
        self._on_complete = on_complete

    @property
    def is_complete(self) -> bool:
        """Return whether the front may start and release workers."""
        return not self._waiting

    def record_contact(self, worker: str) -> None:
        """Record that a worker serves this front, or is not placed yet, or has gone."""
        if worker in self._waiting:
            self._waiting.remove(worker)
            if self.is_complete:
                self._on_complete()

    def raise_failure(self, cluster: str) -> None:
        """Raise UsageError if a worker has another front."""
        if self.other is not None:
            raise UsageError(
                f"the cluster {cluster} has a front already: {self.other}",
                hint="stop that one first, or start this one with other workers: `--cluster NAME`",
            )
