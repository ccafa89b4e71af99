"""The door: every request passes here first, and strangers are told what they lack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from reactor_runtime.server.net.limits import ConnectionLimiter
from reactor_runtime.server.security import token
from reactor_runtime.server.security.headers import security_headers
from reactor_runtime.server.security.hosts import Hosts, name_in
from reactor_runtime.server.security.origins import Origins
from reactor_runtime.server.security.token import Token
from reactor_runtime.server.telemetry.metrics import LabelledCounter
from reactor_runtime.wire.protocol import CloseCode

HARMLESS = ("GET", "HEAD", "OPTIONS")
OPEN = ("/health", "/ready", "/reactor.js")  # /health says less to strangers; /live is asked by whatever name
FILES = "/static/"
NO_STORE = {"Cache-Control": "no-store"}
CLOSE = {"Connection": "close"}
TWO_LENGTHS = "a request has Content-Length or Transfer-Encoding, not both"
TOKEN_PAGE = Path(__file__).parents[1] / "token_page" / "token.html"


@dataclass(frozen=True, slots=True)
class Denial:
    """Why a request is refused, as HTTP and as a socket says it."""

    status: int
    code: CloseCode
    message: str


class SecurityMiddleware:
    """Pass on to `app` what comes by a name of ours, from a page that may, with the token; answer the rest.

    What passes finds in `state` whether it is `guarded` by a token and the client `known`.
    """

    def __init__(
        self,
        app: ASGIApp,
        refusals: LabelledCounter,
        *,
        hosts: Hosts,
        origins: Origins,
        token: Token | None = None,
        limiter: ConnectionLimiter | None = None,
        root_path: str = "",
    ) -> None:
        self._app = app
        self._refusals = refusals
        self._hosts = hosts
        self._origins = origins
        self._token = token
        self._crowd = limiter
        self._root_path = root_path
        self._door_page = TOKEN_PAGE.read_text(encoding="utf-8")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request or socket."""
        self._enter_root(scope)
        request = HTTPConnection(scope)
        secure = scope["scheme"] in ("https", "wss")
        headers = security_headers(request.headers, secure=secure, embedders=self._origins.allowed)
        send = _adding(headers, _counting(self._refusals, send))
        refusal = self._refusal(request)
        if refusal is not None:
            await self._refuse(refusal, request, scope, receive, send)
        elif scope["path"] == self._root_path != "":
            await RedirectResponse(f"{self._root_path}/")(scope, receive, send)
        else:
            await self._serve(request, scope, receive, send)

    def _enter_root(self, scope: Scope) -> None:
        """Say in the scope where we are mounted, whether or not the proxy left that in the path."""
        root, path = self._root_path, scope["path"]
        if root:
            inside = path == root or path.startswith(f"{root}/")
            scope["root_path"], scope["path"] = root, path if inside else root + path

    def _refusal(self, request: HTTPConnection) -> Denial | None:
        scope = request.scope
        path = scope["path"].removeprefix(self._root_path)
        host, origin = request.headers.get("host"), request.headers.get("origin")
        known = self._token is None or self._token.admits(request)
        scope.setdefault("state", {}).update(known=known, guarded=self._token is not None)
        if "content-length" in request.headers and "transfer-encoding" in request.headers:
            return Denial(400, CloseCode.ORIGIN_NOT_ALLOWED, TWO_LENGTHS)  # a proxy may have read another end of it
        if path == "/live":
            return None
        if not self._hosts.allows(host):
            return _not_our_name(host or "")
        causes_something = scope["type"] == "websocket" or scope["method"] not in HARMLESS
        if causes_something and not self._origins.allows(origin, host):
            return _not_our_page(origin or "")
        if known or path in OPEN or path.startswith(FILES):
            return None
        said = "the token is wrong" if token.was_given(request) else "this server wants a token"
        return Denial(401, CloseCode.BAD_TOKEN, said)

    async def _refuse(
        self, refusal: Denial, request: HTTPConnection, scope: Scope, receive: Receive, send: Send
    ) -> None:
        if scope["type"] == "websocket":
            await _refuse_socket(refusal, WebSocket(scope, receive, send))
            return
        await self._answer(refusal, request)(scope, receive, send)

    def _answer(self, refusal: Denial, request: HTTPConnection) -> Response:
        page = refusal.status == 401 and request.scope["path"] == f"{self._root_path}/"
        if page and "text/html" in request.headers.get("accept", ""):
            words = refusal.message[0].upper() + refusal.message[1:]
            text = self._door_page.replace("{{words}}", words).replace("{{kept}}", _kept(request))
            return HTMLResponse(text, 401, headers=NO_STORE)
        return _plain(refusal)

    async def _serve(self, request: HTTPConnection, scope: Scope, receive: Receive, send: Send) -> None:
        """Count who is being served by its address, which is known only here where it comes through a proxy."""
        if self._crowd is None:
            await self._app(scope, receive, self._remembering(request, send))
            return
        address = scope["client"][0] if scope.get("client") else ""
        who = object()
        if not self._crowd.enter(address, who):
            refusal = Denial(429, CloseCode.FULL, "too many connections from this address")
            await self._refuse(refusal, request, scope, receive, send)
            return
        try:
            await self._app(scope, receive, self._remembering(request, send))
        finally:
            self._crowd.leave(address, who)

    def _remembering(self, request: HTTPConnection, send: Send) -> Send:
        """Have the answer to a page that was opened with the token carry the cookie."""
        if self._token is None or request.scope["type"] == "websocket":
            return send
        if token.QUERY not in request.query_params or not request.scope["state"]["known"]:
            return send
        cookie = Response()
        self._token.remember(cookie, request)
        return _adding({"Set-Cookie": cookie.headers["set-cookie"]}, send)


def _not_our_name(host: str) -> Denial:
    name = name_in(host) or "NAME"
    message = f'"{host:.100}" is not a name of this server; reactor run --allow-host {name:.100} makes it one'
    return Denial(421, CloseCode.ORIGIN_NOT_ALLOWED, message)


def _not_our_page(origin: str) -> Denial:
    message = f'pages of "{origin:.100}" may not use this server; reactor run --allow-origin {origin:.100} lets them'
    return Denial(403, CloseCode.ORIGIN_NOT_ALLOWED, message)


def _kept(request: HTTPConnection) -> str:
    """Write what else the address asked for as fields of the form, such as the role."""
    others = [(name, value) for name, value in request.query_params.multi_items() if name != token.QUERY]
    return "".join(f'<input type="hidden" name="{escape(name)}" value="{escape(value)}">' for name, value in others)


def _plain(refusal: Denial) -> Response:
    more = {401: {"WWW-Authenticate": 'Bearer realm="reactor"'}, 400: CLOSE}.get(refusal.status, {})
    return PlainTextResponse(f"{refusal.message}\n", refusal.status, headers={**NO_STORE, **more})


async def _refuse_socket(refusal: Denial, websocket: WebSocket) -> None:
    """Answer with HTTP where the server can, otherwise with a socket that closes at once."""
    if "websocket.http.response" in websocket.scope.get("extensions", {}):
        await websocket.send_denial_response(_plain(refusal))
    else:
        await websocket.accept()
        await websocket.close(refusal.code, refusal.message[:120])


def _counting(refusals: LabelledCounter, send: Send) -> Send:
    """Count what is answered with a status from 400 to 499, and sockets that are closed before they open."""
    opened = False

    async def count(message: Message) -> None:
        nonlocal opened
        kind = message["type"]
        opened = opened or kind == "websocket.accept"
        if kind in ("http.response.start", "websocket.http.response.start") and 400 <= message["status"] < 500:
            refusals.add(str(message["status"]))
        elif kind == "websocket.close" and not opened:
            refusals.add("403")
        await send(message)

    return count


def _adding(headers: Mapping[str, str], send: Send) -> Send:
    async def add(message: Message) -> None:
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            present = MutableHeaders(scope=message)
            for name, value in headers.items():
                present.setdefault(name, value)
        await send(message)

    return add
