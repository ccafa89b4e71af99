"""What operators and their machines ask: how the server is, in one word."""

from __future__ import annotations

from typing import Protocol

from reactor_runtime.server.lobby import FAILED_SESSIONS, Lobby
from reactor_runtime.server.restarts import Restarts
from reactor_runtime.server.session import SessionPhase
from reactor_runtime.server.supervisor import EnginePhase

SERVING = ("ready", "busy")


class Engine(Protocol):
    """What tells how the model's process is."""

    phase: EnginePhase
    restarts: Restarts


def why_not_ready(lobby: Lobby, engine: Engine) -> str:
    """Say in one word why a controller who comes now would not be served, at once or in its turn; "" when it would."""
    status = health_status(lobby, engine)
    if status not in SERVING:
        return status
    return "" if lobby.line.has_room(slot_free=lobby.session is None) else "full"


def health_status(lobby: Lobby, engine: Engine) -> str:
    """Say in one word how the model is."""
    if lobby.draining:
        return "stopping"
    if engine.phase is not EnginePhase.READY:
        return "failed" if engine.restarts.failed_loads else engine.phase.value
    if lobby.session is not None:
        return "stopping" if lobby.session.phase is SessionPhase.STOPPING else "busy"
    return "failed" if lobby.failed_in_a_row >= FAILED_SESSIONS else "ready"
