"""The routes of health and of the schema: the status of the server and of its slots, and the contract of its model."""

from __future__ import annotations

import json
import time
from dataclasses import asdict

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from reactor_runtime.server.routes.documents import Documents
from reactor_runtime.server.security.middleware import NO_STORE
from reactor_runtime.server.sessions.admission import Admission
from reactor_runtime.server.sessions.session import SessionPhase
from reactor_runtime.server.sessions.slot import S, Slot
from reactor_runtime.server.workers.engine import EnginePhase
from reactor_runtime.version import version
from reactor_runtime.wire.openapi import document

SERVING = ("ready", "busy")
BEST_FIRST = (*SERVING, "stopping", "loading", "failed")
FAILED_SESSIONS = 3


def status_routes(admission: Admission[S], started_at: float) -> list[BaseRoute]:
    """Return the routes of health and of the model's schema, which change nothing."""
    schemas = Documents("application/json")

    async def health(request: Request) -> Response:
        status = health_status(admission)
        details = _details(admission, time.monotonic() - started_at) if request.state.known else {}
        status_code = 200 if status in SERVING else 503
        return JSONResponse({"status": status, **details}, status_code=status_code, headers=NO_STORE)

    async def live(request: Request) -> Response:  # noqa: ARG001  (the signature Starlette calls)
        return PlainTextResponse("ok\n", headers=NO_STORE)

    async def ready(request: Request) -> Response:  # noqa: ARG001  (the signature Starlette calls)
        reason, unknown = why_not_ready(admission), admission.slots.unknown()
        text = f"{reason}: {unknown}" if reason and unknown else reason or "ready"
        if limit := admission.slots.limit:
            text += f"\n{admission.slots.fitting} of {len(admission.slots)} sessions fit: {limit}"
        return PlainTextResponse(f"{text}\n", status_code=503 if reason else 200, headers=NO_STORE)

    async def schema(request: Request) -> Response:
        contract = admission.slots.contract
        if contract is None:
            message = "the model's class is being imported; ask again\n"
            return PlainTextResponse(message, status_code=503, headers={**NO_STORE, "Retry-After": "1"})
        url = request.scope.get("root_path") or "/"

        def described() -> str:
            name, guarded = admission.settings.name_of(contract), request.state.guarded
            encodings = admission.settings.encodings
            shown = document(name, version(), contract, server_url=url, token_required=guarded, encodings=encodings)
            return json.dumps(shown)

        return schemas.response(request, contract, url, described)

    return [Route("/health", health), Route("/live", live), Route("/ready", ready), Route("/schema", schema)]


def why_not_ready(admission: Admission[S]) -> str:
    """Return why a controller of a new address would be refused now; "" if it would be served or wait."""
    status = health_status(admission)
    if status not in SERVING:
        return status
    return "" if admission.wait_queue.admits_another_address(free=admission.slots.vacant_count) else "full"


def health_status(admission: Admission[S]) -> str:
    """Return the best status of all slots, or `stopping`: one slot that serves is enough."""
    return (
        "stopping"
        if admission.draining
        else min(map(slot_status, admission.slots), key=BEST_FIRST.index, default="loading")
    )


def slot_status(slot: Slot) -> str:
    """Return the status of one slot."""
    engine = slot.engine
    if engine.phase is not EnginePhase.READY:
        return "failed" if engine.failed_loads else engine.phase.value
    if slot.session is not None:
        return "stopping" if slot.session.phase is SessionPhase.STOPPING else "busy"
    if slot.is_draining:
        return "stopping"
    if not engine.room:
        return "busy"
    return "failed" if slot.failed_in_a_row >= FAILED_SESSIONS else "ready"


def _details(admission: Admission[S], uptime_s: float) -> dict[str, object]:
    default, unknown = admission.slots.default, admission.slots.unknown()
    session = None if default is None else default.session
    return {
        "model": admission.settings.name_of(admission.slots.contract),
        **({"detail": unknown} if unknown else {}),
        "fitting": admission.slots.fitting,
        "limit": admission.slots.limit,
        "session": None if session is None else session.id,
        "viewers": len(admission.assignment.viewers),
        "waiting": len(admission.wait_queue.waiting),
        "engines": [_engine(slot) for slot in admission.slots],
        "uptime_s": round(uptime_s, 1),
    }


def _engine(slot: Slot) -> dict[str, object]:
    return {
        "number": slot.number,
        "status": slot_status(slot),
        "session": None if slot.session is None else slot.session.id,
        **asdict(slot.statistics()),
    }
