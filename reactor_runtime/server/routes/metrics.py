"""`GET /metrics`: the metrics, copied at once on the loop and written on a thread, once for all requests that wait."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from reactor_runtime.server.net.application import on_thread
from reactor_runtime.server.routes.report import ServerReport
from reactor_runtime.server.sessions.admission import Admission
from reactor_runtime.server.sessions.slot import S


def metrics_route(admission: Admission[S]) -> Route:
    """Return the route, which changes nothing."""

    writing: dict[str, asyncio.Task[tuple[bytes, str]]] = {}

    async def metrics(request: Request) -> Response:
        accept = request.headers.get("accept", "")
        if accept not in writing:
            made = on_thread(request.scope, _write, ServerReport.of(admission), accept)
            writing[accept] = asyncio.create_task(made)
            writing[accept].add_done_callback(lambda _: writing.pop(accept))
        text, content_type = await asyncio.shield(writing[accept])
        return Response(text, headers={"Content-Type": content_type, "Cache-Control": "no-store"})

    return Route("/metrics", metrics)


def _write(report: ServerReport, accept: str) -> tuple[bytes, str]:
    # It imports prometheus-client; `preload` has done so.
    from reactor_runtime.server.routes.prometheus import write

    return write(report, accept)
