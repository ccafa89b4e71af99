"""What an operator may ask of a running server, as it is at one moment."""

from __future__ import annotations

from dataclasses import dataclass

from reactor_runtime.server.figures import Figures
from reactor_runtime.server.lobby import Engine, Lobby
from reactor_runtime.server.supervisor import EnginePhase


@dataclass(frozen=True, slots=True)
class Report:
    """Everything `/metrics` says of one moment."""

    model: str
    figures: Figures
    phase: EnginePhase
    active: int
    waiting: int
    viewers: int

    @classmethod
    def of(cls, lobby: Lobby, engine: Engine) -> Report:
        return cls(
            model=lobby.name,
            figures=lobby.figures.copied(),
            phase=engine.phase,
            active=int(lobby.session is not None),
            waiting=len(lobby.line.waiting),
            viewers=len(lobby.viewers),
        )
