"""The first stage of every request and WebSocket: checks host, origin and token, and adds the security headers.

`hosts.py`, `origins.py` and `token.py` have the rules.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from reactor_runtime.server.net.limits import ConnectionLimiter
from reactor_runtime.server.net.listening import is_loopback
from reactor_runtime.server.security import token
from reactor_runtime.server.security.gate import RequestGate
from reactor_runtime.server.security.hosts import Hosts, name_in
from reactor_runtime.server.security.origins import Origins
from reactor_runtime.server.telemetry.metrics import LabelledCounter
from reactor_runtime.wire.protocol import CloseCode

# The header is the client's: nothing else of it may get into a content policy.
_POLICY_HOST = re.compile(r"[a-z0-9_.:\[\]-]+")
HARMLESS = ("GET", "HEAD", "OPTIONS")
# Open without a token; /health returns less then. /live is open by any host name too.
OPEN = ("/health", "/ready", "/reactor.js")
FILES = "/static/"
# The folder of the author's images below FILES; these need the token.
IMAGE_FOLDER = "author"
NO_STORE = {"Cache-Control": "no-store"}
# Caches keep the response, and ask with its ETag whether it has changed.
NO_CACHE = {"Cache-Control": "no-cache"}
CLOSE = {"Connection": "close"}
PLAIN = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
TWO_LENGTHS = "a request has Content-Length or Transfer-Encoding, not both"
# The page that asks for the token calls it the password.
PASSWORD_WORDS = {token.NO_TOKEN: "", token.WRONG_TOKEN: "The password is wrong"}
TOKEN_PAGE = Path(__file__).parents[1] / "token_page" / "token.html"


@dataclass(frozen=True, slots=True)
class Denial:
    """The refusal of a request: the status for HTTP, the close code for a WebSocket, and the reason."""

    status: int
    code: CloseCode
    message: str


class SecurityMiddleware:
    """Pass requests to `app` that have an allowed host and an allowed origin, and that the gate admits; refuse others.

    In the `state` of a request, `guarded` says whether there is a gate, and `known` whether it admits the request.
    """

    def __init__(
        self,
        app: ASGIApp,
        refusals: LabelledCounter,
        *,
        hosts: Hosts,
        origins: Origins,
        gate: RequestGate | None = None,
        limiter: ConnectionLimiter | None = None,
        root_path: str = "",
        connects_to: Sequence[str] = (),
        title: str = "",
        accent: str = "",
    ) -> None:
        self._app = app
        self._refusals = refusals
        self._hosts = hosts
        self._origins = origins
        self._gate = gate
        self._limiter = limiter
        self._root_path = root_path
        self._connects_to = connects_to
        page = TOKEN_PAGE.read_text(encoding="utf-8")
        self._token_page = page.replace("{{title}}", escape(title or "Reactor")).replace("{{accent}}", accent)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request or a WebSocket."""
        self._enter_root(scope)
        request = HTTPConnection(scope)
        secure = scope["scheme"] in ("https", "wss")
        headers = security_headers(
            request.headers, secure=secure, embedders=self._origins.allowed, connects_to=self._connects_to
        )
        send = adding_headers(headers, _counting(self._refusals, send))
        refusal = self._refusal(request)
        if refusal is not None:
            await self._refuse(refusal, request, scope, receive, send)
        elif scope["path"] == (root := _root_of(scope)) != "":
            await RedirectResponse(f"{root}/")(scope, receive, send)
        else:
            await self._serve(request, scope, receive, send)

    def _enter_root(self, scope: Scope) -> None:
        """Set the root path in the scope, whether or not the proxy has left it in the path."""
        root, path = self._root_path, scope["path"]
        if root:
            inside = path == root or path.startswith(f"{root}/")
            scope["root_path"], scope["path"] = root, path if inside else root + path

    def _refusal(self, request: HTTPConnection) -> Denial | None:
        scope = request.scope
        path = scope["path"].removeprefix(_root_of(scope))
        host, origin = request.headers.get("host"), request.headers.get("origin")
        state = scope.setdefault("state", {})
        known = self._gate is None or self._gate.admits(request)
        state.update(known=known, guarded=self._gate is not None)
        if "content-length" in request.headers and "transfer-encoding" in request.headers:
            # A proxy may have chosen the other length, and taken the rest for another request.
            return Denial(400, CloseCode.ORIGIN_NOT_ALLOWED, TWO_LENGTHS)
        if path == "/live":
            return None
        if not self._hosts.allows(host):
            return _wrong_host(host or "")
        has_effects = scope["type"] == "websocket" or scope["method"] not in HARMLESS
        if has_effects and not self._origins.allows(origin, host):
            return _wrong_origin(origin or "")
        is_ours = path.startswith(FILES) and not path.startswith(f"{FILES}{IMAGE_FOLDER}/")
        if known or path in OPEN or is_ours:
            return None
        assert self._gate is not None, "without a gate every request is known"
        return Denial(401, CloseCode.BAD_TOKEN, self._gate.why_refused(request))

    async def _refuse(
        self, refusal: Denial, request: HTTPConnection, scope: Scope, receive: Receive, send: Send
    ) -> None:
        if scope["type"] == "websocket":
            await _refuse_socket(refusal, WebSocket(scope, receive, send))
            return
        await self._answer(refusal, request)(scope, receive, send)

    def _answer(self, refusal: Denial, request: HTTPConnection) -> Response:
        page = refusal.status == 401 and request.scope["path"] == f"{_root_of(request.scope)}/"
        if page and "text/html" in request.headers.get("accept", ""):
            words = PASSWORD_WORDS.get(refusal.message, refusal.message)
            text = self._token_page.replace("{{words}}", escape(words)).replace("{{kept}}", _kept(request))
            return HTMLResponse(text, 401, headers=NO_STORE)
        return _plain(refusal)

    async def _serve(self, request: HTTPConnection, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and count it for its address, which behind a proxy is known only here."""
        if self._limiter is None:
            await self._app(scope, receive, self._with_cookie(request, send))
            return
        address = scope["client"][0] if scope.get("client") else ""
        connection = object()
        if not self._limiter.enter(address, connection):
            refusal = Denial(429, CloseCode.FULL, "too many connections from this address")
            await self._refuse(refusal, request, scope, receive, send)
            return
        try:
            await self._app(scope, receive, self._with_cookie(request, send))
        finally:
            self._limiter.leave(address, connection)

    def _with_cookie(self, request: HTTPConnection, send: Send) -> Send:
        """Add the cookie to the response for a page that was opened with the token."""
        if self._gate is None or request.scope["type"] == "websocket" or not request.scope["state"]["known"]:
            return send
        cookie = self._gate.cookie(request)
        return send if cookie is None else adding_headers({"Set-Cookie": cookie}, send)


def _root_of(scope: Scope) -> str:
    """Return the path under which the application is served: that of `_enter_root`, or of a mount."""
    root: str = scope.get("root_path", "")
    return root


def _wrong_host(host: str) -> Denial:
    name = name_in(host) or "NAME"
    message = f'"{host:.100}" is not a name of this server; reactor run --allow-host {name:.100} allows it'
    return Denial(421, CloseCode.ORIGIN_NOT_ALLOWED, message)


def _wrong_origin(origin: str) -> Denial:
    message = f'pages of "{origin:.100}" may not use this server; reactor run --allow-origin {origin:.100} allows them'
    return Denial(403, CloseCode.ORIGIN_NOT_ALLOWED, message)


def _kept(request: HTTPConnection) -> str:
    """Return the other query parameters, such as the role, as fields of the form."""
    others = [(name, value) for name, value in request.query_params.multi_items() if name != token.QUERY]
    return "".join(f'<input type="hidden" name="{escape(name)}" value="{escape(value)}">' for name, value in others)


def _plain(refusal: Denial) -> Response:
    more = {401: {"WWW-Authenticate": 'Bearer realm="reactor"'}, 400: CLOSE}.get(refusal.status, {})
    return PlainTextResponse(f"{refusal.message}\n", refusal.status, headers={**NO_STORE, **more})


async def _refuse_socket(refusal: Denial, websocket: WebSocket) -> None:
    """Refuse with an HTTP response where the server supports that, and else with a socket that closes at once."""
    if "websocket.http.response" in websocket.scope.get("extensions", {}):
        await websocket.send_denial_response(_plain(refusal))
    else:
        await websocket.accept()
        await websocket.close(refusal.code, refusal.message[:120])


def _counting(refusals: LabelledCounter, send: Send) -> Send:
    """Count responses with a status from 400 to 499, and sockets that are closed before they are accepted."""
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


def adding_headers(headers: Mapping[str, str], send: Send) -> Send:
    """Return a `send` that adds headers to the response, except those that it has."""

    async def add(message: Message) -> None:
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            present = MutableHeaders(scope=message)
            for name, value in headers.items():
                present.setdefault(name, value)
        await send(message)

    return add


def security_headers(
    request: Headers, *, secure: bool, embedders: Sequence[str], connects_to: Sequence[str] = ()
) -> Mapping[str, str]:
    """Return the security headers of a response; pages of `embedders` may show ours in a frame.

    The page may connect to the sources `connects_to` too.

    Browsers warn of an opener policy on a connection that they do not trust, so it is sent on others only.
    """
    host = request.get("host", "").lower()
    isolated = secure or is_loopback(host.rpartition(":")[0].strip("[]") or host)
    return {
        **PLAIN,
        "Content-Security-Policy": _content_policy(host, embedders, connects_to),
        "Cross-Origin-Resource-Policy": "cross-origin" if embedders else "same-origin",
        **({} if embedders else {"X-Frame-Options": "SAMEORIGIN"}),
        **({"Cross-Origin-Opener-Policy": "same-origin"} if isolated else {}),
    }


def _content_policy(host: str, embedders: Sequence[str], connects_to: Sequence[str]) -> str:
    """Return the policy of the page: it may load its own files, and images and sound that it made itself.

    Some browsers do not count a WebSocket to the page's own host as 'self', so it is named too.
    """
    frames = " ".join(each for each in embedders if each != "null")
    sockets = [f"ws://{host}", f"wss://{host}"] if _POLICY_HOST.fullmatch(host) else []
    return "; ".join(
        [
            "default-src 'none'",
            "script-src 'self'",
            "worker-src 'self'",
            "style-src 'self'",
            "img-src 'self' blob: data:",
            "media-src 'self' blob:",
            " ".join(["connect-src 'self'", *sockets, *connects_to]),
            "form-action 'self'",
            "base-uri 'none'",
            f"frame-ancestors 'self' {frames}".rstrip(),
        ]
    )
