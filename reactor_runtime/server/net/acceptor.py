"""Accepts connections: counts them by address below TLS, drops the excess, and recovers when accepting fails."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import struct
import time
from collections.abc import Callable

from reactor_runtime.network import network_of
from reactor_runtime.server.net.limits import ConnectionLimiter, ConnectionPace
from reactor_runtime.server.net.reading import Reading
from reactor_runtime.server.net.shares import Accounts, Share
from reactor_runtime.server.net.tls import Handshakes, TlsConnection
from reactor_runtime.server.telemetry.metrics import LabelledCounter

logger = logging.getLogger(__name__)

HANDSHAKE_S = 10.0
REFUSED_S = 2.0
MOST_REFUSED = 8
AT_ONCE = 32
PAUSE_S = 0.5
# Of one address.
OPENED_PER_S = 100.0
OPENED_AT_ONCE = 8
# What opening a connection costs apart from accepting it.
OPENED_S = 200e-6
# Refusals are counted by their status; these have none.
DROPPED = "none"
# An SO_LINGER that sends RST: the kernel keeps nothing of the connection.
RESET = struct.pack("ii", 1, 0)
_TEXT = b"too many connections from this address\n"
TOO_MANY = (
    b"HTTP/1.1 429 Too Many Requests\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b"
    % (len(_TEXT), _TEXT)
)


class Acceptor:
    """Accept the connections of a listening socket, and open each with a protocol.

    A connection counts for its address until its descriptor is closed, the TLS handshake included. Above the limit of
    an address a connection is answered with 429, at most 8 at a time; others are reset, as are those whose descriptor
    is `most_descriptors` or above. The connections of an address are opened at a limited rate, because many handshakes
    at once would hold up the event loop.
    """

    def __init__(
        self,
        sock: socket.socket,
        limiter: ConnectionLimiter,
        refusals: LabelledCounter,
        *,
        most_descriptors: int,
        tls: ssl.SSLContext | None = None,
        refused_s: float = REFUSED_S,
    ) -> None:
        self._sock = sock
        self._limiter = limiter
        self._refusals = refusals
        self._most_descriptors = most_descriptors
        self._handshakes = None if tls is None else Handshakes(tls)
        self._refused_s = refused_s
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[None]] = set()
        self._refused: set[socket.socket] = set()
        # Whether the last connection found no room; the log has a line when this begins.
        self._is_full = False
        self._pace = ConnectionPace(OPENED_PER_S, OPENED_AT_ONCE)
        self._resuming: asyncio.TimerHandle | None = None
        self._closed = False

    def start(self, make_protocol: Callable[[], asyncio.Protocol], accounts: Accounts, reading: Reading) -> None:
        """Accept connections from here on; `make_protocol` makes the protocol of each, `accounts` are charged."""
        self._make_protocol = make_protocol
        self._accounts = accounts
        self._reading = reading
        self._sock.setblocking(False)
        self._listen()

    def close(self) -> None:
        """Accept no more connections, and cancel those whose TLS handshake is not over."""
        if not self._closed:
            self._closed = True
            self._pause()
            self._sock.close()
            for task in self._opening:
                task.cancel()
            if self._handshakes is not None:
                self._handshakes.close()

    def _listen(self) -> None:
        self._resuming = None
        self._loop.add_reader(self._sock, self._accept)

    def _pause(self) -> None:
        if self._resuming is None:
            self._loop.remove_reader(self._sock)
        else:
            self._resuming.cancel()

    def _accept(self) -> None:
        """Accept at most 32 connections; the loop calls again as long as more wait."""
        for _ in range(AT_ONCE):
            try:
                client, peer = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            # No descriptor or no memory is left; the loop would call again at once.
            except OSError as error:
                self._fail(error)
                return
            began_s = time.thread_time()
            share = self._accounts.of_peer(peer[0], time.monotonic())
            self._admit(client, peer[0], share)
            share.spend(time.monotonic(), time.thread_time() - began_s + OPENED_S)

    def _fail(self, error: OSError) -> None:
        if not self._is_full:
            self._is_full = True
            logger.error("no connection can be accepted: %s; trying again every %.1f s", error.strerror, PAUSE_S)
        self._pause()
        self._resuming = self._loop.call_later(PAUSE_S, self._listen)

    def _admit(self, client: socket.socket, address: str, share: Share) -> None:
        # The kernel gives the lowest free number, so at least as many descriptors are in use.
        if client.fileno() >= self._most_descriptors:
            if not self._is_full:
                self._is_full = True
                logger.warning("connections are refused: the limit of open files (ulimit -n) leaves no room")
            self._drop(client)
            return
        self._is_full = False
        counted = _CountedSocket(client, lambda: self._forget(address, counted))
        if self._limiter.enter(address, counted):
            wait_s = 0.0
            if not self._limiter.is_exempt(address):
                wait_s = self._pace.wait_s(network_of(address), time.monotonic())
            self._open(counted, self._protocol(address, share, self._make_protocol, HANDSHAKE_S), wait_s)
            return
        most = self._limiter.most
        logger.warning("connection refused from=%s: --max-per-address is %d", address, most, extra={"address": address})
        if len(self._refused) >= MOST_REFUSED:
            self._drop(counted)
            return
        self._refused.add(counted)
        self._refusals.add("429")
        refused = self._protocol(address, share, lambda: _Refused(self._refused_s), self._refused_s)
        self._open(counted, refused, 0.0)

    def _protocol(
        self, address: str, share: Share, protocol: Callable[[], asyncio.Protocol], handshake_s: float
    ) -> Callable[[], asyncio.Protocol]:
        """Return the factory for the protocol of a connection; with TLS its protocol encrypts for the given one."""
        handshakes = self._handshakes
        if handshakes is None:
            return protocol
        return lambda: TlsConnection(handshakes, self._reading, share, address, protocol, handshake_s)

    def _forget(self, address: str, client: socket.socket) -> None:
        self._limiter.leave(address, client)
        self._refused.discard(client)

    def _drop(self, client: socket.socket) -> None:
        self._refusals.add(DROPPED)
        # On macOS this fails when the peer has gone.
        with contextlib.suppress(OSError):
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        client.close()

    def _open(self, client: socket.socket, protocol: Callable[[], asyncio.Protocol], wait_s: float) -> None:
        task = self._loop.create_task(self._connect(client, protocol, wait_s))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)
        # It may not have begun.
        task.add_done_callback(lambda opening: client.close() if opening.cancelled() else None)

    async def _connect(self, client: socket.socket, protocol: Callable[[], asyncio.Protocol], wait_s: float) -> None:
        client.setblocking(False)
        if wait_s:
            await asyncio.sleep(wait_s)
        # The peer has gone.
        with contextlib.suppress(OSError):
            await self._loop.connect_accepted_socket(protocol, client)


class _CountedSocket(socket.socket):
    """Call `on_close` once when the transport closes the socket, asyncio by `close`, uvloop by `detach`."""

    def __init__(self, accepted: socket.socket, on_close: Callable[[], object]) -> None:
        super().__init__(accepted.family, accepted.type, accepted.proto, accepted.detach())
        self._on_close: Callable[[], object] | None = on_close

    def close(self) -> None:
        self._closed_once()
        super().close()

    def detach(self) -> int:
        self._closed_once()
        return super().detach()

    def _closed_once(self) -> None:
        # The callback refers to this object.
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            on_close()


class _Refused(asyncio.Protocol):
    """Answer the first request with 429; it is read before, because a response to unread bytes may get lost."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # a transport that can write
        self._transport = transport
        self._deadline = asyncio.get_running_loop().call_later(self._timeout_s, transport.abort)

    def data_received(self, _data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(TOO_MANY)
            self._transport.close()

    def connection_lost(self, _exc: Exception | None) -> None:
        self._deadline.cancel()
