"""A front without a model: it serves the page, lets each client wait, and redirects it to a server."""

from __future__ import annotations

import json
import mimetypes
import queue
import threading
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import parse_qsl, urlsplit

from starlette.datastructures import Headers as RequestHeaders
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve
from websockets.typing import Subprotocol

from reactor_runtime.server.options import ANY_SERVER
from reactor_runtime.server.security.middleware import security_headers
from tests.timeouts import TIMEOUT_S

PAGE = Path(__file__).parents[2] / "reactor_runtime" / "page"
RETURN = "reactor.return."
LOST = "the machine of your session has failed: you are first in the queue"


class FakeFront:
    """Redirect each client to the next of `workers`, for which it waits in the queue; use as a context manager."""

    def __init__(self) -> None:
        self.workers: queue.Queue[str] = queue.Queue()
        self.queries: list[dict[str, str]] = []
        # Those of lost sessions, for each query.
        self.secrets: list[list[str]] = []
        self._server = serve(
            self._serve,
            "127.0.0.1",
            0,
            subprotocols=[Subprotocol("reactor.v1")],
            process_request=_serve_file,
            compression=None,
        )
        self.url = f"http://127.0.0.1:{self._server.socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._server.shutdown()
        self._thread.join(TIMEOUT_S)

    def _serve(self, connection: ServerConnection) -> None:
        assert connection.request is not None, "it was accepted"
        query = dict(parse_qsl(urlsplit(connection.request.path).query))
        self.queries.append(query)
        offered = connection.request.headers["Sec-WebSocket-Protocol"].split(", ")
        self.secrets.append([name.removeprefix(RETURN) for name in offered if name.startswith(RETURN)])
        try:
            if self.secrets[-1]:
                _send(connection, "reactor.session", phase="lost", message=LOST)
            _send(connection, "reactor.queue", position=1, length=1)
            worker = self.workers.get(timeout=TIMEOUT_S)
            visit = len(self.queries)
            _send(connection, "reactor.redirect", url=worker, ticket=f"t-{visit}", returning=f"t-{visit}.secret")
            connection.close(1000, "continue at the worker")
        except (ConnectionClosed, queue.Empty):
            return


def _send(connection: ServerConnection, type: str, **data: object) -> None:
    connection.send(json.dumps({"type": type, "data": data}))


def _serve_file(connection: ServerConnection, request: Request) -> Response | None:
    path = urlsplit(request.path).path
    if path == "/ws":
        return None
    file = PAGE / (path.removeprefix("/static/") if path != "/" else "index.html")
    if not file.is_file():
        return connection.respond(HTTPStatus.NOT_FOUND, "no such file")
    body = file.read_bytes()
    policy = security_headers(
        RequestHeaders(dict(request.headers.raw_items())), secure=False, embedders=(), connects_to=ANY_SERVER
    )
    kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    headers = {**policy, "Content-Type": kind, "Content-Length": str(len(body)), "Connection": "close"}
    return Response(HTTPStatus.OK, "OK", Headers(headers), body)
