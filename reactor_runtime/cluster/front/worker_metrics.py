"""Serves the metrics of workers through the front, because workers refuse Prometheus."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from reactor_runtime.cluster.front.remote_worker import RemoteWorker
from reactor_runtime.cluster.front.worker_request import request_worker
from reactor_runtime.server.security.middleware import NO_STORE

STALLED_S = 5.0


def worker_metrics_routes(workers: Mapping[str, RemoteWorker]) -> list[BaseRoute]:
    """Return the routes of the targets, in the format of Prometheus' HTTP service discovery, and of their metrics."""

    async def targets(request: Request) -> Response:
        root = request.scope.get("root_path") or ""
        found = [
            {
                "targets": [request.headers["host"]],
                "labels": {
                    "__scheme__": request.url.scheme,
                    "__metrics_path__": f"{root}/workers/{worker.id}/metrics",
                    "worker": worker.id,
                    "node": worker.node,
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
        accept = request.headers.get("accept", "*/*").encode("latin-1")
        headers = [(b"Authorization", f"Bearer {worker.secret}".encode()), (b"Accept", accept)]
        try:
            url = f"{worker.address}/metrics"
            return await request_worker("GET", url, headers=headers, tls=worker.tls, stalled_s=STALLED_S)
        except OSError as error:
            return PlainTextResponse(f"the worker can't be reached: {error}\n", status_code=502, headers=NO_STORE)

    return [Route("/workers", targets), Route("/workers/{worker}/metrics", metrics)]
