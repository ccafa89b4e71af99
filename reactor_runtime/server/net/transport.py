"""Options of a client's connection, for HTTP and WebSocket: little is buffered, and a silent peer is detected."""

from __future__ import annotations

import socket
import sys
from asyncio.transports import BaseTransport, Transport

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
    # TLS reports full when what it holds has reached the mark, other transports when that is above it.
    transport.set_write_buffer_limits(high=1 if transport.get_extra_info("sslcontext") else 0, low=0)
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
