"""A client's connection, for HTTP and WebSocket: little is buffered, and a silent peer is detected."""

from __future__ import annotations

import asyncio
import socket
import sys
from asyncio.transports import BaseTransport, Transport
from collections.abc import Callable

from reactor_runtime.server.net.shares import AddressShare

UNSENT_BYTES = 16 * 1024
# Python has the name since 3.12.
TCP_NOTSENT_LOWAT = getattr(socket, "TCP_NOTSENT_LOWAT", 25)

# In these versions asyncio's `writelines` never pauses its protocol (CVE-2024-12254): frames for a slow client would
# pile up.
UNPAUSED = (3, 12) <= sys.version_info < (3, 12, 9) or (3, 13) <= sys.version_info < (3, 13, 2)


def write_pieces(transport: Transport, *pieces: bytes) -> None:
    """Write pieces one after the other, without a copy where that keeps the transport's buffer bounded."""
    # The transports of uvloop are not derived from asyncio's.
    if UNPAUSED and isinstance(transport, Transport):
        transport.write(b"".join(pieces))
    else:
        transport.writelines(pieces)


def keep_little_unsent(transport: Transport) -> None:
    """Make the buffers small: frames wait in the outbox, where a newer one can replace them."""
    transport.set_write_buffer_limits(high=0, low=0)
    sock = transport.get_extra_info("socket")
    if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, UNSENT_BYTES)


def notice_silence(transport: BaseTransport, after_s: int) -> None:
    """Have the kernel probe a peer that is silent for `after_s`, and end the connection if it does not answer."""
    sock = transport.get_extra_info("socket")
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", after_s // 2), ("TCP_KEEPINTVL", after_s // 4), ("TCP_KEEPCNT", 2)):
        # Not every platform has each of these options.
        option = getattr(socket, name, None)
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


class ClientConnection(asyncio.Protocol):
    """Write what the kernel takes at once, or wait until it does; pause and resume reading.

    With `stalled_s` a peer that reads nothing for so long is disconnected.
    """

    transport: Transport
    # The share of the client's address.
    share: AddressShare

    def __init__(self, loop: asyncio.AbstractEventLoop, *, stalled_s: float | None = None) -> None:
        self._loop = loop
        self._stalled_s = stalled_s
        self._stalled: asyncio.TimerHandle | None = None
        self._on_writable: Callable[[], object] | None = None
        self._is_writable = asyncio.Event()
        self._is_writable.set()
        self._reading_paused = False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  (as asyncio has it)
        self._cancel_stalled()
        self._is_writable.set()

    def pause_writing(self) -> None:
        self._is_writable.clear()
        if self._stalled_s is not None and self._stalled is None:
            self._stalled = self._loop.call_later(self._stalled_s, self.transport.abort)

    def resume_writing(self) -> None:
        self._is_writable.set()
        self._cancel_stalled()
        if self._on_writable is not None:
            self._on_writable()

    @property
    def ready(self) -> bool:
        """Return whether what is written goes to the kernel at once."""
        return self._is_writable.is_set()

    async def writable(self) -> None:
        """Wait until what was written has gone to the kernel."""
        if not self._is_writable.is_set():
            await self._is_writable.wait()

    def notify_writable(self, on_writable: Callable[[], object] | None) -> None:
        """Call `on_writable` whenever the connection becomes ready again; None ends these calls."""
        self._on_writable = on_writable

    def write(self, *pieces: bytes) -> None:
        """Write to the connection without waiting; nothing happens when it is closed."""
        if not self.transport.is_closing():
            write_pieces(self.transport, *pieces)

    def pause_reading(self) -> None:
        """Stop reading; bytes that arrive wait in the kernel."""
        if not self._reading_paused and not self.transport.is_closing():
            self._reading_paused = True
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        if self._reading_paused and not self.transport.is_closing():
            self._reading_paused = False
            self.transport.resume_reading()

    def _cancel_stalled(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
