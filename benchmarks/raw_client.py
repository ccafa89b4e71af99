"""Clients that cost little CPU: they share one buffer and parse only the first bytes of each message.

A hundred clients that assemble every frame would measure themselves.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import selectors
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field

# Of a frame, up to its track's name.
HEAD_BYTES = 41
BUFFER_BYTES = 1 << 20
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
HELD = 2
TRACK = "main_video"


@dataclass(frozen=True, slots=True)
class SeenFrame:
    """Describe a received frame: its number, arrival time, delay since its hand-over, and whether it was held."""

    seq: int
    at: float
    delay_s: float
    held: bool


@dataclass(slots=True)
class RawClient:
    """Receive on one socket, and keep the position in the current message and a list of the frames."""

    sock: socket.socket
    began: float
    acknowledges: bool
    seen: list[SeenFrame] = field(default_factory=list)
    pongs: int = 0
    size_bytes: int = 0
    closed: bool = False
    on_pong: Callable[[], None] = lambda: None
    _head: bytearray = field(default_factory=bytearray)
    _left: int = 0
    _frame: tuple[int, int, bool] | None = None
    _upgraded: bool = False

    def read(self, buffer: bytearray) -> None:
        """Read once from the socket, which has data."""
        try:
            count = self.sock.recv_into(buffer)
        except BlockingIOError:
            return
        except ConnectionError:
            count = 0
        if not count:
            self.closed = True
            return
        self.size_bytes += count
        self._feed(memoryview(buffer)[:count])

    def send(self, opcode: int, payload: bytes) -> None:
        """Send a short message, masked with zeros."""
        size = struct.pack(">B", 0x80 | len(payload)) if len(payload) < 126 else struct.pack(">BH", 0xFE, len(payload))
        with contextlib.suppress(BlockingIOError, ConnectionError):
            self.sock.send(bytes([0x80 | opcode]) + size + bytes(4) + payload)

    def _feed(self, data: memoryview) -> None:
        at = 0
        while at < len(data):
            if self._left:
                step = min(self._left, len(data) - at)
                self._left -= step
                at += step
            elif self._upgraded:
                at += self._begin_message(data[at:])
            else:
                at += self._skip_handshake(data[at:])
            if not self._left and self._frame is not None:
                self._finish_frame(*self._frame)

    def _skip_handshake(self, data: memoryview) -> int:
        """Skip the response to the handshake; return how many bytes of `data` belong to it."""
        before = len(self._head)
        self._head += data
        end = self._head.find(b"\r\n\r\n")
        if end < 0:
            return len(data)
        assert self._head.startswith(b"HTTP/1.1 101"), bytes(self._head[:200])
        self._head.clear()
        self._upgraded = True
        return end + 4 - before

    def _begin_message(self, data: memoryview) -> int:
        """Read the head of a message, which may come in pieces; return how many bytes of `data` belong to it."""
        before = len(self._head)
        self._head += data[: 10 + 125]
        if len(self._head) < 10 and len(self._head) < 2 + (self._head[1] if len(self._head) > 1 else 1):
            return len(data)
        size, start = self._head[1], 2
        if size == 126:
            (size,), start = struct.unpack_from(">H", self._head, 2), 4
        elif size == 127:
            (size,), start = struct.unpack_from(">Q", self._head, 2), 10
        opcode = self._head[0] & 15
        wanted = start + min(size, 125 if opcode == PING else HEAD_BYTES)
        if len(self._head) < wanted:
            return len(data)
        payload = bytes(self._head[start:wanted])
        self._head.clear()
        self._left = size - len(payload)
        self._handle_head(opcode, payload)
        return wanted - before

    def _handle_head(self, opcode: int, payload: bytes) -> None:
        if opcode == BINARY:
            (seq,) = struct.unpack_from(">I", payload, 16)
            (wall_us,) = struct.unpack_from(">Q", payload, 28)
            self._frame = seq, wall_us, bool(payload[15] & HELD)
        elif opcode == PING:
            self.send(PONG, payload)
        elif opcode == TEXT and b"reactor.pong" in payload:
            self.pongs += 1
            self.on_pong()

    def _finish_frame(self, seq: int, wall_us: int, held: bool) -> None:
        self._frame = None
        self.seen.append(SeenFrame(seq, time.monotonic(), time.time() - wall_us / 1e6, held))
        if self.acknowledges:
            self.send(TEXT, acknowledgement(TRACK, seq))


def acknowledgement(track: str, seq: int) -> bytes:
    """Write the message that a client sends after it has shown a frame, as the JavaScript client writes it."""
    return json.dumps({"type": "reactor.ack", "data": {"track": track, "seq": seq}}, separators=(",", ":")).encode()


def join(port: int, role: str, *, acknowledges: bool) -> RawClient:
    """Connect and send the upgrade request; `RawClient.read` reads the response."""
    began = time.monotonic()
    sock = request_upgrade(port, role)
    sock.setblocking(False)
    return RawClient(sock, began, acknowledges)


def request_upgrade(port: int, role: str, *, query: str = "") -> socket.socket:
    """Connect and send the upgrade request, with more of the `query`, such as "&ticket=…"."""
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    key = base64.b64encode(os.urandom(16)).decode()
    lines = [
        f"GET /ws?role={role}{query} HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        "Upgrade: websocket",
        "Connection: Upgrade",
    ]
    lines += [f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13", "", ""]
    sock.sendall("\r\n".join(lines).encode())
    return sock


class ReadLoop:
    """Read the sockets of any number of clients."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._buffer = bytearray(BUFFER_BYTES)

    def add(self, client: RawClient) -> None:
        self._selector.register(client.sock, selectors.EVENT_READ, client)

    def remove(self, client: RawClient) -> None:
        with contextlib.suppress(KeyError):
            self._selector.unregister(client.sock)
        client.sock.close()

    def until(self, at: float) -> None:
        """Read until a time on the monotonic clock."""
        while (left_s := at - time.monotonic()) > 0:
            for key, _ in self._selector.select(left_s):
                key.data.read(self._buffer)
                if key.data.closed:
                    self._selector.unregister(key.fileobj)
