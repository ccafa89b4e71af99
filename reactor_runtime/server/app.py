"""The server's web application, from the connection to the routes: what a request passes on its way in."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from reactor_runtime.server.net.limits import ConnectionLimiter
from reactor_runtime.server.net.protocols import EdgeConfig
from reactor_runtime.server.net.streaming import StreamingHttp
from reactor_runtime.server.routes.websocket import NO_PONG_S, PING_S, SocketProtocol
from reactor_runtime.server.security.access import Access
from reactor_runtime.server.security.hosts import Hosts
from reactor_runtime.server.security.middleware import SecurityMiddleware
from reactor_runtime.server.security.origins import Origins
from reactor_runtime.server.security.proxies import Proxies
from reactor_runtime.server.security.token import HEADER, Token
from reactor_runtime.server.telemetry.metrics import LabelledCounter
from reactor_runtime.wire.protocol import MAX_MEDIA_BYTES


def http_config(
    routes: Sequence[BaseRoute],
    access: Access,
    *,
    host: str,
    port: int,
    refusals: LabelledCounter,
) -> EdgeConfig:
    """Make what Uvicorn serves: the routes behind the guard, with the limits that `access` names."""
    proxies = Proxies(access.proxies)
    return EdgeConfig(
        _guarded(Starlette(routes=routes), access, host=host, port=port, refusals=refusals),
        refusals,
        http=StreamingHttp,
        ws=SocketProtocol,
        ws_max_size=MAX_MEDIA_BYTES,
        ws_ping_interval=PING_S,
        ws_ping_timeout=NO_PONG_S,
        ws_per_message_deflate=False,  # deflate on JPEG: 2.6 times fewer frames, 2 to 16 ms added each
        proxy_headers=bool(proxies),
        forwarded_allow_ips=list(access.proxies),
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=1,
    )


def _guarded(app: ASGIApp, access: Access, *, host: str, port: int, refusals: LabelledCounter) -> ASGIApp:
    guard = SecurityMiddleware(
        app,
        refusals,
        hosts=Hosts(host, access.hosts),
        origins=Origins(access.origins),
        token=None if access.token is None else Token(access.token, port),
        limiter=ConnectionLimiter(access.per_address) if access.proxies else None,
        root_path=access.root_path,
    )
    if not access.origins:
        return guard
    headers = ("Authorization", HEADER, "Content-Type")
    return CORSMiddleware(
        guard, allow_origins=access.origins, allow_methods=("GET", "POST"), allow_headers=headers, max_age=600
    )
