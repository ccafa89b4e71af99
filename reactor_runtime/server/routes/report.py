"""The numbers of `/metrics`, copied at one moment."""

from __future__ import annotations

from dataclasses import dataclass

from reactor_runtime.server.sessions.admission import Admission
from reactor_runtime.server.sessions.slot import S
from reactor_runtime.server.telemetry.metrics import Metrics
from reactor_runtime.server.workers.engine import EnginePhase


@dataclass(frozen=True, slots=True)
class EngineReport:
    """The state of one engine."""

    number: int
    phase: EnginePhase
    losses: int


@dataclass(frozen=True, slots=True)
class ServerReport:
    """All numbers of `/metrics`."""

    model: str
    metrics: Metrics
    engines: tuple[EngineReport, ...]
    fitting: int
    active: int
    waiting: int
    viewers: int

    @classmethod
    def of(cls, admission: Admission[S]) -> ServerReport:
        return cls(
            model=admission.settings.name_of(admission.slots.contract),
            metrics=admission.settings.metrics.copied(),
            engines=tuple(EngineReport(slot.number, slot.engine.phase, slot.losses) for slot in admission.slots),
            fitting=admission.slots.fitting,
            active=sum(slot.session is not None for slot in admission.slots),
            waiting=len(admission.wait_queue.waiting),
            viewers=len(admission.assignment.viewers),
        )
