"""Assembles the web application: the routes behind CORS and the security middleware."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from reactor_runtime.server.net.http_server import ServerConfig
from reactor_runtime.server.net.limits import ConnectionLimiter
from reactor_runtime.server.options import ServeOptions
from reactor_runtime.server.security.gate import RequestGate
from reactor_runtime.server.security.hosts import Hosts
from reactor_runtime.server.security.middleware import SecurityMiddleware
from reactor_runtime.server.security.origins import Origins
from reactor_runtime.server.security.proxies import Proxies
from reactor_runtime.server.security.token import HEADER, Token
from reactor_runtime.server.telemetry.metrics import LabelledCounter


def http_config(
    routes: Sequence[BaseRoute],
    options: ServeOptions,
    *,
    port: int,
    refusals: LabelledCounter,
    gate: RequestGate | None = None,
) -> ServerConfig:
    """Return Uvicorn's settings for the routes behind the middleware; `port` is the actual one."""
    by_proxy = bool(options.access.proxies)
    app = guarded(routes, options, port=port, refusals=refusals, counts_requests=by_proxy, gate=gate)
    return ServerConfig(app, refusals, proxies=Proxies(options.access.proxies))


def guarded(
    routes: Sequence[BaseRoute],
    options: ServeOptions,
    *,
    port: int,
    refusals: LabelledCounter,
    counts_requests: bool,
    gate: RequestGate | None = None,
) -> ASGIApp:
    """Return the routes behind the middleware, which limits the requests of an address if it `counts_requests`.

    `gate` replaces the token of the options.
    """
    app, access = Starlette(routes=routes), options.access
    guard = SecurityMiddleware(
        app,
        refusals,
        hosts=Hosts(options.host, access.hosts),
        origins=Origins(access.origins),
        gate=gate or (None if access.token is None else Token(access.token, port)),
        limiter=ConnectionLimiter(access.per_address) if counts_requests else None,
        root_path=access.root_path,
        connects_to=access.connects_to,
        title=options.manifest.page_settings.title or options.manifest.name,
        accent=options.manifest.page_settings.accent,
    )
    if not access.origins:
        return guard
    headers = ("Authorization", HEADER, "Content-Type")
    return CORSMiddleware(
        guard, allow_origins=access.origins, allow_methods=("GET", "POST"), allow_headers=headers, max_age=600
    )
