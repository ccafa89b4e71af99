"""The metrics of workers for Prometheus, through the front: workers admit nobody else, and may not be reachable."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from reactor_runtime.cluster.front.remote_worker import RemoteWorker
from reactor_runtime.server.security.middleware import NO_STORE

TIMEOUT_S = 5.0


def worker_metrics_routes(
    workers: Mapping[str, RemoteWorker], secret: str, tls: ssl.SSLContext | None
) -> list[BaseRoute]:
    """Return the route with the targets, in the format of Prometheus' HTTP service discovery, and that of each."""

    async def targets(request: Request) -> Response:
        root = request.scope.get("root_path") or ""
        found = [
            {
                "targets": [request.headers["host"]],
                "labels": {
                    "__scheme__": request.url.scheme,
                    "__metrics_path__": f"{root}/workers/{worker.id}/metrics",
                    "worker": worker.id,
                    "node": worker.slot.node,
                },
            }
            for worker in workers.values()
            if worker.is_placed
        ]
        return JSONResponse(found, headers=NO_STORE)

    async def metrics(request: Request) -> Response:
        worker = workers.get(request.path_params["worker"])
        if worker is None or not worker.is_placed:
            return PlainTextResponse("there is no such worker\n", status_code=404, headers=NO_STORE)
        headers = {"Authorization": f"Bearer {secret}", "Accept": request.headers.get("accept", "*/*")}
        try:
            return await asyncio.to_thread(_fetch, worker.address, headers, tls)
        except (OSError, http.client.HTTPException) as error:
            return PlainTextResponse(f"the worker can't be reached: {error}\n", status_code=502, headers=NO_STORE)

    return [Route("/workers", targets), Route("/workers/{worker}/metrics", metrics)]


def worker_connection(address: str, tls: ssl.SSLContext | None, *, timeout_s: float) -> http.client.HTTPConnection:
    """Return a connection to a worker, which connects when it is used."""
    parts = urlsplit(address)
    if parts.scheme == "https":
        return http.client.HTTPSConnection(parts.netloc, timeout=timeout_s, context=tls)
    return http.client.HTTPConnection(parts.netloc, timeout=timeout_s)


def _fetch(address: str, headers: Mapping[str, str], tls: ssl.SSLContext | None) -> Response:
    with contextlib.closing(worker_connection(address, tls, timeout_s=TIMEOUT_S)) as connection:
        connection.request("GET", f"{urlsplit(address).path}/metrics", headers=dict(headers))
        answer = connection.getresponse()
        kind = answer.headers.get("content-type", "text/plain")
        return Response(answer.read(), answer.status, headers={**NO_STORE, "Content-Type": kind})
