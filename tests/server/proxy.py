"""A reverse proxy, no larger than it must be: it serves what is upstream under a path, and says for whom it asks."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Proxy:
    """Pass requests for `prefix` on to a port, without the prefix or as they come."""

    upstream: int
    prefix: str
    strips: bool
    forwarded_for: str

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[int]:
        """Listen on a port for the duration of the block."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        async with server:
            yield server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self.upstream)
            up_writer.write(self._rewritten(head).encode("latin-1"))
            await asyncio.gather(_pipe(reader, up_writer), _pipe(up_reader, writer))

    def _rewritten(self, head: str) -> str:
        first, *rest = head.removesuffix("\r\n\r\n").split("\r\n")
        method, path, version = first.split(" ")
        path = path.removeprefix(self.prefix) if self.strips else path
        if not any(line.lower().startswith("upgrade:") for line in rest):
            rest = [*(line for line in rest if not line.lower().startswith("connection:")), "Connection: close"]
        said = [f"X-Forwarded-For: {self.forwarded_for}", "X-Forwarded-Proto: https"]
        return "\r\n".join([f"{method} {path} {version}", *rest, *said, "", ""])


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(64 * 1024):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()
