"""The model in a worker, as the worker reports it: an `EngineStatus` for the slots of the worker."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from reactor_runtime.cluster.messages import WorkerStatus
from reactor_runtime.server.workers.engine import EnginePhase
from reactor_runtime.server.workers.supervisor import MEASURED_FIRST

NO_CONTACT = "there is no contact with the worker"
RELAY_PAUSE_S = 1.0


class RelayFailures:
    """Pause a worker for a second after each failure of a relay that follows another one within a second. Pure."""

    def __init__(self) -> None:
        self._failed_at = self._paused_until = -math.inf

    def record(self, now: float) -> bool:
        """Count a failure; return whether it pauses the worker."""
        pauses = now < self._failed_at + RELAY_PAUSE_S
        self._failed_at = now
        if pauses:
            self._paused_until = now + RELAY_PAUSE_S
        return pauses

    def is_paused(self, now: float) -> bool:
        """Return whether the worker is to get no client now."""
        return now < self._paused_until


class WorkerEngine:
    """Hold the status of the model in a worker, as the worker reported it last, and whether there is contact with it.

    `sessions` returns how many sessions the worker has, those included to which clients are on their way.
    """

    def __init__(self, now: Callable[[], float], sessions: Callable[[], int]) -> None:
        self.phase = EnginePhase.LOADING
        self.detail = ""
        self.progress: float | None = None
        self.contract: dict[str, Any] | None = None
        self.failed_loads = 0
        self.fitting, self.limit = 1, ""
        self.has_contact = False
        self.status: WorkerStatus | None = None
        self.losses = 0
        self.is_draining = False
        # Since when the model is loaded.
        self.ready_since = now()
        self.relay_failures = RelayFailures()
        self._now = now
        self._sessions = sessions
        self._loading_since = now()

    @property
    def is_loaded(self) -> bool:
        """Return whether the worker has reported that the model is loaded, also without contact since."""
        return self.status is not None and self.status.phase == EnginePhase.READY

    @property
    def capacity(self) -> int:
        """Return how many sessions the worker is expected to serve."""
        if self.status is None or self.limit == MEASURED_FIRST:
            return max(1, len(self.status.slots)) if self.status is not None else 1
        return max(1, self.fitting)

    @property
    def room(self) -> int:
        """Return how many more sessions fit."""
        return max(0, self.fitting - self._sessions())

    @property
    def has_several_slots(self) -> bool:
        return self.status is not None and len(self.status.slots) > 1

    @property
    def loading_s(self) -> float:
        return self._now() - self._loading_since if self.phase is EnginePhase.LOADING else 0.0

    def update(self, status: WorkerStatus) -> None:
        phase, was_loaded = EnginePhase(status.phase), self.is_loaded
        self.status, self.phase = status, phase
        self.is_draining = status.draining
        if self.is_loaded and not was_loaded:
            self.ready_since = self._now()
        self.losses += was_loaded and not self.is_loaded
        self.detail = status.detail
        self.progress = status.progress
        self.failed_loads = status.failed_loads
        self.fitting, self.limit = status.fitting, status.limit
        self.has_contact = True
        self._loading_since = self._now() - status.loading_s
        if self.relay_failures.is_paused(self._now()):
            self.lose_contact(NO_CONTACT)

    def mark_unavailable(self, detail: str) -> None:
        """Serve no session until the next status."""
        if self.phase is not EnginePhase.LOADING:
            self._loading_since = self._now()
        self.phase, self.detail, self.progress = EnginePhase.LOADING, detail, None

    def lose_contact(self, reason: str) -> None:
        """Send no client to the worker until it sends its status again."""
        self.has_contact = False
        self.mark_unavailable(reason)
