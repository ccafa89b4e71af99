"""Plain HTTP: the page, its files, and what operators ask."""

from __future__ import annotations

import json
import time
from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from reactor_runtime.server.lobby import FAILED_SESSIONS, Lobby
from reactor_runtime.server.session import SessionPhase
from reactor_runtime.server.supervisor import EnginePhase, Supervisor
from reactor_runtime.version import version
from reactor_runtime.wire.openapi import document

PLAYGROUND = Path(__file__).parent / "playground"
PAGE_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' blob: data:; connect-src 'self' ws: wss:; "
        "frame-ancestors 'self'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
NO_STORE = {"Cache-Control": "no-store"}


def http_routes(lobby: Lobby, supervisor: Supervisor, started_at: float) -> list[BaseRoute]:
    """Make the routes; they only look, they change nothing."""
    files = {path.relative_to(PLAYGROUND).as_posix(): path for path in PLAYGROUND.rglob("*") if path.is_file()}

    async def page(request: Request) -> Response:  # noqa: ARG001  (the signature Starlette calls)
        return FileResponse(PLAYGROUND / "index.html", headers=PAGE_HEADERS)

    async def static(request: Request) -> Response:
        path = files.get(request.path_params["name"])
        if path is None:
            return PlainTextResponse("no such file\n", status_code=404)
        return FileResponse(path, headers=PAGE_HEADERS)

    async def health(request: Request) -> Response:  # noqa: ARG001
        status = health_status(lobby, supervisor)
        body = {
            "status": status,
            "model": lobby.name,
            "session": None if lobby.session is None else lobby.session.id,
            "viewers": len(lobby.viewers),
            "waiting": len(lobby.line.waiting),
            "uptime_s": round(time.monotonic() - started_at, 1),
        }
        return JSONResponse(body, status_code=200 if status in ("ready", "busy") else 503, headers=NO_STORE)

    async def live(request: Request) -> Response:  # noqa: ARG001
        return PlainTextResponse("ok\n", headers=NO_STORE)

    async def schema(request: Request) -> Response:  # noqa: ARG001
        contract = supervisor.contract
        if contract is None:
            message = "the model's class is being imported; ask again\n"
            return PlainTextResponse(message, status_code=503, headers={**NO_STORE, "Retry-After": "1"})
        text = json.dumps(document(lobby.name, version(), contract))
        return Response(text, media_type="application/json", headers=NO_STORE)

    return [
        Route("/", page),
        Route("/static/{name:path}", static),
        Route("/health", health),
        Route("/live", live),
        Route("/schema", schema),
    ]


def health_status(lobby: Lobby, supervisor: Supervisor) -> str:
    """Say in one word whether a client that comes now would be served."""
    if supervisor.phase is not EnginePhase.READY:
        return supervisor.phase.value
    if lobby.session is not None:
        return "stopping" if lobby.session.phase is SessionPhase.STOPPING else "busy"
    return "failed" if lobby.failed_in_a_row >= FAILED_SESSIONS else "ready"
