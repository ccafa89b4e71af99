"""A WebSocket client on the sans-I/O protocol of `websockets`, without its tasks and queues."""

from __future__ import annotations

import asyncio
import ssl
from asyncio.transports import BaseTransport, Transport
from collections.abc import Callable
from typing import cast

from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.protocol import CONNECTING, OPEN
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from reactor_runtime.server.net.transport import keep_little_unsent
from reactor_runtime.wire.protocol import SUBPROTOCOL

CLOSING_S = 1.0
DONE = 1000
MAX_RECEIVED_BYTES = 64 * 1024 * 1024


class WorkerSocket(asyncio.Protocol):
    """Receive each message in the call that has read it; use on the server's loop.

    Calls `on_message` with texts and files, and `on_writable` when it is `ready` to send again. `closed` has the close
    code and the reason of the worker; None if the connection was lost.
    """

    def __init__(self, url: str, *, on_message: Callable[[str | bytes], None], on_writable: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        self._uri = parse_uri(url)
        self._connection = ClientProtocol(
            self._uri, subprotocols=[Subprotocol(SUBPROTOCOL)], max_size=MAX_RECEIVED_BYTES
        )
        self._on_message = on_message
        self._on_writable = on_writable
        self._transport: Transport | None = None
        self._paused = False
        self._passes_on = True
        self._closing: asyncio.TimerHandle | None = None
        self._opened: asyncio.Future[None] = loop.create_future()
        # Without a look at its exception, asyncio logs it if `open` was cancelled before.
        self._opened.add_done_callback(lambda opened: opened.cancelled() or opened.exception())
        self.closed: asyncio.Future[tuple[int, str] | None] = loop.create_future()

    @property
    def ready(self) -> bool:
        """Return whether what is sent goes to the kernel at once."""
        return self._connection.state is OPEN and not self._paused

    async def open(self, tls: ssl.SSLContext | None) -> None:
        """Connect and make the handshake. Raises OSError, and InvalidHandshake if the worker refuses it."""
        loop, uri = asyncio.get_running_loop(), self._uri
        await loop.create_connection(lambda: self, uri.host, uri.port, ssl=tls if uri.secure else None)
        self._connection.send_request(self._connection.connect())
        self._write()
        await self._opened

    def send(self, message: str | bytes) -> None:
        """Send a message without waiting; use it while `ready`."""
        if isinstance(message, str):
            self._connection.send_text(message.encode())
        else:
            self._connection.send_binary(message)
        self._write()

    def close(self) -> None:
        """Close the connection within a second, and pass on no other message; may be called twice.

        Reads until the worker has closed it: what arrived later would reset it before the worker has read the close.
        """
        self._passes_on = False
        if self._transport is None or self._transport.is_closing():
            return
        if self._connection.state is OPEN:
            self._connection.send_close(DONE)
            self._write()
            self._limit_closing()
        elif self._closing is None:
            self._transport.abort()

    def abort(self) -> None:
        """Break the connection, and pass on no other message."""
        self._passes_on = False
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: BaseTransport) -> None:
        self._transport = cast("Transport", transport)
        keep_little_unsent(self._transport)

    def data_received(self, data: bytes) -> None:
        self._connection.receive_data(data)
        self._handle_events()

    def eof_received(self) -> None:
        self._connection.receive_eof()
        self._handle_events()

    def connection_lost(self, _error: Exception | None) -> None:
        if self._closing is not None:
            self._closing.cancel()
        if not self._opened.done():
            self._opened.set_exception(ConnectionError("the worker closed the connection"))
        if not self.closed.done():
            received = self._connection.close_rcvd
            self.closed.set_result(None if received is None else (received.code, received.reason))

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        if self.ready:
            self._on_writable()

    def _handle_events(self) -> None:
        connection = self._connection
        if not self._opened.done() and connection.handshake_exc is not None:
            self._opened.set_exception(connection.handshake_exc)
        elif not self._opened.done() and connection.state is not CONNECTING:
            self._opened.set_result(None)
        for event in connection.events_received():
            if isinstance(event, Frame):
                self._receive(event)
        self._write()

    def _receive(self, frame: Frame) -> None:
        if frame.opcode is Opcode.CLOSE:
            self._limit_closing()
        elif not self._passes_on:
            return
        # Workers send no fragments.
        elif frame.opcode is Opcode.BINARY:
            self._on_message(bytes(frame.data))
        elif frame.opcode is Opcode.TEXT:
            self._on_message(bytes(frame.data).decode())

    def _limit_closing(self) -> None:
        assert self._transport is not None, "only a connection that was made is closed"
        self._closing = self._closing or asyncio.get_running_loop().call_later(CLOSING_S, self._transport.abort)

    def _write(self) -> None:
        assert self._transport is not None, "only a connection that was made sends"
        if self._transport.is_closing():
            return
        for data in self._connection.data_to_send():
            if data:
                self._transport.write(data)
            elif self._transport.can_write_eof():
                self._transport.write_eof()
