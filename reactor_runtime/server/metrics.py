"""`GET /metrics`: what the server counts, copied in one turn of the loop and written out on a thread."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from reactor_runtime.server.lobby import Lobby
from reactor_runtime.server.report import Report


def metrics_route(lobby: Lobby) -> Route:
    """Make the route; it only looks, it changes nothing."""

    async def metrics(request: Request) -> Response:
        report = Report.of(lobby)
        text, content_type = await asyncio.to_thread(_write, report, request.headers.get("accept", ""))
        return Response(text, headers={"Content-Type": content_type, "Cache-Control": "no-store"})

    return Route("/metrics", metrics)


def _write(report: Report, accept: str) -> tuple[bytes, str]:
    from reactor_runtime.server.exposition import write  # prometheus-client, which `preload` imports

    return write(report, accept)
