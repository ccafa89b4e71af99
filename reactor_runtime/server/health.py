"""What operators and their machines ask: how the server is, in one word."""

from __future__ import annotations

from reactor_runtime.server.hall import Hall
from reactor_runtime.server.lobby import Lobby
from reactor_runtime.server.session import SessionPhase
from reactor_runtime.server.supervisor import EnginePhase

SERVING = ("ready", "busy")
BEST_FIRST = (*SERVING, "stopping", "loading", "failed")
FAILED_SESSIONS = 3


def why_not_ready(lobby: Lobby) -> str:
    """Say in one word why a controller who comes now would not be served, at once or in its turn; "" when it would."""
    status = health_status(lobby)
    if status not in SERVING:
        return status
    return "" if lobby.line.has_room(free=lobby.halls.empty) else "full"


def health_status(lobby: Lobby) -> str:
    """Say in one word how the model is, where it is best of all halls: one that serves is enough."""
    return "stopping" if lobby.draining else min(map(hall_status, lobby.halls), key=BEST_FIRST.index)


def hall_status(hall: Hall) -> str:
    """Say in one word how the model is in one hall."""
    engine = hall.engine
    if engine.phase is not EnginePhase.READY:
        return "failed" if engine.restarts.failed_loads else engine.phase.value
    if hall.session is not None:
        return "stopping" if hall.session.phase is SessionPhase.STOPPING else "busy"
    return "failed" if hall.failed_in_a_row >= FAILED_SESSIONS else "ready"
