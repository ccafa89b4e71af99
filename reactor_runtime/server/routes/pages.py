"""The routes of the page and its files, of health and of the schema."""

from __future__ import annotations

import json
import time
from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from reactor_runtime.server.routes.health import SERVING, health_status, slot_status, why_not_ready
from reactor_runtime.server.sessions.admission import Admission
from reactor_runtime.server.sessions.slot import Slot
from reactor_runtime.version import version
from reactor_runtime.wire.openapi import document

PLAYGROUND = Path(__file__).parents[1] / "playground"
# The page that asks for the token.
TOKEN_PAGE = Path(__file__).parents[1] / "token_page"
TOKEN_SCRIPT = '  <script type="module" src="static/token.js"></script>\n'
# Relative, so that it is right below --root-path too.
CLIENT = 'export * from "./static/client/reactor.js";\n'
NO_CACHE = {"Cache-Control": "no-cache"}
NO_STORE = {"Cache-Control": "no-store"}


def page_routes() -> list[BaseRoute]:
    """Return the routes of the page and its files."""
    files = {
        path.relative_to(folder).as_posix(): path
        for folder in (PLAYGROUND, TOKEN_PAGE)
        for path in folder.rglob("*")
        if path.is_file()
    }

    guarded_page = (PLAYGROUND / "index.html").read_text(encoding="utf-8").replace("</head>", f"{TOKEN_SCRIPT}</head>")

    async def page(request: Request) -> Response:
        if request.state.guarded:
            return HTMLResponse(guarded_page, headers=NO_STORE)
        return FileResponse(PLAYGROUND / "index.html", headers=NO_CACHE)

    async def static(request: Request) -> Response:
        path = files.get(request.path_params["name"])
        if path is None:
            return PlainTextResponse("no such file\n", status_code=404)
        # By its suffix the machine may take it for a video.
        is_typescript = path.suffix == ".ts"
        return FileResponse(path, headers=NO_CACHE, media_type="text/plain" if is_typescript else None)

    async def client(request: Request) -> Response:  # noqa: ARG001  (the signature Starlette calls)
        return Response(CLIENT, media_type="text/javascript", headers=NO_CACHE)

    return [Route("/", page), Route("/static/{name:path}", static), Route("/reactor.js", client)]


def status_routes(admission: Admission, started_at: float) -> list[BaseRoute]:
    """Return the routes of health and of the model's schema, which change nothing."""

    async def health(request: Request) -> Response:
        status = health_status(admission)
        public = {"status": status}
        session = admission.slots.default.session
        body = {
            **public,
            "model": admission.settings.name_of(admission.slots.contract),
            "session": None if session is None else session.id,
            "viewers": len(admission.assignment.viewers),
            "waiting": len(admission.wait_queue.waiting),
            "engines": [_engine(slot, admission) for slot in admission.slots],
            "uptime_s": round(time.monotonic() - started_at, 1),
        }
        status_code = 200 if status in SERVING else 503
        return JSONResponse(body if request.state.known else public, status_code=status_code, headers=NO_STORE)

    async def live(request: Request) -> Response:  # noqa: ARG001  (the signature Starlette calls)
        return PlainTextResponse("ok\n", headers=NO_STORE)

    async def ready(request: Request) -> Response:  # noqa: ARG001  (the signature Starlette calls)
        reason = why_not_ready(admission)
        return PlainTextResponse(f"{reason or 'ready'}\n", status_code=503 if reason else 200, headers=NO_STORE)

    async def schema(request: Request) -> Response:
        contract = admission.slots.contract
        if contract is None:
            message = "the model's class is being imported; ask again\n"
            return PlainTextResponse(message, status_code=503, headers={**NO_STORE, "Retry-After": "1"})
        described = document(
            admission.settings.name_of(contract),
            version(),
            contract,
            server_url=request.scope.get("root_path") or "/",
            token_required=request.state.guarded,
        )
        return Response(json.dumps(described), media_type="application/json", headers=NO_STORE)

    return [Route("/health", health), Route("/live", live), Route("/ready", ready), Route("/schema", schema)]


def _engine(slot: Slot, admission: Admission) -> dict[str, object]:
    return {
        "status": slot_status(slot),
        "session": None if slot.session is None else slot.session.id,
        "viewers": sum(viewer in slot.subscribers for viewer in admission.assignment.viewers),
    }
