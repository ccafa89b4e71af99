"""`POST /uploads` of clients that the front relays: passes the file on to the worker of the session."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from urllib.parse import urlencode

from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from reactor_runtime.cluster.front.remote_worker import RemoteWorker
from reactor_runtime.cluster.front.worker_request import request_worker
from reactor_runtime.server.security.middleware import NO_STORE

STALLED_S = 30.0
PARAMETERS = ("key", "name")
PASSED_ON = (b"content-type", b"content-length", b"transfer-encoding")


def worker_uploads_route(workers: Mapping[str, RemoteWorker]) -> Route:
    """Return the route; the worker checks the key and the size, and answers."""

    async def upload(request: Request) -> Response:
        # The rest of the key is that of one client of the session.
        key = request.query_params.get("key", "").partition(".")[0].encode()
        for worker in workers.values():
            sessions = (slot.session for slot in worker.slots)
            keys = [session.upload_key.encode() for session in sessions if session is not None and session.upload_key]
            if any(secrets.compare_digest(each, key) for each in keys):
                return await _pass_on(request, worker)
        message = "no session with this key runs: reactor.welcome has the upload_key\n"
        return PlainTextResponse(message, status_code=403, headers=NO_STORE)

    return Route("/uploads", upload, methods=["POST"])


async def _pass_on(request: Request, worker: RemoteWorker) -> Response:
    # A token in the query is for the front alone.
    query = {name: request.query_params[name] for name in PARAMETERS if name in request.query_params}
    url = f"{worker.address}/uploads?{urlencode(query)}"
    headers = [(name, value) for name, value in request.headers.raw if name in PASSED_ON]
    try:
        body = request.stream()
        return await request_worker("POST", url, headers=headers, body=body, tls=worker.tls, stalled_s=STALLED_S)
    except (OSError, ClientDisconnect) as error:
        return PlainTextResponse(f"the file was not passed on: {error}\n", status_code=502, headers=NO_STORE)
