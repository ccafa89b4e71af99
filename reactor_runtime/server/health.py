"""What operators and their machines ask: how the server is, in one word."""

from __future__ import annotations

from typing import Protocol

from reactor_runtime.server.lobby import FAILED_SESSIONS, Lobby
from reactor_runtime.server.restarts import Restarts
from reactor_runtime.server.session import SessionPhase
from reactor_runtime.server.supervisor import EnginePhase


class Engine(Protocol):
    """What tells how the model's process is."""

    phase: EnginePhase
    restarts: Restarts


def health_status(lobby: Lobby, engine: Engine) -> str:
    """Say in one word whether a client that comes now would be served."""
    if engine.phase is not EnginePhase.READY:
        return "failed" if engine.restarts.failed_loads else engine.phase.value
    if lobby.session is not None:
        return "stopping" if lobby.session.phase is SessionPhase.STOPPING else "busy"
    return "failed" if lobby.failed_in_a_row >= FAILED_SESSIONS else "ready"
