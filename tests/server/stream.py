"""A client that watches over plain HTTP: a socket, a request written by hand, and the parts as they come."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

from tests.server.client import Frame, parse_frame
from tests.timeouts import TIMEOUT_S

HEAD = b"--frame\r\nContent-Type: image/jpeg\r\n"
READ_AHEAD = 4096


class Stream:
    """Read an answer piece by piece; undoes chunks where there are any."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._pending = b""
        self._chunked = False
        self.status = 0
        self.headers: dict[str, str] = {}

    async def begin(self) -> None:
        head = (await asyncio.wait_for(self._reader.readuntil(b"\r\n\r\n"), TIMEOUT_S)).decode()
        first, *lines = head.strip().split("\r\n")
        self.status = int(first.split()[1])
        self.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        self._chunked = self.headers.get("transfer-encoding") == "chunked"

    async def until(self, mark: bytes) -> bytes:
        """Read up to a mark, and take it as well; EOFError when the body ends before."""
        while mark not in self._pending:
            await self._more()
        before, _, self._pending = self._pending.partition(mark)
        return before

    async def exactly(self, size: int) -> bytes:
        while len(self._pending) < size:
            await self._more()
        taken, self._pending = self._pending[:size], self._pending[size:]
        return taken

    async def frame(self) -> Frame:
        """Read a part as players do that go by its length."""
        await self.until(HEAD + b"Content-Length: ")
        return parse_frame(await self.exactly(int(await self.until(b"\r\n\r\n"))))

    async def rest(self) -> bytes:
        """Read to the end."""
        with contextlib.suppress(EOFError):
            while True:
                await self._more()
        return self._pending

    async def _more(self) -> None:
        piece = await asyncio.wait_for(self._chunk() if self._chunked else self._reader.read(READ_AHEAD), TIMEOUT_S)
        if not piece:
            raise EOFError("the body ended")
        self._pending += piece

    async def _chunk(self) -> bytes:
        size = int(await self._reader.readuntil(b"\r\n"), 16)
        return (await self._reader.readexactly(size + 2))[:-2]


@contextlib.asynccontextmanager
async def asked(
    port: int, path: str, *, method: str = "GET", version: str = "1.1", accept: str = "*/*"
) -> AsyncIterator[Stream]:
    """Ask for `path`, with little room for what is not read yet."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, READ_AHEAD)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=sock, limit=READ_AHEAD)
    writer.write(f"{method} {path} HTTP/{version}\r\nHost: 127.0.0.1:{port}\r\nAccept: {accept}\r\n\r\n".encode())
    stream = Stream(reader)
    try:
        await stream.begin()
        yield stream
    finally:
        writer.transport.abort()
