"""Messages between a runner and a rank on a stream socket: a kind, pickled bytes, and the sizes of shared buffers."""

from __future__ import annotations

import enum
import socket
import struct
import time
from dataclasses import dataclass

HEAD = struct.Struct("<BQI")


class MessageKind(enum.IntEnum):
    """Name the requests of a runner, and the replies of a rank."""

    LOAD = 1
    GENERATE = 2
    RESET = 3
    RETURNED = 4
    RAISED = 5
    # The method has returned, but its result can't be sent.
    UNSENT = 6

    @property
    def method(self) -> str:
        """Return the method that a request calls, as text."""
        return f"{self.name.lower()}()"


@dataclass(frozen=True, slots=True)
class RankMessage:
    """Hold one message; `sizes` are those of the buffers in the sender's `SharedSlot`."""

    kind: MessageKind
    body: bytes | bytearray = b""
    sizes: tuple[int, ...] = ()


def send_to(sock: socket.socket, message: RankMessage, deadline: float | None = None) -> None:
    """Write a message; raise TimeoutError at `deadline` (monotonic seconds), OSError if the other side is gone."""
    _limit(sock, deadline)
    sizes = struct.pack(f"<{len(message.sizes)}Q", *message.sizes)
    sock.sendall(HEAD.pack(message.kind, len(message.body), len(message.sizes)) + sizes)
    _limit(sock, deadline)
    sock.sendall(message.body)


def receive_from(sock: socket.socket, deadline: float | None = None) -> RankMessage:
    """Read a message; raise TimeoutError at `deadline` (monotonic seconds), EOFError if the other side is gone."""
    kind, body_size, count = HEAD.unpack(_read(sock, HEAD.size, deadline))
    sizes = struct.unpack(f"<{count}Q", _read(sock, 8 * count, deadline))
    return RankMessage(MessageKind(kind), _read(sock, body_size, deadline), sizes)


def _read(sock: socket.socket, size: int, deadline: float | None) -> bytearray:
    data = bytearray(size)
    with memoryview(data) as rest:
        while len(rest):
            _limit(sock, deadline)
            try:
                count = sock.recv_into(rest)
            except ConnectionError as error:
                raise EOFError from error
            if not count:
                raise EOFError
            rest = rest[count:]
    return data


def _limit(sock: socket.socket, deadline: float | None) -> None:
    # A timeout of 0 would make the socket non-blocking.
    sock.settimeout(None if deadline is None else max(1e-3, deadline - time.monotonic()))
