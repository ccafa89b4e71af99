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

from reactor_runtime.server.net.reading import RECEIVED_S, SLICE_S, Reading
from reactor_runtime.server.net.shares import Share

logger = logging.getLogger(__name__)

SLOWED = "TLS handshakes wait from=%s: the address has used its share of the server's time"
# The estimated time on the loop of a step of a handshake: a client may send it in any number of parts.
STEP_S = 100e-6
# Of a record: the header, and the longest content. A larger buffer would take more time than to decrypt a short record.
HEADER_BYTES, CONTENT_BYTES = 5, 1 << 14


class Handshakes:
    """Compute handshakes on a thread: a signature would block the loop for up to 10 ms, some key exchanges for 50 ms.

    Of the addresses that may be read, the one with most of its share left is next; while there is none, all wait. Use
    on the server's loop.
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
        waited = self._timer is not None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._busy is not None or not self._waiting:
            return
        now = time.monotonic()
        # An address may have to wait with its share whole.
        connection = max(self._waiting, key=lambda each: (-each.share.wait_s(now), each.share.part_left(now)))
        if wait_s := connection.share.wait_s(now):
            if not waited:
                logger.warning(SLOWED, connection.address, extra={"address": connection.address})
            self._timer = self._loop.call_later(wait_s, self._next)
            return
        del self._waiting[connection]
        self._busy = connection
        step = self._loop.run_in_executor(self._thread, _compute, connection.tls)
        step.add_done_callback(self._computed)

    def _computed(self, step: asyncio.Future[tuple[bool | None, float]]) -> None:
        connection, self._busy = self._busy, None
        if step.cancelled() or connection is None:
            return
        complete, spent_s = step.result()
        connection.share.spend(time.monotonic(), spent_s + STEP_S, interruptible=True)
        connection.handshake_computed(complete=complete)
        self._next()


class Encryption:
    """Encrypt and decrypt the bytes of one TLS connection. Has no socket; use on one thread at a time.

    OpenSSL gets one record at a time: it would use any number of records without content, such as key updates, at once.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        # Whether the client sends no more: it has sent close_notify, or what it has sent is not TLS.
        self.is_over = False
        self._received = bytearray()
        # How much is missing of the record whose first part was used.
        self._record_left = 0

    @property
    def has_record(self) -> bool:
        """Return whether a record was received that is not used yet, or the first part of one."""
        # The first part shows what is not TLS. To use the rest in several parts would only take time.
        return not self.is_over and len(self._received) >= (self._record_left or HEADER_BYTES)

    def feed(self, received: bytes) -> None:
        """Add bytes that the client has sent, for `handshake` or `decrypt`."""
        self._received += received

    def handshake(self) -> bool:
        """Continue the handshake, and return whether it is complete. Raises ssl.SSLError if it failed."""
        while True:
            self._use_record()
            with contextlib.suppress(ssl.SSLWantReadError):
                self._tls.do_handshake()
                return True
            if not self.has_record:
                return False

    def decrypt(self) -> bytes:
        """Decrypt the next record; return what the client sent in it, nothing if only its first part was received."""
        self._use_record()
        try:
            content = self._tls.read(CONTENT_BYTES)
        except ssl.SSLWantReadError:
            return b""
        except ssl.SSLError:
            content = b""
        self.is_over = not content
        return content

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

    def _use_record(self) -> None:
        """Pass the next record to OpenSSL, or its first part."""
        if not self.has_record:
            return
        if not self._record_left:
            # The header ends with the length of what follows it.
            self._record_left = HEADER_BYTES + int.from_bytes(self._received[HEADER_BYTES - 2 : HEADER_BYTES], "big")
        used = self._incoming.write(self._received[: self._record_left])
        del self._received[:used]
        self._record_left -= used


class TlsConnection(Transport, asyncio.Protocol):
    """Encrypt a connection: a protocol of the connection below, a transport of the one above.

    What was received is decrypted in slices, each charged to `share`, while the protocol above reads; nothing more is
    received until then, so that at most one receive of the kernel is held, 256 KiB. While the share has a debt, one
    record is decrypted at a time. asyncio's own TLS would compute handshakes on the loop, decrypt all that has arrived
    at once, and keep more than a frame unsent.
    """

    def __init__(
        self,
        handshakes: Handshakes,
        reading: Reading,
        share: Share,
        address: str,
        protocol: Callable[[], asyncio.Protocol],
        timeout_s: float,
    ) -> None:
        super().__init__()
        self.share = share
        self.address = address
        self.tls = Encryption(handshakes.context)
        self._handshakes = handshakes
        self._reading = reading
        self._make_protocol = protocol
        self._protocol: asyncio.Protocol | None = None
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        # Set while the share has a debt.
        self._wait: asyncio.TimerHandle | None = None
        # Whether the protocol above reads nothing now, and whether nothing more is sent.
        self._paused = self._closing = False

    def connection_made(self, transport: BaseTransport) -> None:
        self._below = cast("Transport", transport)
        self._deadline = self._loop.call_later(self._timeout_s, self._below.abort)
        self._handshakes.begin(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self._deadline.cancel()
        if self._wait is not None:
            self._wait.cancel()
        self._handshakes.end(self)
        self._reading.forget(self)
        # It refers to this object.
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            protocol.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self.tls.feed(data)
        if not self.tls.has_record:
            now = time.monotonic()
            self.share.spend(now, RECEIVED_S)
            self._wait_for_debt(now)
            return
        self._below.pause_reading()
        if self._protocol is None:
            self._handshakes.request(self)
        else:
            self._reading.read(self)

    def read_slice(self) -> bool:
        """Decrypt for half a millisecond; return False, since the next slice is requested if there is more."""
        if self._protocol is None or self._paused or self._below.is_closing():
            return False
        now, began_s = time.monotonic(), time.thread_time()
        # The protocol above knows how long a client with a debt may wait for an answer, so it has to get something.
        deadline = now if self.share.wait_s(now) else now + SLICE_S
        pieces = [self.tls.decrypt()]
        while self.tls.has_record and time.monotonic() < deadline:
            pieces.append(self.tls.decrypt())
        answer, data = self.tls.to_send(), b"".join(pieces)
        if answer and not self._closing:
            self._below.write(answer)
        if data:
            self._protocol.data_received(data)
        # The protocol above charges the estimate for what it receives.
        self.share.spend(now, time.thread_time() - began_s + (0.0 if data else RECEIVED_S))
        if not self._wait_for_debt(now):
            self._read_on()
        return False

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
        if complete is None:
            self._below.close()
            return
        if complete:
            self._deadline.cancel()
            self._handshakes.end(self)
            self._protocol = self._make_protocol()
            self._protocol.connection_made(self)
        self._read_on()

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
        self._paused = True
        self._below.pause_reading()

    def resume_reading(self) -> None:
        self._paused = False
        # As with other transports, no bytes arrive before this returns.
        self._loop.call_soon(self._read_on)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._below.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return self._below.get_write_buffer_size()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = cast("asyncio.Protocol", protocol)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "sslcontext":
            return self._handshakes.context
        return self._below.get_extra_info(name, default)

    def _read_on(self) -> None:
        """Decrypt what was received; when that is done, receive more, or close the connection if its client did."""
        if self._paused or self._wait is not None or self._below.is_closing():
            return
        if self.tls.has_record:
            self._reading.read(self)
        elif self.tls.is_over:
            self._below.close()
        else:
            self._below.resume_reading()

    def _wait_for_debt(self, now: float) -> bool:
        """Receive nothing while the share has a debt; return whether it has one."""
        wait_s = self.share.wait_s(now)
        if wait_s:
            self._below.pause_reading()
            self._wait = self._loop.call_later(wait_s, self._wait_over)
        return wait_s > 0

    def _wait_over(self) -> None:
        self._wait = None
        self._read_on()


def _compute(tls: Encryption) -> tuple[bool | None, float]:
    """Continue a handshake; return whether it is complete, None if it failed, and the CPU time that this took."""
    began_s = time.thread_time()
    complete: bool | None = None
    try:
        complete = tls.handshake()
    except ssl.SSLError as error:
        logger.debug("a TLS handshake failed: %s", error)
    return complete, time.thread_time() - began_s
