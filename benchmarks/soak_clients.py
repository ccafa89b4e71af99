"""Random clients of the soak: well-behaved ones and others, each for a random time.

Well-behaved ones use our client, through a proxy that is cut where the client vanishes; the others use bare sockets.
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
IMAGE = np.linspace(0, 255, 48 * 64 * 3).astype(np.uint8).reshape(48, 64, 3)

ClientKind = Callable[["SoakClients"], Awaitable[None]]


class SoakClients:
    """Hold what all clients share: the port, the random source, and counts of clients started and finished by kind.

    `failures` maps an engine to the way in which the next controller makes its model fail. Viewers choose among the
    `controlled` sessions.
    """

    def __init__(self, port: int, seed: int) -> None:
        self.port = port
        self.random = random.Random(seed)
        self.started: Counter[str] = Counter()
        self.finished: Counter[str] = Counter()
        self.frames = 0
        self.failures: dict[int, str] = {}
        self.controlled: list[str] = []

    @property
    def url(self) -> str:
        return address(self.port)

    async def run_clients(self, weighted: dict[ClientKind, int], until: float) -> None:
        """Run one random client after the other until the time is over."""
        loop = asyncio.get_running_loop()
        kinds, weights = zip(*weighted.items(), strict=True)
        while loop.time() < until:
            (kind,) = self.random.choices(kinds, weights)
            self.started[kind.__name__] += 1
            with contextlib.suppress(*GONE):
                async with asyncio.timeout(max(1.0, until - loop.time())):
                    await kind(self)
                self.finished[kind.__name__] += 1
            await asyncio.sleep(self.random.uniform(0, 0.3))

    @contextlib.asynccontextmanager
    async def request(self, text: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Connect and send an HTTP request, with a small receive buffer."""
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, (HOST, self.port))
        reader, writer = await asyncio.open_connection(sock=sock)
        writer.write(text.replace("\n", "\r\n").encode())
        try:
            yield reader, writer
        finally:
            writer.transport.abort()

    async def watch(self, session: Session, seconds: float, *, acknowledge: bool = True) -> None:
        """Receive for a while; without `acknowledge` only sound is read, so that no frame is acknowledged."""
        before = sum(session.arrived.values())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                async for _ in session.frames(decode=False) if acknowledge else session.sound():
                    pass
        self.frames += sum(session.arrived.values()) - before

    async def control(self, session: Session) -> None:
        """Send events, images and files for a while, as a controller does."""
        assert session.status.session is not None, "an admitted controller has a session"
        name = session.status.session
        self.controlled.append(name)
        try:
            if self.failures and (how := self.failures.pop(await self._engine_of(name), "")):
                await session.send("crash", how=how)
                await self.watch(session, PATIENCE_S)
            await self._send_inputs(session)
        finally:
            self.controlled.remove(name)

    @property
    def session_query(self) -> str:
        """Return the query that selects one of the sessions, which may be over by then."""
        return f"session={self.random.choice(self.controlled)}" if self.controlled else ""

    async def _send_inputs(self, session: Session) -> None:
        for step in range(self.random.randint(1, 12)):
            await session.send("set_level", level=step * 20)
            session.publish("camera", IMAGE)
            if self.random.random() < 0.2:
                file = await session.upload(bytes(self.random.choice((100, 300_000, 3_000_000))))
                await session.send("take", file=file)
            await self.watch(session, self.random.uniform(0.05, 0.3))

    async def _engine_of(self, session: str) -> int:
        async with self.request(f"GET /health HTTP/1.1\nHost: {HOST}\nConnection: close\n\n") as (reader, _):
            answer = await asyncio.wait_for(reader.read(), PATIENCE_S)
        engines = json.loads(answer.partition(b"\r\n\r\n")[2])["engines"]
        return next((number for number, engine in enumerate(engines) if engine["session"] == session), -1)


async def controller(clients: SoakClients) -> None:
    async with connect(clients.url) as session:
        await clients.control(session)


async def vanishing_controller(clients: SoakClients) -> None:
    cable = Cable(clients.port)
    async with cable.laid() as url, connect(url, watch=True, reconnect=False) as session:
        await clients.control(session)
        asyncio.get_running_loop().call_later(
            clients.random.uniform(0, 0.1), functools.partial(cable.cut, for_good=True)
        )
        with contextlib.suppress(ClientError):
            await session.upload(bytes(20_000_000))


async def impatient_controller(clients: SoakClients) -> None:
    async with connect(clients.url, wait=False):
        await asyncio.sleep(clients.random.uniform(0, 1))


async def returning_controller(clients: SoakClients) -> None:
    cable = Cable(clients.port)
    async with cable.laid() as url, connect(url) as session:
        await clients.control(session)
        cable.cut(for_good=True)
        await asyncio.sleep(clients.random.uniform(0, 1))
        cable.whole = True
        await clients.control(session)


async def viewer(clients: SoakClients) -> None:
    async with connect(f"{clients.url}?{clients.session_query}", role="viewer") as session:
        # The others get video, and join or begin a cohort.
        if clients.random.random() < 0.3:
            session.view(codecs=["jpeg"])
        await clients.watch(session, clients.random.uniform(0, 5), acknowledge=clients.random.random() < 0.7)


async def never_reading_viewer(clients: SoakClients) -> None:
    head = f"GET /ws?role=viewer&{clients.session_query} HTTP/1.1\nHost: 127.0.0.1\nUpgrade: websocket\n"
    key = f"Connection: Upgrade\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: {'A' * 22}==\n\n"
    async with clients.request(head + key) as (_, writer):
        # The transport of a stream can be read, which its type does not say.
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(clients.random.uniform(1, 40))


async def stream_watcher(clients: SoakClients) -> None:
    path = f"/stream/main_video.mjpg?fps=10&{clients.session_query}"
    async with clients.request(f"GET {path} HTTP/1.1\nHost: localhost\n\n") as (reader, _):
        pause_s = clients.random.choice((0.0, 0.05))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(clients.random.uniform(0, 5)):
                while True:
                    if not await reader.read(4096):
                        return
                    await asyncio.sleep(pause_s)


async def http_client(clients: SoakClients) -> None:
    for path in ("/", "/health", "/ready", "/live", "/schema", "/metrics", "/snapshot/main_video.jpg", "/nothing"):
        async with clients.request(f"GET {path} HTTP/1.1\nHost: localhost\nConnection: close\n\n") as (reader, _):
            await asyncio.wait_for(reader.read(), PATIENCE_S)


async def garbage_sender(clients: SoakClients) -> None:
    source = clients.random
    async with clients.request("") as (reader, writer):
        writer.write(source.choice((b"", b"GET /ws HTTP/1.1\r\n", b"GET / HTTP/1.1\r\n\r\n")) + source.randbytes(2000))
        await asyncio.wait_for(reader.read(), 2.0)


async def invalid_viewer(clients: SoakClients) -> None:
    async with bare(
        f"ws://{HOST}:{clients.port}/ws?role=viewer&{clients.session_query}", compression=None, ping_interval=None
    ) as socket:
        for _ in range(20):
            await socket.send(clients.random.choice(("{", "[]", "null", '{"type":"x"}', b"\xff\xd8", b"RIFF")))
        await asyncio.sleep(0.5)
        socket.transport.abort()


CONTROLLERS: dict[ClientKind, int] = {
    controller: 4,
    vanishing_controller: 2,
    impatient_controller: 2,
    returning_controller: 2,
}
OTHERS: dict[ClientKind, int] = {
    viewer: 8,
    never_reading_viewer: 2,
    stream_watcher: 4,
    http_client: 3,
    garbage_sender: 3,
    invalid_viewer: 3,
}
