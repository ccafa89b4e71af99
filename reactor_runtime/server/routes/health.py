"""What operators and their machines ask: how the server is, in one word."""

from __future__ import annotations

from reactor_runtime.server.sessions.admission import Admission
from reactor_runtime.server.sessions.session import SessionPhase
from reactor_runtime.server.sessions.slot import Slot
from reactor_runtime.server.workers.engine import EnginePhase

SERVING = ("ready", "busy")
BEST_FIRST = (*SERVING, "stopping", "loading", "failed")
FAILED_SESSIONS = 3


def why_not_ready(admission: Admission) -> str:
    """Say in one word why a controller who comes now would not be served, at once or in its turn; "" when it would."""
    status = health_status(admission)
    if status not in SERVING:
        return status
    return "" if admission.wait_queue.has_room(free=admission.slots.vacant_count) else "full"


def health_status(admission: Admission) -> str:
    """Say in one word how the model is, where it is best of all halls: one that serves is enough."""
    return "stopping" if admission.draining else min(map(slot_status, admission.slots), key=BEST_FIRST.index)


def slot_status(slot: Slot) -> str:
    """Say in one word how the model is in one hall."""
    engine = slot.engine
    if engine.phase is not EnginePhase.READY:
        return "failed" if engine.failed_loads else engine.phase.value
    if slot.session is not None:
        return "stopping" if slot.session.phase is SessionPhase.STOPPING else "busy"
    return "failed" if slot.failed_in_a_row >= FAILED_SESSIONS else "ready"
