"""The protocol of a WebSocket: websockets' sans-I/O objects for handshake and control frames, ours for messages.

Little output is buffered, so that the newest frame can replace one that is not sent yet.
"""

from __future__ import annotations

import asyncio
import logging
import struct
import time
from asyncio.transports import Transport
from http import HTTPStatus

from starlette.types import Message, Scope
from websockets.datastructures import Headers
from websockets.frames import Frame, Opcode
from websockets.http11 import Request as HandshakeRequest
from websockets.http11 import Response
from websockets.protocol import OPEN, Protocol, Side
from websockets.server import ServerProtocol

from reactor_runtime.server.net.application import Application
from reactor_runtime.server.net.exchange import Exchange, RequestConnection, plain_response
from reactor_runtime.server.net.http_reader import Request
from reactor_runtime.server.net.message_reader import Violation
from reactor_runtime.server.net.pings import NO_PONG_S, Pings
from reactor_runtime.server.net.shares import AddressShare
from reactor_runtime.server.net.sliced_reader import MessageReceiver, SlicedReader
from reactor_runtime.server.net.tls import TlsConnection
from reactor_runtime.server.net.transport import ClientConnection
from reactor_runtime.wire.protocol import CloseCode

logger = logging.getLogger(__name__)

ABORT_S = 2.0
LINGER_S = 0.25
# Normal closure, going away, no code: the client does not come back.
FINAL_CODES = (1000, 1001, 1005)
GOING_AWAY, NO_CODE, ABNORMAL, INTERNAL_ERROR = 1001, 1005, 1006, 1011
_FAILED = "the server failed\n"
_NO_HANDSHAKE = "not a WebSocket handshake\n"
# Starlette refuses a WebSocket on an unknown path so, without a reason.
_FORBIDDEN = "Forbidden\n"


class SocketProtocol(ClientConnection):
    """Serve one WebSocket, whose handshake request has arrived; use on the server's loop."""

    def __init__(self, application: Application, connections: set[asyncio.Protocol], address: AddressShare) -> None:
        super().__init__(asyncio.get_running_loop())
        self.closed = asyncio.Event()
        self.share = address
        self._application = application
        self._connections = connections
        self._conn = Protocol(Side.SERVER)
        self._reader: SlicedReader | None = None
        # The response to the handshake, until it is sent; after a refusal an exchange has the connection.
        self._handshake: Response | None = None
        self._refusal: Exchange | None = None
        self._is_open = self._connect_given = self._close_sent = False
        self._disconnected: asyncio.Future[tuple[int, str]] = self._loop.create_future()
        self._pings = Pings(self._loop, self._conn.send_ping, self._flush, self._no_pong)
        self._timers: list[asyncio.TimerHandle] = []

    def open(self, transport: Transport, request: Request, scope: Scope, *, writable: bool, received: bytes) -> None:
        """Answer the handshake, or call the application for it; `received` are the bytes that followed."""
        self.transport = transport
        self._connections.add(self)
        if not writable:
            self.pause_writing()
        self._reader = SlicedReader(
            transport,
            self._application.reading,
            self._application.receiving,
            self.share.of_client(time.monotonic()),
            on_control=self._on_control,
            on_violation=self._on_violation,
        )
        if isinstance(transport, TlsConnection):
            # To decrypt messages is part of reading them.
            transport.share = self._reader.share
        if received:
            self._reader.feed(received)
        # Values are bytes of any kind, as in HTTP.
        headers = Headers([(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers])
        handshake = ServerProtocol(logger=logger).accept(HandshakeRequest(request.target.decode("latin-1"), headers))
        if handshake.status_code != HTTPStatus.SWITCHING_PROTOCOLS:
            self._refuse(HTTPStatus.BAD_REQUEST, _NO_HANDSHAKE)
            return
        self._handshake = handshake
        offered = ",".join(headers.get_all("Sec-WebSocket-Protocol")).split(",")
        scope["subprotocols"] = [each.strip() for each in offered if each.strip()]
        scope["extensions"]["websocket.http.response"] = {}
        self._request = request
        self._application.start(self._run(scope), self.share)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._connections.discard(self)
        if self._reader is not None:
            self._reader.close()
            self.share.take_back(self._reader.share, time.monotonic())
            # This breaks cycles of references, also that of the parser, a generator, and the object that holds it.
            self._reader = None
        received = self._conn.close_rcvd
        self._disconnect(*(ABNORMAL, "") if received is None else (received.code, received.reason))
        self._pings.stop()
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        if self._refusal is not None:
            self._refusal.disconnect()
        self._conn.parser.close()
        self.closed.set()

    def data_received(self, data: bytes) -> None:
        if self._reader is not None:
            self._reader.feed(data)

    def shutdown(self) -> None:
        """Close the connection, because the server stops."""
        self._close(GOING_AWAY, "")

    def serve(self, receiver: MessageReceiver) -> None:
        """Pass the client's messages to a receiver, also those that have arrived before."""
        if self._reader is not None:
            self._reader.start(receiver)

    def post(self, item: str | bytes) -> None:
        """Send a message without waiting; nothing happens when the connection is closed."""
        if not self._is_open or self._conn.state is not OPEN:
            return
        if isinstance(item, str):
            self._conn.send_text(item.encode())
            self._flush()
        else:
            # The library would copy a frame three times.
            self.write(_binary_header(len(item)), item)

    @property
    def left_for_good(self) -> bool:
        """Return whether the client has closed the connection with a code for not coming back."""
        received = self._conn.close_rcvd
        return received is not None and received.code in FINAL_CODES

    async def _run(self, scope: Scope) -> None:
        try:
            await self._application.app(scope, self._receive, self._send)
        except Exception:
            logger.exception("a WebSocket failed path=%s", scope["path"])
            self._close(INTERNAL_ERROR, "")
        if self._handshake is not None:
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, _FAILED)
        elif self._is_open:
            self._close(1000, "")

    async def _receive(self) -> Message:
        if not self._connect_given:
            self._connect_given = True
            return {"type": "websocket.connect"}
        code, reason = await asyncio.shield(self._disconnected)
        return {"type": "websocket.disconnect", "code": code, "reason": reason}

    async def _send(self, message: Message) -> None:
        kind = message["type"]
        if kind == "websocket.accept" and self._handshake is not None:
            self._accept(message)
        elif kind == "websocket.close" and self._handshake is not None:
            self._refuse(HTTPStatus.FORBIDDEN, _FORBIDDEN)
        elif kind == "websocket.close":
            self._close(message.get("code", 1000), message.get("reason") or "")
        elif kind == "websocket.send":
            await self.writable()
            text = message.get("text")
            self.post(message["bytes"] if text is None else text)
        elif kind.startswith("websocket.http.response") and not self._is_open:
            if self._refusal is None:
                self._handshake = None
                self._request.keeps_alive = False
                self._refusal = Exchange(self._request, _Denied(self.transport))
            await self._refusal.send({**message, "type": kind.removeprefix("websocket.")})

    def _accept(self, message: Message) -> None:
        response, self._handshake = self._handshake, None
        assert response is not None, "a handshake is answered once"
        if message.get("subprotocol"):
            response.headers["Sec-WebSocket-Protocol"] = message["subprotocol"]
        for name, value in message.get("headers", ()):
            response.headers[name.decode("latin-1")] = value.decode("latin-1")
        self.write(response.serialize())
        self._is_open = True
        self._pings.start()

    def _refuse(self, status: HTTPStatus, text: str) -> None:
        """Refuse a request that is no handshake, or a handshake that the application does not accept."""
        self._handshake = None
        if status is not HTTPStatus.FORBIDDEN:
            self._application.refusals.add(str(int(status)))
        self.write(plain_response(status, text))
        self.transport.close()

    def _on_control(self, frame: bytes) -> None:
        """Answer a control frame; send no pong to a client that reads nothing, since pongs would fill the buffer."""
        self._conn.receive_data(frame)
        opcode = frame[0] & 0x0F
        for event in self._conn.events_received():
            if opcode == Opcode.PONG and isinstance(event, Frame):
                self._pings.on_pong(bytes(event.data))
        if opcode == Opcode.PING:
            answer = b"".join(self._conn.data_to_send())
            if self.ready:
                self.write(answer)
        elif opcode == Opcode.CLOSE:
            self._flush()
            self._end_soon()

    def _no_pong(self) -> None:
        self._close(CloseCode.NO_PONG, f"no pong for {NO_PONG_S:.0f} s")
        self.transport.close()

    def _on_violation(self, violation: Violation) -> None:
        """Send a close code, and close soon; read on until then, since unread bytes would cause a reset."""
        self._close(violation.code, violation.message)
        self._timers.append(self._loop.call_later(LINGER_S, self.transport.close))

    def _close(self, code: int, reason: str) -> None:
        """Send a close frame, and report that to the application; the client has 2 s to answer."""
        if self._close_sent or not self._is_open or self.closed.is_set():
            return
        if self._conn.state is OPEN:
            self._conn.send_close(code, reason)
            self._flush()
        self._end_soon()
        self._disconnect(code, reason)
        if self._reader is not None:
            self._reader.ignore_messages()

    def _end_soon(self) -> None:
        """Limit the time of closing, which waits until everything is sent: a peer may read nothing."""
        self._close_sent = True
        self._pings.stop()
        self._timers.append(self._loop.call_later(ABORT_S, self.transport.abort))
        if self._conn.close_rcvd is not None:
            self._disconnect(self._conn.close_rcvd.code, self._conn.close_rcvd.reason)
            self.transport.close()

    def _disconnect(self, code: int, reason: str) -> None:
        if not self._disconnected.done():
            self._disconnected.set_result((code or NO_CODE, reason))

    def _flush(self) -> None:
        self.write(b"".join(self._conn.data_to_send()))


class _Denied(RequestConnection):
    """Write the response with which the application refuses a handshake."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def write(self, *pieces: bytes) -> None:
        self._transport.write(b"".join(pieces))

    async def writable(self) -> None: ...

    def read_on(self) -> None: ...

    def exchange_over(self, *, keeps_alive: bool) -> None:  # noqa: ARG002  (it never is)
        self._transport.close()


def _binary_header(size: int) -> bytes:
    """Return the header of an unfragmented binary message from a server (RFC 6455, 5.2)."""
    first = 0x80 | Opcode.BINARY
    if size < 126:
        return struct.pack(">BB", first, size)
    return struct.pack(">BBH", first, 126, size) if size < 1 << 16 else struct.pack(">BBQ", first, 127, size)
