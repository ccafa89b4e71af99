"""What an operator may ask of a running server, as it is at one moment."""

from __future__ import annotations

from dataclasses import dataclass

from reactor_runtime.server.figures import Figures
from reactor_runtime.server.lobby import Lobby
from reactor_runtime.server.supervisor import EnginePhase


@dataclass(frozen=True, slots=True)
class Report:
    """Everything `/metrics` says of one moment."""

    model: str
    figures: Figures
    phase: EnginePhase
    restarts: int
    active: int
    waiting: int
    viewers: int

    @classmethod
    def of(cls, lobby: Lobby) -> Report:
        return cls(
            model=lobby.rules.name,
            figures=lobby.rules.figures.copied(),
            phase=lobby.halls.first.engine.phase,
            restarts=lobby.halls.first.losses,
            active=sum(hall.session is not None for hall in lobby.halls),
            waiting=len(lobby.line.waiting),
            viewers=len(lobby.gallery.viewers),
        )
