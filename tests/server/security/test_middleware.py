"""The middleware before an application that returns what it got."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Message

from reactor_runtime.server.net.limits import ConnectionLimiter
from reactor_runtime.server.options import ANY_SERVER
from reactor_runtime.server.security.hosts import Hosts
from reactor_runtime.server.security.middleware import SecurityMiddleware
from reactor_runtime.server.security.origins import Origins
from reactor_runtime.server.security.token import Token
from reactor_runtime.server.telemetry.metrics import LabelledCounter

SECRET = "correct-horse"
BASE = "http://127.0.0.1:8080"


async def _echo(request: Request) -> Response:
    return JSONResponse({"path": request.url.path, "known": request.state.known, "root": request.scope["root_path"]})


def middleware(
    *,
    token: bool = True,
    origins: tuple[str, ...] = (),
    root_path: str = "",
    limiter: ConnectionLimiter | None = None,
    connects_to: tuple[str, ...] = (),
) -> SecurityMiddleware:
    """Return a middleware whose application answers any path with JSON, and `/` with text."""
    app = Starlette(
        routes=[
            Route("/", lambda request: PlainTextResponse("page")),  # noqa: ARG005
            Route("/{path:path}", _echo, methods=["GET", "POST"]),
        ]
    )
    return SecurityMiddleware(
        app,
        LabelledCounter(),
        hosts=Hosts("127.0.0.1", machine="box"),
        origins=Origins(origins),
        gate=Token(SECRET, 8080) if token else None,
        limiter=limiter,
        root_path=root_path,
        connects_to=connects_to,
    )


def browser(guard: Any, **options: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(guard), base_url=BASE, **options)


@pytest.mark.parametrize(
    ("path", "status"),
    [("/", 401), ("/schema", 401), ("/nothing", 401), ("/static", 401), ("/health", 200), ("/live", 200),
     ("/ready", 200), ("/static/main.js", 200), ("/reactor.js", 200), ("/healthy", 401), ("/live/", 401),
     ("//live", 401), ("/static/../schema", 401), ("/static/author/logo.png", 401)],
)  # fmt: skip
async def test_routes_need_the_token_unless_they_are_open(path: str, status: int) -> None:
    async with browser(middleware()) as client:
        assert (await client.get(f"{BASE}{path}")).status_code == status
        assert (await client.get(f"{BASE}{path}", headers={"X-Reactor-Token": SECRET})).status_code == 200


async def test_health_without_the_token_is_passed_on_as_unknown() -> None:
    async with browser(middleware()) as client:
        assert (await client.get("/health")).json()["known"] is False
        assert (await client.get("/health", params={"token": SECRET})).json()["known"] is True
    async with browser(middleware(token=False)) as client:
        assert (await client.get("/health")).json()["known"] is True


async def test_a_refusal_names_the_scheme_and_is_not_cached() -> None:
    async with browser(middleware()) as client:
        refused = await client.get("/schema")
        assert (refused.status_code, refused.text) == (401, "this server requires a token\n")
        assert refused.headers["WWW-Authenticate"].startswith("Bearer")
        assert refused.headers["Cache-Control"] == "no-store"
        assert (await client.get("/schema?token=wrong")).text == "the token is wrong\n"


async def test_a_browser_without_the_token_gets_a_page_to_enter_it() -> None:
    async with browser(middleware(), headers={"Accept": "text/html,*/*"}) as client:
        page = await client.get('/?role=viewer&"><script>=1')
        assert page.status_code == 401
        assert "Ask whoever sent you this link for the password" in page.text
        assert '<input type="hidden" name="role" value="viewer">' in page.text
        assert "<script>" not in page.text
        assert "{{" not in page.text
        assert "The password is wrong" in (await client.get("/?token=wrong")).text
        assert (await client.get("/schema")).headers["Content-Type"].startswith("text/plain")


async def test_a_page_opened_with_the_token_sets_a_cookie_that_admits() -> None:
    async with browser(middleware()) as client:
        opened = await client.get("/", params={"token": SECRET})
        assert (opened.status_code, opened.text) == (200, "page")
        assert "HttpOnly" in opened.headers["Set-Cookie"]
        again = await client.get("/schema")
        assert again.status_code == 200
        assert "Set-Cookie" not in again.headers


async def test_a_wrong_token_sets_no_cookie() -> None:
    async with browser(middleware()) as client:
        for path in ("/", "/health", "/static/x.js"):
            assert "Set-Cookie" not in (await client.get(path, params={"token": "wrong"})).headers


async def test_another_host_name_is_refused_with_the_option_that_allows_it() -> None:
    async with browser(middleware(token=False)) as client:
        refused = await client.get("/schema", headers={"Host": "evil.example:8080"})
        assert refused.status_code == 421
        assert "--allow-host evil.example " in refused.text
        assert (await client.get("/live", headers={"Host": "evil.example"})).status_code == 200


@pytest.mark.parametrize(
    ("method", "origin", "status"),
    [
        ("POST", None, 200),
        ("POST", BASE, 200),
        ("POST", "http://evil.example", 403),
        ("POST", "null", 403),
        ("DELETE", "http://evil.example", 403),
        ("GET", "http://evil.example", 200),
    ],
)
async def test_other_sites_may_read_and_not_post(method: str, origin: str | None, status: int) -> None:
    async with browser(middleware(token=False)) as client:
        answer = await client.request(method, "/uploads", headers={"Origin": origin} if origin else {})
        assert answer.status_code == status
        assert "Access-Control-Allow-Origin" not in answer.headers
        if status == 403:
            assert f"--allow-origin {origin} " in answer.text


async def test_a_page_of_an_allowed_site_may_post() -> None:
    async with browser(middleware(token=False, origins=("https://a.example",))) as client:
        assert (await client.post("/uploads", headers={"Origin": "https://a.example"})).status_code == 200
        assert (await client.post("/uploads", headers={"Origin": "https://b.example"})).status_code == 403


async def test_every_response_has_the_security_headers() -> None:
    async with browser(middleware()) as client:
        for path in ("/", "/live", "/static/x.js", "/schema"):
            headers = (await client.get(path)).headers
            policy = dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; "))
            assert policy["default-src"] == "'none'"
            assert policy["script-src"] == policy["style-src"] == policy["frame-ancestors"] == "'self'"
            assert policy["connect-src"] == "'self' ws://127.0.0.1:8080 wss://127.0.0.1:8080"
            assert "unsafe" not in headers["Content-Security-Policy"]
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Referrer-Policy"] == "no-referrer"
            assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
            assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
            assert headers["X-Frame-Options"] == "SAMEORIGIN"


async def test_an_allowed_site_may_show_the_page_in_a_frame() -> None:
    async with browser(middleware(token=False, origins=("https://a.example", "null"))) as client:
        headers = (await client.get("/")).headers
        assert headers["Content-Security-Policy"].endswith("frame-ancestors 'self' https://a.example")
        assert "X-Frame-Options" not in headers


async def test_the_page_of_a_server_that_redirects_may_connect_to_any() -> None:
    async with browser(middleware(token=False, connects_to=ANY_SERVER)) as client:
        policy = (await client.get("/")).headers["Content-Security-Policy"]
        assert "connect-src 'self' ws://127.0.0.1:8080 wss://127.0.0.1:8080 http: https: ws: wss:; form" in policy


@pytest.mark.parametrize("stripped", [True, False], ids=["proxy strips the path", "proxy keeps it"])
async def test_a_root_path_works_with_and_without_the_proxy_stripping_it(stripped: bool) -> None:
    async with browser(middleware(root_path="/demo")) as client:
        root = "" if stripped else "/demo"
        assert (await client.get(f"{root}/schema")).status_code == 401
        told = await client.get(f"{root}/schema", params={"token": SECRET})
        assert told.json() == {"path": "/demo/schema", "known": True, "root": "/demo"}
        opened = await client.get(f"{root}/", params={"token": SECRET})
        assert (opened.text, "Path=/demo;" in opened.headers["Set-Cookie"]) == ("page", True)
        assert (await client.get(f"{root}/static/x.js")).status_code == 200


async def test_the_root_path_without_a_slash_is_redirected() -> None:
    async with browser(middleware(token=False, root_path="/demo")) as client:
        assert (await client.get("/demo")).headers["Location"] == "/demo/"
        assert (await client.get("/demolition")).json()["path"] == "/demo/demolition"


class Socket:
    """A WebSocket's side of the server, before its handshake."""

    def __init__(self, *headers: tuple[str, str], query: str = "", http_answers: bool = True) -> None:
        self.sent: list[Message] = []
        self.scope = {
            "type": "websocket", "scheme": "ws", "path": "/ws", "root_path": "", "query_string": query.encode(),
            "headers": [(b"host", b"127.0.0.1:8080"), *((a.encode(), b.encode()) for a, b in headers)],
            "client": ("192.0.2.1", 5000), "subprotocols": [],
            "extensions": {"websocket.http.response": {}} if http_answers else {},
        }  # fmt: skip

    async def receive(self) -> Message:
        return {"type": "websocket.connect"}

    async def send(self, message: Message) -> None:
        self.sent.append(message)


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ([("origin", "http://127.0.0.1:8080")], 401, 4401),
        ([("origin", "http://evil.example"), ("x-reactor-token", SECRET)], 403, 4403),
    ],
)
async def test_a_socket_is_refused_with_http_where_possible(
    headers: list[tuple[str, str]], status: int, code: int
) -> None:
    asked = Socket(*headers)
    await middleware()(asked.scope, asked.receive, asked.send)
    assert asked.sent[0]["status"] == status
    without = Socket(*headers, http_answers=False)
    await middleware()(without.scope, without.receive, without.send)
    assert [message["type"] for message in without.sent] == ["websocket.accept", "websocket.close"]
    assert without.sent[1]["code"] == code


async def test_connections_through_a_proxy_are_limited_by_address() -> None:
    limiter = ConnectionLimiter(1)
    asked = Socket(("x-reactor-token", SECRET))
    assert limiter.enter("192.0.2.1", "somebody else of that address")
    await middleware(limiter=limiter)(asked.scope, asked.receive, asked.send)
    assert asked.sent[0]["status"] == 429
    transport = httpx.ASGITransport(middleware(limiter=limiter), client=("192.0.2.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url=BASE) as client:
        assert (await client.get("/health")).status_code == 429
        limiter.leave("192.0.2.1", "somebody else of that address")
        assert (await client.get("/health")).status_code == 200
    assert len(limiter) == 0
