"""Clients of every sort, well-behaved and not, each for as long as chance has it.

Who means well uses our client, over a cable that is cut where it vanishes; bare sockets are for those that misbehave.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import random
import socket
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable

import numpy as np
from websockets.asyncio.client import connect as bare
from websockets.exceptions import WebSocketException

from benchmarks.serving import address
from reactor_runtime.client import ClientError, Session, connect
from tests.client.cable import Cable

HOST = "127.0.0.1"
PATIENCE_S = 20.0
GONE = (ClientError, WebSocketException, OSError, EOFError, TimeoutError, asyncio.IncompleteReadError)
PICTURE = np.linspace(0, 255, 48 * 64 * 3).astype(np.uint8).reshape(48, 64, 3)

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

    @property
    def url(self) -> str:
        return address(self.port)

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

    async def watch(self, session: Session, seconds: float, *, acknowledge: bool = True) -> None:
        """Read what comes for a while; who takes no picture acknowledges none."""
        before = sum(session.arrived.values())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                async for _ in session.frames(decode=False) if acknowledge else session.sound():
                    pass
        self.frames += sum(session.arrived.values()) - before

    async def play(self, session: Session) -> None:
        """Do what controllers do."""
        assert session.status.session is not None, "whoever is let in has a session"
        name = session.status.session
        self.played.append(name)
        try:
            if self.doom and (how := self.doom.pop(await self._engine_of(name), "")):
                await session.send("crash", how=how)
                await self.watch(session, PATIENCE_S)
            await self._use(session)
        finally:
            self.played.remove(name)

    @property
    def seen(self) -> str:
        """What to say in a query to see one of the sessions, which may be over by then."""
        return f"session={self.random.choice(self.played)}" if self.played else ""

    async def _use(self, session: Session) -> None:
        for step in range(self.random.randint(1, 12)):
            await session.send("set_level", level=step * 20)
            session.publish("camera", PICTURE)
            if self.random.random() < 0.2:
                file = await session.upload(bytes(self.random.choice((100, 300_000, 3_000_000))))
                await session.send("take", file=file)
            await self.watch(session, self.random.uniform(0.05, 0.3))

    async def _engine_of(self, session: str) -> int:
        async with self.asked(f"GET /health HTTP/1.1\nHost: {HOST}\nConnection: close\n\n") as (reader, _):
            answer = await asyncio.wait_for(reader.read(), PATIENCE_S)
        engines = json.loads(answer.partition(b"\r\n\r\n")[2])["engines"]
        return next((number for number, engine in enumerate(engines) if engine["session"] == session), -1)


async def controller(guests: Guests) -> None:
    async with connect(guests.url) as session:
        await guests.play(session)


async def vanishing_controller(guests: Guests) -> None:
    cable = Cable(guests.port)
    async with cable.laid() as url, connect(url, watch=True, reconnect=False) as session:
        await guests.play(session)
        asyncio.get_running_loop().call_later(
            guests.random.uniform(0, 0.1), functools.partial(cable.cut, for_good=True)
        )
        with contextlib.suppress(ClientError):
            await session.upload(bytes(20_000_000))


async def impatient_controller(guests: Guests) -> None:
    async with connect(guests.url, wait=False):
        await asyncio.sleep(guests.random.uniform(0, 1))


async def returning_controller(guests: Guests) -> None:
    cable = Cable(guests.port)
    async with cable.laid() as url, connect(url) as session:
        await guests.play(session)
        cable.cut(for_good=True)
        await asyncio.sleep(guests.random.uniform(0, 1))
        cable.whole = True
        await guests.play(session)


async def viewer(guests: Guests) -> None:
    async with connect(f"{guests.url}?{guests.seen}", role="viewer") as session:
        await guests.watch(session, guests.random.uniform(0, 5), acknowledge=guests.random.random() < 0.7)


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
    async with bare(
        f"ws://{HOST}:{guests.port}/ws?role=viewer&{guests.seen}", compression=None, ping_interval=None
    ) as socket:
        for _ in range(20):
            await socket.send(guests.random.choice(("{", "[]", "null", '{"type":"x"}', b"\xff\xd8", b"RIFF")))
        await asyncio.sleep(0.5)
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
