"""The HTTP server: Uvicorn's server, settings and protocols, with the limits of this server.

Everything that overrides Uvicorn is here. `internals.py` lists what is overridden and checks it at import.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import weakref
from asyncio.transports import BaseTransport, Transport
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import h11
import uvicorn
from starlette.types import ASGIApp, Scope

from reactor_runtime.server.net.acceptor import Acceptor
from reactor_runtime.server.net.internals import (
    OPEN,
    H11Protocol,
    Opcode,
    Request,
    Server,
    ServerState,
    WebSocketsSansIOProtocol,
)
from reactor_runtime.server.net.limits import Budget
from reactor_runtime.server.net.message_reader import Violation
from reactor_runtime.server.net.reading import Reading
from reactor_runtime.server.net.sliced_reader import MessageReceiver, SlicedReader
from reactor_runtime.server.net.transport import keep_little_unsent, notice_silence, write_pieces
from reactor_runtime.server.telemetry.metrics import LabelledCounter
from reactor_runtime.wire.protocol import MAX_MEDIA_BYTES, CloseCode

if TYPE_CHECKING:
    from uvicorn._types import ASGISendEvent

REQUEST_S = 10.0
STALLED_S = 20.0
PING_S = 5.0
NO_PONG_S = 20.0
ABORT_S = 2.0
LINGER_S = 0.25
# Uvicorn sets the date of responses on every tenth tick.
TICK_S, TICKS_A_DATE = 1.0, 10
MAX_RECEIVING_BYTES = 64 << 20
# Done, a page that is left, no code: the client does not mean to come back.
FINAL_CODES = (1000, 1001, 1005)
_TOO_SLOW = "the request took too long to arrive\n"
_OLD = "a WebSocket handshake needs HTTP/1.1"
_NO_HANDSHAKE = "not a WebSocket handshake: it has no body, at most 128 headers, and lines of at most 8 KiB\n"
# Where the application finds the protocol that serves it: in the state of a request, in the extensions of a socket.
_HTTP = "reactor.http"
_SOCKET = "reactor.socket"


class ServerConfig(uvicorn.Config):
    """Uvicorn's settings, and what its protocols share: counters, time to read, room for unfinished messages."""

    def __init__(self, app: ASGIApp, refusals: LabelledCounter, *, proxies: Sequence[str] = ()) -> None:
        super().__init__(
            app,
            http=HttpProtocol,
            ws=SocketProtocol,
            ws_max_size=MAX_MEDIA_BYTES,
            ws_ping_interval=PING_S,
            ws_ping_timeout=NO_PONG_S,
            # Deflate on JPEG: 2.6 times fewer frames, 2 to 16 ms added to each.
            ws_per_message_deflate=False,
            proxy_headers=bool(proxies),
            forwarded_allow_ips=list(proxies),
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        self.refusals = refusals
        self.reading = Reading()
        self.receiving = Budget(MAX_RECEIVING_BYTES)


class HttpServer(Server):
    """Uvicorn's server behind an `Acceptor`, which makes a protocol for each connection."""

    def __init__(self, config: ServerConfig, acceptor: Acceptor) -> None:
        super().__init__(config)
        self._acceptor = acceptor
        self._stopped = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        loop = asyncio.get_running_loop()
        self._acceptor.start(partial(HttpProtocol, self.config, self.server_state, self.lifespan.state, loop))

    async def main_loop(self) -> None:
        """Wait until `stop`, and set the date of responses once a second: Uvicorn would wake ten times for that."""
        while not self._stopped.is_set():
            await self.on_tick(TICKS_A_DATE)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TICK_S):
                    await self._stopped.wait()

    def stop(self) -> None:
        """Make `serve` close what is open, and return."""
        self.should_exit = True
        self._stopped.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._acceptor.close()
        await super().shutdown(sockets)

    async def wait_sockets_closed(self) -> None:
        """Wait until every client has answered the close of its WebSocket, or has gone.

        A connection that is closed earlier may be reset by what the client still sends, and its close code be lost.
        """
        for protocol in tuple(self.server_state.connections):
            if isinstance(protocol, SocketProtocol):
                await protocol.closed.wait()

    def abort(self) -> None:
        """Abort all connections: Uvicorn would wait for peers that read nothing, and log them as an error."""
        for protocol in tuple(self.server_state.connections):
            protocol.transport.abort()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone: `Service` handles them."""
        yield


class HttpProtocol(H11Protocol):
    """Uvicorn's HTTP protocol, with limits on time.

    A request has to arrive within 10 s. A peer that reads nothing of its response for 20 s is disconnected. Little is
    buffered, so that the newest frame can replace one that is not sent yet.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, {**app_state, _HTTP: weakref.ref(self)}, _loop)
        assert isinstance(config, ServerConfig), "the server is made with one"
        self._refusals = config.refusals
        self._on_writable: Callable[[], object] | None = None
        self._ignoring = False
        self._deadline: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None

    @staticmethod
    def serving(scope: Scope) -> HttpProtocol | None:
        """Return the protocol that serves a request, None if that is another server's."""
        reference = scope.get("state", {}).get(_HTTP)
        if reference is None:
            return None
        protocol: HttpProtocol | None = reference()
        assert protocol is not None, "it lives as long as the application that it calls"
        return protocol

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]  # as in the library
        super().connection_made(transport)
        keep_little_unsent(transport)
        notice_silence(transport, round(STALLED_S))
        self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_deadline()
        self._cancel_stalled()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        # Protocol and cycle refer to each other.
        self.cycle = None  # type: ignore[assignment]  # the library itself compares it with None

    def data_received(self, data: bytes) -> None:
        if self._ignoring:
            return
        super().data_received(data)
        answering = self.cycle is not None and not self.cycle.response_complete
        if answering or self.transport.is_closing():
            self._cancel_deadline()
        elif self._deadline is None and self.transport.get_protocol() is self:
            self._expect_request()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._cancel_deadline()
        if event.http_version == b"1.1":
            super().handle_websocket_upgrade(event)
            # Over TLS, writing may be paused since the handshake, and resumes in the protocol of the WebSocket.
            self._cancel_stalled()
        else:
            self.send_400_response(_OLD)

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP; the library would fail while a response has begun, or is still to come."""
        self._answer(HTTPStatus.BAD_REQUEST, f"{msg}\n")

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled = self._stalled or self.loop.call_later(STALLED_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._cancel_stalled()
        if self._on_writable is not None:
            self._on_writable()

    @property
    def ready(self) -> bool:
        """Return whether what is written goes to the kernel at once."""
        return not self.flow.write_paused

    def notify_writable(self, on_writable: Callable[[], object] | None) -> None:
        """Call `on_writable` whenever the connection becomes ready again; None ends that."""
        self._on_writable = on_writable

    def write(self, *pieces: bytes) -> None:
        """Write to the connection without waiting; nothing happens when it is closed."""
        if not self.transport.is_closing():
            write_pieces(self.transport, *pieces)

    def ignore_received(self) -> None:
        """Drop what the client sends from here on: unread, it would hide that the client has gone."""
        self._ignoring = True
        self.flow.resume_reading()

    def _expect_request(self) -> None:
        self._deadline = self.loop.call_later(REQUEST_S, self._request_too_late)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _cancel_stalled(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _request_too_late(self) -> None:
        self._deadline = None
        self._answer(HTTPStatus.REQUEST_TIMEOUT, _TOO_SLOW)

    def _answer(self, status: HTTPStatus, text: str) -> None:
        """Answer in place of the application, unless a response has begun, and close the connection."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._refusals.add(str(int(status)))
            self.transport.write(_plain_response(status, text))
        self.transport.close()
        if self.cycle is not None:
            # Uvicorn drops what the application sends from here on.
            self.cycle.disconnected = True
            self.cycle.message_event.set()


class SocketProtocol(WebSocketsSansIOProtocol):
    """Uvicorn's WebSocket protocol, with limits on what is received, and little buffered of what is sent.

    The libraries make the handshake and answer control frames. A `SlicedReader` reads messages: Uvicorn would hold
    16 MiB for each client that announces as much, and read everything that has arrived at once.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        assert isinstance(config, ServerConfig), "the server is made with one"
        self._reading, self._receiving, self._refusals = config.reading, config.receiving, config.refusals
        self.closed = asyncio.Event()
        self._on_writable: Callable[[], object] | None = None
        self._abort: asyncio.TimerHandle | None = None

    @staticmethod
    def serving(scope: Scope) -> SocketProtocol | None:
        """Return the protocol that serves a WebSocket, None if that is another server's."""
        extension = scope.get("extensions", {}).get(_SOCKET)
        if extension is None:
            return None
        protocol: SocketProtocol | None = extension["protocol"]()
        assert protocol is not None, "it lives as long as the application that it calls"
        return protocol

    def connection_made(self, transport: BaseTransport) -> None:
        super().connection_made(transport)
        keep_little_unsent(self.transport)
        self._reader = SlicedReader(
            self.transport,
            self._reading,
            self._receiving,
            on_control=super().data_received,
            on_violation=self._on_violation,
        )

    def connection_lost(self, exc: Exception | None) -> None:
        self._reader.close()
        # It refers to this object, as the parser, a generator, does to the object that holds it.
        del self._reader
        if self._abort is not None:
            self._abort.cancel()
            self._abort = None
        super().connection_lost(exc)
        self.conn.parser.close()
        self.closed.set()

    def data_received(self, data: bytes) -> None:
        if self.handshake_initiated:
            self._reader.feed(data)
            return
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            self._refuse_handshake()

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if self.response.status_code == HTTPStatus.SWITCHING_PROTOCOLS:
            self.scope["extensions"][_SOCKET] = {"protocol": weakref.ref(self)}
        else:
            self._refusals.add(str(int(self.response.status_code)))

    def handle_ping(self) -> None:
        """Answer with a pong, unless the client reads nothing: its pongs would fill the buffer."""
        pong = b"".join(self.conn.data_to_send())
        if self.writable.is_set():
            self.transport.write(pong)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._on_writable is not None:
            self._on_writable()

    def keepalive_timeout(self) -> None:
        """Close a connection without pongs with a code of this server."""
        if not self.close_sent and not self.transport.is_closing():
            self.conn.send_close(CloseCode.NO_PONG, f"no pong for {NO_PONG_S:.0f} s")
        super().keepalive_timeout()
        self._abort_soon()

    def on_task_complete(self, task: asyncio.Task[None]) -> None:
        super().on_task_complete(task)
        self._abort_soon()

    async def send(self, message: ASGISendEvent) -> None:
        await super().send(message)
        if message["type"] == "websocket.close":
            self._reader.ignore_messages()
        elif message["type"] == "websocket.http.response.body":
            # Uvicorn would log that a handshake which was refused in this way was not completed.
            self.handshake_complete = True

    def serve(self, receiver: MessageReceiver) -> None:
        """Pass the client's messages to a receiver, also those that have arrived before."""
        if not self.disconnected:
            self._reader.start(receiver)

    @property
    def ready(self) -> bool:
        """Return whether what is posted goes to the kernel at once."""
        return self.writable.is_set()

    def notify_writable(self, on_writable: Callable[[], object] | None) -> None:
        """Call `on_writable` whenever the socket becomes ready again; None ends that."""
        self._on_writable = on_writable

    def post(self, item: str | bytes) -> None:
        """Send a message without waiting; nothing happens when the connection is closed."""
        if self.conn.state is not OPEN or self.transport.is_closing():
            return
        if isinstance(item, str):
            self.conn.send_text(item.encode())
            self.transport.write(b"".join(self.conn.data_to_send()))
        else:
            # The library would copy a frame three times.
            write_pieces(self.transport, _binary_header(len(item)), item)

    @property
    def left_for_good(self) -> bool:
        """Return whether the client has closed the connection with a code that says it does not come back."""
        received = self.conn.close_rcvd
        return received is not None and received.code in FINAL_CODES

    def _refuse_handshake(self) -> None:
        """Answer what is valid HTTP and no valid handshake: the library would neither answer nor close."""
        self.handshake_initiated = self.handshake_complete = self.close_sent = True
        self._refusals.add("400")
        self.transport.write(_plain_response(HTTPStatus.BAD_REQUEST, _NO_HANDSHAKE))
        self.transport.close()

    def _on_violation(self, violation: Violation) -> None:
        """Close the connection, and report that to the application."""
        if self.transport.is_closing():
            return
        code, reason = violation.code, violation.message
        if not self.close_sent:
            self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
            if self.conn.state is OPEN:
                self.conn.send_close(code, reason)
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.close_sent = True
        self.close_timer = self.loop.call_later(LINGER_S, self.transport.close)
        self._abort_soon()

    def _abort_soon(self) -> None:
        """Limit the time of closing, which waits until everything is sent: a peer may read nothing."""
        if not self.disconnected and self._abort is None:
            self._abort = self.loop.call_later(ABORT_S, self.transport.abort)


def _plain_response(status: HTTPStatus, text: str) -> bytes:
    head = f"HTTP/1.1 {int(status)} {status.phrase}\r\nContent-Type: text/plain\r\nContent-Length: {len(text)}\r\n"
    return f"{head}Connection: close\r\n\r\n{text}".encode()


def _binary_header(size: int) -> bytes:
    """Return the header of an unfragmented binary message from a server (RFC 6455, 5.2)."""
    first = 0x80 | Opcode.BINARY
    if size < 126:
        return struct.pack(">BB", first, size)
    return struct.pack(">BBH", first, 126, size) if size < 1 << 16 else struct.pack(">BBQ", first, 127, size)
