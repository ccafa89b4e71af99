"""The HTTP server: Uvicorn with our protocol for each connection that an `Acceptor` accepts.

No name is used that Uvicorn marks as private; see `docs/architecture.md`.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Container, Iterator
from functools import partial
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp

from reactor_runtime.server.net.acceptor import Acceptor
from reactor_runtime.server.net.application import Application
from reactor_runtime.server.net.http_protocol import HttpProtocol
from reactor_runtime.server.net.shares import Accounts
from reactor_runtime.server.net.socket_protocol import SocketProtocol
from reactor_runtime.server.telemetry.metrics import LabelledCounter


class ServerConfig(uvicorn.Config):
    """Hold Uvicorn's settings; the headers in which `proxies` report their clients are trusted."""

    def __init__(self, app: ASGIApp, refusals: LabelledCounter, *, proxies: Container[str] = ()) -> None:
        super().__init__(
            app,
            http=UvicornProtocol,
            # The protocol serves WebSockets too, and knows the proxies.
            ws="none",
            proxy_headers=False,
            log_config=None,
            lifespan="off",
            timeout_graceful_shutdown=1,
        )
        self.application = Application(app, refusals, proxies, Accounts(exempt=proxies))


class UvicornProtocol(HttpProtocol):
    """Serve a connection; Uvicorn constructs this with its own arguments."""

    def __init__(self, config: ServerConfig, server_state: Any, **_: Any) -> None:
        super().__init__(config.application, server_state.connections)


class HttpServer(uvicorn.Server):
    """Uvicorn's server behind an `Acceptor`, which makes a protocol for each connection."""

    def __init__(self, config: ServerConfig, acceptor: Acceptor) -> None:
        super().__init__(config)
        self._application = config.application
        self._acceptor = acceptor
        self._stopped = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        application, connections = self._application, cast("set[asyncio.Protocol]", self.server_state.connections)
        make_protocol = partial(HttpProtocol, application, connections)
        self._acceptor.start(make_protocol, application.accounts, application.reading)

    async def main_loop(self) -> None:
        """Wait until `stop`: Uvicorn would wake ten times a second."""
        await self._stopped.wait()

    def stop(self) -> None:
        """Make `serve` close what is open, and return."""
        self.should_exit = True
        self._stopped.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._acceptor.close()
        # Uvicorn waits for these, and cancels them when they take longer than a second.
        self.server_state.tasks.update(self._application.tasks)
        for task in self._application.tasks:
            task.add_done_callback(self.server_state.tasks.discard)
        await super().shutdown(sockets)

    async def wait_sockets_closed(self) -> None:
        """Wait until every client has answered the close of its WebSocket, or has gone.

        A connection that is closed earlier may be reset by what the client still sends, and its close code be lost.
        """
        for protocol in tuple(self.server_state.connections):
            if isinstance(protocol, SocketProtocol):
                await protocol.closed.wait()

    def abort(self) -> None:
        """Accept no more connections, and abort all: Uvicorn would wait for peers that read nothing, and log them."""
        self._acceptor.close()
        for protocol in tuple(self.server_state.connections):
            if isinstance(protocol, HttpProtocol | SocketProtocol):
                protocol.transport.abort()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone: `Service` handles them."""
        yield
