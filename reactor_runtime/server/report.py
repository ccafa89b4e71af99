"""What an operator may ask of a running server, as it is at one moment."""

from __future__ import annotations

from dataclasses import dataclass

from reactor_runtime.server.figures import Figures
from reactor_runtime.server.lobby import Lobby
from reactor_runtime.server.supervisor import EnginePhase


@dataclass(frozen=True, slots=True)
class EngineReport:
    """What becomes of one of the model's processes."""

    number: int
    phase: EnginePhase
    losses: int


@dataclass(frozen=True, slots=True)
class Report:
    """Everything `/metrics` says of one moment."""

    model: str
    figures: Figures
    engines: tuple[EngineReport, ...]
    active: int
    waiting: int
    viewers: int

    @classmethod
    def of(cls, lobby: Lobby) -> Report:
        return cls(
            model=lobby.rules.name_of(lobby.halls.contract),
            figures=lobby.rules.figures.copied(),
            engines=tuple(EngineReport(hall.number, hall.engine.phase, hall.losses) for hall in lobby.halls),
            active=sum(hall.session is not None for hall in lobby.halls),
            waiting=len(lobby.line.waiting),
            viewers=len(lobby.gallery.viewers),
        )
