"""The status of the server, of its slots, and whether it would serve another controller."""

from __future__ import annotations

from reactor_runtime.server.sessions.admission import Admission
from reactor_runtime.server.sessions.session import SessionPhase
from reactor_runtime.server.sessions.slot import Slot
from reactor_runtime.server.workers.engine import EnginePhase

SERVING = ("ready", "busy")
BEST_FIRST = (*SERVING, "stopping", "loading", "failed")
FAILED_SESSIONS = 3


def why_not_ready(admission: Admission) -> str:
    """Return why a controller that connects now would be refused, in one word; "" if it would be served or wait."""
    status = health_status(admission)
    if status not in SERVING:
        return status
    return "" if admission.wait_queue.has_room(free=admission.slots.vacant_count) else "full"


def health_status(admission: Admission) -> str:
    """Return the best status of all slots, or `stopping`: one slot that serves is enough."""
    return "stopping" if admission.draining else min(map(slot_status, admission.slots), key=BEST_FIRST.index)


def slot_status(slot: Slot) -> str:
    """Return the status of one slot."""
    engine = slot.engine
    if engine.phase is not EnginePhase.READY:
        return "failed" if engine.failed_loads else engine.phase.value
    if slot.session is not None:
        return "stopping" if slot.session.phase is SessionPhase.STOPPING else "busy"
    return "failed" if slot.failed_in_a_row >= FAILED_SESSIONS else "ready"
