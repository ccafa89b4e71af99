"""`POST /uploads` of clients that the front relays: passes the file on to the worker of the session."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import secrets
import ssl
from collections.abc import Callable, Iterator, Mapping
from urllib.parse import urlsplit

from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from reactor_runtime.cluster.front.remote_worker import RemoteWorker
from reactor_runtime.cluster.front.worker_metrics import worker_connection
from reactor_runtime.server.security.middleware import NO_STORE

STALLED_S = 30.0
PASSED_ON = ("content-type", "content-length")


def worker_uploads_route(workers: Mapping[str, RemoteWorker], tls: ssl.SSLContext | None) -> Route:
    """Return the route; the worker checks the key and the size, and answers."""

    async def upload(request: Request) -> Response:
        key = request.query_params.get("key", "").encode()
        for worker in workers.values():
            session = worker.slot.session
            if session is not None and session.upload_key and secrets.compare_digest(session.upload_key.encode(), key):
                return await _pass_on(request, worker.address, tls)
        message = "no session with this key runs: reactor.welcome has the upload_key\n"
        return PlainTextResponse(message, status_code=403, headers=NO_STORE)

    return Route("/uploads", upload, methods=["POST"])


async def _pass_on(request: Request, address: str, tls: ssl.SSLContext | None) -> Response:
    loop, pieces = asyncio.get_running_loop(), aiter(request.stream())

    async def next_piece() -> bytes | None:
        async with asyncio.timeout(STALLED_S):
            return await anext(pieces, None)

    def body() -> Iterator[bytes]:
        while (piece := asyncio.run_coroutine_threadsafe(next_piece(), loop).result()) is not None:
            yield piece

    try:
        return await asyncio.to_thread(_send, request, address, tls, body)
    except (OSError, http.client.HTTPException, ClientDisconnect) as error:
        return PlainTextResponse(f"the file was not passed on: {error}\n", status_code=502, headers=NO_STORE)


def _send(request: Request, address: str, tls: ssl.SSLContext | None, body: Callable[[], Iterator[bytes]]) -> Response:
    path = f"{urlsplit(address).path}/uploads?{request.url.query}"
    headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
    with contextlib.closing(worker_connection(address, tls, timeout_s=STALLED_S)) as connection:
        # A worker that refuses a file may answer before it has received all of it.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.request("POST", path, body(), headers)
        answer = connection.getresponse()
        kind = answer.headers.get("content-type", "text/plain")
        return Response(answer.read(), answer.status, headers={**NO_STORE, "Content-Type": kind})
