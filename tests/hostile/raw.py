"""Sockets that say exactly what a test wants, right or wrong, and read what is answered (RFC 6455, 5.2)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
from collections.abc import AsyncIterator
from typing import Any

from tests.server.bare import bare, handshake
from tests.server.running import RunningServer
from tests.timeouts import TIMEOUT_S

CONT, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
FIN = 0x80
MASK = b"\x5a\xa5\x0f\xf0"


def frame(opcode: int, payload: bytes = b"", *, fin: bool = True, reserved: int = 0, masked: bool = True) -> bytes:
    """Write one frame; `reserved` holds the three bits beside FIN."""
    first = (FIN if fin else 0) | reserved << 4 | opcode
    body = mask(payload) if masked else payload
    return head(first, len(payload), masked=masked) + (MASK if masked else b"") + body


def mask(payload: bytes) -> bytes:
    size = len(payload)
    repeated = (MASK * (size // 4 + 1))[:size]
    return (int.from_bytes(payload) ^ int.from_bytes(repeated)).to_bytes(size)


def head(first: int, size: int, *, masked: bool = True) -> bytes:
    """Write what precedes mask and payload."""
    bit = 0x80 if masked else 0
    if size < 126:
        return struct.pack(">BB", first, bit | size)
    return (
        struct.pack(">BBH", first, bit | 126, size) if size < 1 << 16 else struct.pack(">BBQ", first, bit | 127, size)
    )


def text(type: str, data: dict[str, Any]) -> bytes:
    return json.dumps({"type": type, "data": data}).encode()


def closing(code: int, reason: bytes = b"") -> bytes:
    return frame(CLOSE, struct.pack(">H", code) + reason)


class RawSocket:
    """A WebSocket after its handshake."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, *frames: bytes) -> None:
        self.writer.write(b"".join(frames))
        with contextlib.suppress(ConnectionError):
            await asyncio.wait_for(self.writer.drain(), TIMEOUT_S)

    async def next(self) -> tuple[int, bytes]:
        """Read one frame; gives opcode and payload."""
        return await asyncio.wait_for(self._next(), TIMEOUT_S)

    async def _next(self) -> tuple[int, bytes]:
        first, size = await self.reader.readexactly(2)
        assert not size & 0x80, "servers mask nothing"
        if size == 126:
            (size,) = struct.unpack(">H", await self.reader.readexactly(2))
        elif size == 127:
            (size,) = struct.unpack(">Q", await self.reader.readexactly(8))
        return first & 0x0F, await self.reader.readexactly(size)

    async def until(self, opcode: int) -> bytes:
        """Read up to the next frame of a sort."""
        while True:
            came, payload = await self.next()
            if came == opcode:
                return payload
            assert came != CLOSE, f"closed with {payload!r}"

    async def message(self, type: str) -> dict[str, Any]:
        """Read up to the next message of a type; gives its data."""
        while True:
            said = json.loads(await self.until(TEXT))
            if said["type"] == type:
                return dict(said["data"])

    async def close_code(self) -> int | None:
        """Read to the end; gives the code it was closed with, None for none, 0 for a connection that just ended."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            payload = await self.until(CLOSE)
            with contextlib.suppress(ConnectionResetError):  # what came too late was never read
                rest = await asyncio.wait_for(self.reader.read(1), TIMEOUT_S)
                assert rest == b"", "after a close frame there is nothing"
            return int.from_bytes(payload[:2], "big") if payload else None
        return 0


@contextlib.asynccontextmanager
async def raw_socket(server: RunningServer) -> AsyncIterator[RawSocket]:
    """Connect as a viewer for the duration of the block."""
    async with bare(server) as (reader, writer):
        writer.write(handshake(server))
        answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), TIMEOUT_S)
        assert answer.startswith(b"HTTP/1.1 101 ")
        yield RawSocket(reader, writer)
