"""A client that only reads a socket and acknowledges frames, so that the server is measured and not the client."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.raw_client import acknowledgement, request_upgrade
from reactor_runtime.wire.containers import detach
from reactor_runtime.wire.media_header import MediaHeader

LARGEST = 4_000_000


@dataclass(frozen=True, slots=True)
class Received:
    """Describe a received frame: its arrival on both clocks, its header and its size."""

    at: float
    wall: float
    header: MediaHeader
    size_bytes: int

    @property
    def age_s(self) -> float:
        return self.wall - self.header.wall_us / 1e6


def receive(port: int, seconds: float, texts: list[dict[str, Any]] | None = None, *, query: str = "") -> list[Received]:
    """Connect as controller and return all frames of `seconds`; text messages are appended to `texts`.

    In Python joining 200 kB takes longer than their way through the network. This client reads a message into one
    buffer, and takes the time when its last byte is there. Then it acknowledges a frame, as all clients do.
    """
    received: list[Received] = []
    with request_upgrade(port, "controller", query=query) as connection:
        _skip_response(connection)
        for message in _messages(connection):
            at, wall = time.monotonic(), time.time()
            if isinstance(message, str):
                if texts is not None:
                    texts.append(json.loads(message))
                continue
            header, _ = detach(bytes(message))
            assert header is not None, "each frame of the server has a header"
            _send(connection, 0x81, acknowledgement(header.track, header.seq))
            received.append(Received(at, wall, header, len(message)))
            if at - received[0].at > seconds:
                break
    return received


def receive_text(port: int, kind: str, *, query: str = "") -> dict[str, Any]:
    """Connect as controller and return the data of the first text message of a kind."""
    with request_upgrade(port, "controller", query=query) as connection:
        _skip_response(connection)
        for message in _messages(connection):
            if isinstance(message, str) and (text := json.loads(message))["type"] == kind:
                data: dict[str, Any] = text["data"]
                return data
    raise AssertionError("messages go on until the connection is closed, and that raises")


def _skip_response(connection: socket.socket) -> None:
    response = b""
    while not response.endswith(b"\r\n\r\n"):
        response += connection.recv(1)
    assert response.startswith(b"HTTP/1.1 101"), response


def _messages(connection: socket.socket) -> Iterator[memoryview | str]:
    """Yield messages; the next message overwrites a binary one."""
    buffer = bytearray(LARGEST)
    view = memoryview(buffer)
    while True:
        _fill(connection, view[:2])
        kind, size = buffer[0] & 15, buffer[1]
        if size >= 126:
            more = 2 if size == 126 else 8
            _fill(connection, view[:more])
            size = int.from_bytes(view[:more])
        _fill(connection, view[:size])
        if kind == 1:
            yield str(view[:size], "utf-8")
        elif kind == 2:
            yield view[:size]
        elif kind == 9:
            _send(connection, 0x8A, bytes(view[:size]))
        else:
            raise ConnectionError(f"the server sent a frame of kind {kind}: {bytes(view[:size])!r}")


def _fill(connection: socket.socket, place: memoryview) -> None:
    while place:
        count = connection.recv_into(place)
        if not count:
            raise ConnectionError("the server closed the connection")
        place = place[count:]


def _send(connection: socket.socket, head: int, data: bytes) -> None:
    """Send up to 125 bytes, masked with zeros."""
    connection.sendall(bytes([head, 0x80 | len(data), 0, 0, 0, 0]) + data)
