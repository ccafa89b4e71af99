"""Clients of every sort, well-behaved and not, each for as long as chance has it."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import random
import socket
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from PIL import Image
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

HOST = "127.0.0.1"
PATIENCE_S = 20.0
GONE = (WebSocketException, OSError, EOFError, TimeoutError, asyncio.IncompleteReadError)

Guest = Callable[["Guests"], Awaitable[None]]


class Guests:
    """What those who come share: where to, what chance has for them, and how often each sort came and was served.

    With `doom` for an engine, the next who controls its model makes it fail in that way. Those who watch are spread
    over the sessions that are `played`.
    """

    def __init__(self, port: int, seed: int) -> None:
        self.port = port
        self.random = random.Random(seed)
        self.came: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.frames = 0
        self.doom: dict[int, str] = {}
        self.played: list[str] = []
        self._camera = _picture()

    async def come(self, sorts: dict[Guest, int], until: float) -> None:
        """Send one guest after the other until the time is over, and see the last one out."""
        loop = asyncio.get_running_loop()
        kinds, weights = zip(*sorts.items(), strict=True)
        while loop.time() < until:
            (kind,) = self.random.choices(kinds, weights)
            self.came[kind.__name__] += 1
            with contextlib.suppress(*GONE):
                async with asyncio.timeout(max(1.0, until - loop.time())):
                    await kind(self)
                self.done[kind.__name__] += 1
            await asyncio.sleep(self.random.uniform(0, 0.3))

    @contextlib.asynccontextmanager
    async def socket(self, query: str) -> AsyncIterator[ClientConnection]:
        url = f"ws://{HOST}:{self.port}/ws?{query}"
        async with connect(url, compression=None, max_size=None, close_timeout=2, ping_interval=None) as socket:
            yield socket

    @contextlib.asynccontextmanager
    async def asked(self, request: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Connect and say a line of HTTP, with little room for what is not read."""
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, (HOST, self.port))
        reader, writer = await asyncio.open_connection(sock=sock)
        writer.write(request.replace("\n", "\r\n").encode())
        try:
            yield reader, writer
        finally:
            writer.transport.abort()

    async def watch(self, socket: ClientConnection, seconds: float, *, acknowledge: bool) -> None:
        """Read what comes for a while."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                async for message in socket:
                    if isinstance(message, bytes) and message[:2] == b"\xff\xd8":
                        self.frames += 1
                        if acknowledge:
                            data = {"track": "main_video", "seq": int.from_bytes(message[16:20], "big")}
                            await socket.send(json.dumps({"type": "reactor.ack", "data": data}))

    async def welcomed(self, socket: ClientConnection) -> dict[str, Any]:
        """Wait until a session of one's own has begun; one that watches meanwhile hears of those of others."""
        welcome: dict[str, Any] = {}
        async with asyncio.timeout(PATIENCE_S):
            async for message in socket:
                if isinstance(message, str):
                    said = json.loads(message)
                    welcome = said["data"] if said["type"] == "reactor.welcome" else welcome
                    begun = said["type"] == "reactor.session" and said["data"]["phase"] in ("started", "resumed")
                    if begun and welcome["role"] == "controller":
                        return welcome
        raise EOFError("the socket was closed")

    async def play(self, socket: ClientConnection, welcome: dict[str, Any]) -> None:
        """Do what controllers do."""
        self.played.append(welcome["session"])
        try:
            if self.doom and (how := self.doom.pop(await self._engine_of(welcome["session"]), "")):
                await socket.send(json.dumps({"type": "crash", "data": {"how": how}}))
                await self.watch(socket, PATIENCE_S, acknowledge=True)
            await self._use(socket, welcome)
        finally:
            self.played.remove(welcome["session"])

    @property
    def seen(self) -> str:
        """What to say in a query to see one of the sessions, which may be over by then."""
        return f"session={self.random.choice(self.played)}" if self.played else ""

    async def _use(self, socket: ClientConnection, welcome: dict[str, Any]) -> None:
        for step in range(self.random.randint(1, 12)):
            await socket.send(json.dumps({"type": "set_level", "data": {"level": step * 20}, "id": step}))
            await socket.send(self._camera)
            if self.random.random() < 0.2:
                upload = await self.upload(welcome["upload_key"], self.random.choice((100, 300_000, 3_000_000)))
                await socket.send(json.dumps({"type": "take", "data": {"file": {"upload": upload}}}))
            await self.watch(socket, self.random.uniform(0.05, 0.3), acknowledge=True)

    async def _engine_of(self, session: str) -> int:
        async with self.asked(f"GET /health HTTP/1.1\nHost: {HOST}\nConnection: close\n\n") as (reader, _):
            answer = await asyncio.wait_for(reader.read(), PATIENCE_S)
        engines = json.loads(answer.partition(b"\r\n\r\n")[2])["engines"]
        return next((number for number, engine in enumerate(engines) if engine["session"] == session), -1)

    async def upload(self, key: str, size: int, *, complete: bool = True) -> str:
        request = f"POST /uploads?key={key}&name=a.bin HTTP/1.1\nHost: {HOST}\nContent-Length: {size}\n\n"
        async with self.asked(request) as (reader, writer):
            writer.write(bytes(size if complete else size // 2))
            await asyncio.wait_for(writer.drain(), PATIENCE_S)
            if not complete:
                return ""
            answer = await asyncio.wait_for(reader.readuntil(b"}"), PATIENCE_S)
        return str(json.loads(answer.partition(b"\r\n\r\n")[2])["upload"])


async def controller(guests: Guests) -> None:
    async with guests.socket("role=controller") as socket:
        await guests.play(socket, await guests.welcomed(socket))


async def vanishing_controller(guests: Guests) -> None:
    async with guests.socket("role=controller&watch=1") as socket:
        welcome = await guests.welcomed(socket)
        await guests.play(socket, welcome)
        await guests.upload(welcome["upload_key"], 2_000_000, complete=False)
        socket.transport.abort()


async def impatient_controller(guests: Guests) -> None:
    async with guests.socket("role=controller") as socket:
        await guests.watch(socket, guests.random.uniform(0, 1), acknowledge=False)


async def returning_controller(guests: Guests) -> None:
    async with guests.socket("role=controller") as socket:
        welcome = await guests.welcomed(socket)
        await guests.play(socket, welcome)
        socket.transport.abort()
    await asyncio.sleep(guests.random.uniform(0, 1))
    async with guests.socket(f"role=controller&resume={welcome['resume']}") as socket:
        await guests.play(socket, await guests.welcomed(socket))


async def viewer(guests: Guests) -> None:
    async with guests.socket(f"role=viewer&{guests.seen}") as socket:
        await guests.watch(socket, guests.random.uniform(0, 5), acknowledge=guests.random.random() < 0.7)


async def never_reading_viewer(guests: Guests) -> None:
    request = f"GET /ws?role=viewer&{guests.seen} HTTP/1.1\nHost: 127.0.0.1\nUpgrade: websocket\nConnection: Upgrade\n"
    async with guests.asked(f"{request}Sec-WebSocket-Version: 13\nSec-WebSocket-Key: {'A' * 22}==\n\n") as (_, writer):
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # a reading transport has it
        await asyncio.sleep(guests.random.uniform(1, 40))


async def stream_watcher(guests: Guests) -> None:
    async with guests.asked(f"GET /stream/main_video.mjpg?fps=10&{guests.seen} HTTP/1.1\nHost: localhost\n\n") as (
        reader,
        _,
    ):
        pause_s = guests.random.choice((0.0, 0.05))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(guests.random.uniform(0, 5)):
                while True:
                    if not await reader.read(4096):
                        return
                    await asyncio.sleep(pause_s)


async def asker(guests: Guests) -> None:
    for path in ("/", "/health", "/ready", "/live", "/schema", "/metrics", "/snapshot/main_video.jpg", "/nothing"):
        async with guests.asked(f"GET {path} HTTP/1.1\nHost: localhost\nConnection: close\n\n") as (reader, _):
            await asyncio.wait_for(reader.read(), PATIENCE_S)


async def babbler(guests: Guests) -> None:
    source = guests.random
    async with guests.asked("") as (reader, writer):
        writer.write(source.choice((b"", b"GET /ws HTTP/1.1\r\n", b"GET / HTTP/1.1\r\n\r\n")) + source.randbytes(2000))
        await asyncio.wait_for(reader.read(), 2.0)


async def nonsense_viewer(guests: Guests) -> None:
    async with guests.socket(f"role=viewer&{guests.seen}") as socket:
        for _ in range(20):
            await socket.send(guests.random.choice(("{", "[]", "null", '{"type":"x"}', b"\xff\xd8", b"RIFF")))
        await guests.watch(socket, 0.5, acknowledge=False)
        socket.transport.abort()


CONTROLLERS: dict[Guest, int] = {
    controller: 4,
    vanishing_controller: 2,
    impatient_controller: 2,
    returning_controller: 2,
}
OTHERS: dict[Guest, int] = {
    viewer: 8,
    never_reading_viewer: 2,
    stream_watcher: 4,
    asker: 3,
    babbler: 3,
    nonsense_viewer: 3,
}


def _picture() -> bytes:
    buffer = io.BytesIO()
    Image.linear_gradient("L").convert("RGB").resize((64, 48)).save(buffer, "JPEG")
    return buffer.getvalue()
