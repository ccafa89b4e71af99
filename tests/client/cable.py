"""A network link between client and server that a test can break."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator


class Cable:
    """Forward bytes in both directions between a port of its own and the server's; `cut` breaks its connections.

    `mute` keeps the connections open and drops all bytes, like a network that has lost its state.
    """

    def __init__(self, upstream: int) -> None:
        self._upstream = upstream
        self._ends: set[asyncio.StreamWriter] = set()
        self._mute: set[asyncio.StreamWriter] = set()
        self.whole = True
        self.port = 0

    @contextlib.asynccontextmanager
    async def laid(self) -> AsyncIterator[str]:
        """Listen during the block; yields the address."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield f"http://127.0.0.1:{self.port}"
        finally:
            self.cut()
            server.close()

    def cut(self, *, for_good: bool = False) -> None:
        """Abort all connections without a closing handshake; `for_good` refuses new ones too."""
        self.whole = not for_good
        for end in tuple(self._ends):
            end.transport.abort()

    def mute(self) -> None:
        """Drop all bytes of the current connections."""
        self._mute |= self._ends

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.whole:
            writer.transport.abort()
            return
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._upstream)
        ends = {writer, up_writer}
        self._ends |= ends
        await asyncio.gather(self._pipe(reader, up_writer), self._pipe(up_reader, writer))
        self._ends -= ends

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(64 * 1024):
                if writer not in self._mute:
                    writer.write(data)
                    await writer.drain()
        writer.transport.abort()
