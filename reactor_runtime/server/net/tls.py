"""TLS on a connection: handshakes on a thread of their own, one at a time, charged to the address of the client."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import time
from asyncio.transports import BaseTransport, Transport
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

from reactor_runtime.server.net.limits import LineLimit
from reactor_runtime.server.net.shares import Share

logger = logging.getLogger(__name__)

READ_BYTES = 1 << 18


class Handshakes:
    """Compute handshakes on a thread: a signature would block the loop for up to 10 ms, some key exchanges for 50 ms.

    The address with most of its share left is next; while no address has any left, all wait. Use on the server's loop.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        # With TLS 1.2 a client could renegotiate, and so make the server sign again and again.
        context.options |= ssl.OP_NO_RENEGOTIATION
        self.context = context
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, "tls-handshakes")
        # The connections whose handshake is not over, and those of them that wait for a step.
        self._open: set[TlsConnection] = set()
        self._waiting: dict[TlsConnection, None] = {}
        self._lines = LineLimit()
        self._busy: TlsConnection | None = None
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, connection: TlsConnection) -> None:
        """Add a connection, until `end` is called after its handshake."""
        self._open.add(connection)

    def request(self, connection: TlsConnection) -> None:
        """Continue a handshake, with what the client has sent of it."""
        self._waiting[connection] = None
        self._next()

    def end(self, connection: TlsConnection) -> None:
        self._open.discard(connection)
        self._waiting.pop(connection, None)

    def close(self) -> None:
        """Abort the connections whose handshake is not over, and end the thread."""
        for connection in tuple(self._open):
            connection.abort()
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _next(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._busy is not None or not self._waiting:
            return
        now = time.monotonic()
        connection = max(self._waiting, key=lambda each: each.share.part_left(now))
        if wait_s := connection.share.wait_s(now):
            if self._lines.take(connection.source, now):
                logger.warning("slowing down TLS handshakes of %s: they take too much time", connection.source)
            self._timer = self._loop.call_later(wait_s, self._next)
            return
        del self._waiting[connection]
        self._busy = connection
        received, connection.received = connection.received, b""
        step = self._loop.run_in_executor(self._thread, _compute, connection.tls, received)
        step.add_done_callback(self._computed)

    def _computed(self, step: asyncio.Future[tuple[bool | None, float]]) -> None:
        connection, self._busy = self._busy, None
        if step.cancelled() or connection is None:
            return
        complete, spent_s = step.result()
        connection.share.spend(time.monotonic(), spent_s, interruptible=True)
        connection.handshake_computed(complete=complete)
        self._next()


class Encryption:
    """Encrypt and decrypt the bytes of one TLS connection. Has no socket; use on one thread at a time."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    def handshake(self, received: bytes) -> bool:
        """Continue the handshake, and return whether it is complete. Raises ssl.SSLError if it failed."""
        self._incoming.write(received)
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def decrypt(self, received: bytes) -> tuple[bytes, bool]:
        """Return what the client sent, and whether that is all: it sent close_notify, or the bytes are not TLS."""
        self._incoming.write(received)
        pieces: list[bytes] = []
        try:
            while piece := self._tls.read(READ_BYTES):
                pieces.append(piece)
        except ssl.SSLWantReadError:
            return b"".join(pieces), False
        except ssl.SSLError:
            return b"".join(pieces), True
        return b"".join(pieces), True

    def encrypt(self, pieces: Iterable[Any]) -> None:
        for data in pieces:
            left = memoryview(data)
            while left:
                left = left[self._tls.write(left) :]

    def end(self) -> None:
        """Add a close_notify to the bytes to send, without waiting for that of the client."""
        with contextlib.suppress(ssl.SSLError):
            self._tls.unwrap()

    def to_send(self) -> bytes:
        """Return bytes for the client."""
        return self._outgoing.read()


class TlsConnection(Transport, asyncio.Protocol):
    """Encrypt a connection: a protocol of the connection below, a transport of the one above.

    asyncio's own TLS would compute handshakes on the loop, and keep more than a frame unsent.
    """

    def __init__(
        self,
        handshakes: Handshakes,
        share: Share,
        source: str,
        protocol: Callable[[], asyncio.Protocol],
        timeout_s: float,
    ) -> None:
        super().__init__()
        self.share = share
        self.source = source
        self.tls = Encryption(handshakes.context)
        # What the client has sent of the handshake, until it is computed.
        self.received = b""
        self._handshakes = handshakes
        self._make_protocol = protocol
        self._protocol: asyncio.Protocol | None = None
        self._timeout_s = timeout_s
        self._closing = False

    def connection_made(self, transport: BaseTransport) -> None:
        self._below = cast("Transport", transport)
        self._deadline = asyncio.get_running_loop().call_later(self._timeout_s, self._below.abort)
        self._handshakes.begin(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self._deadline.cancel()
        self._handshakes.end(self)
        # It refers to this object.
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            protocol.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._protocol is not None:
            self._decrypt(data)
            return
        self.received += data
        self._below.pause_reading()
        self._handshakes.request(self)

    def pause_writing(self) -> None:
        if self._protocol is not None:
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        if self._protocol is not None:
            self._protocol.resume_writing()

    def handshake_computed(self, *, complete: bool | None) -> None:
        """Send what was computed, and connect the protocol when the handshake is complete; None is a failure."""
        if self._below.is_closing():
            return
        self._below.write(self.tls.to_send())
        self._below.resume_reading()
        if complete is None:
            self._below.close()
        elif complete:
            self._deadline.cancel()
            self._handshakes.end(self)
            self._protocol = self._make_protocol()
            self._protocol.connection_made(self)
            received, self.received = self.received, b""
            self._decrypt(received)

    def write(self, data: Any) -> None:
        self.writelines((data,))

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        if not self._closing:
            self.tls.encrypt(list_of_data)
            self._below.write(self.tls.to_send())

    def write_eof(self) -> None:
        """Send the end of the output; reading goes on."""
        if not self._closing:
            self._closing = True
            self.tls.end()
            self._below.write(self.tls.to_send())
            self._below.write_eof()

    def close(self) -> None:
        if not self._below.is_closing():
            self.write_eof()
            self._below.close()

    def abort(self) -> None:
        self._closing = True
        self._below.abort()

    def is_closing(self) -> bool:
        return self._below.is_closing()

    def pause_reading(self) -> None:
        self._below.pause_reading()

    def resume_reading(self) -> None:
        self._below.resume_reading()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._below.set_write_buffer_limits(high, low)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = cast("asyncio.Protocol", protocol)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "sslcontext":
            return self._handshakes.context
        return self._below.get_extra_info(name, default)

    def _decrypt(self, received: bytes) -> None:
        began_s = time.thread_time()
        data, is_over = self.tls.decrypt(received)
        answer = self.tls.to_send()
        if answer and not self._closing:
            self._below.write(answer)
        self.share.spend(time.monotonic(), time.thread_time() - began_s)
        if data and self._protocol is not None:
            self._protocol.data_received(data)
        if is_over:
            self._below.close()


def _compute(tls: Encryption, received: bytes) -> tuple[bool | None, float]:
    """Continue a handshake; return whether it is complete, None if it failed, and the CPU time that this took."""
    began_s = time.thread_time()
    complete: bool | None = None
    try:
        complete = tls.handshake(received)
    except ssl.SSLError as error:
        logger.debug("a TLS handshake failed: %s", error)
    return complete, time.thread_time() - began_s
