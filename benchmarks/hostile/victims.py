"""Clients at the server that is attacked and at its control: a process that measures their frames and pings.

`python -m benchmarks.hostile.victims URL URL` reads a number of seconds from each line of stdin, measures for as long,
and prints a line for it. A process of its own: an attacker would take time from it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, dataclass, field

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidHandshake, WebSocketException

ADDRESS = "127.0.0.1"
PING_S = 0.1
AGAIN_S = 0.2
PING = json.dumps({"type": "reactor.ping", "data": {"t": 0}})


@dataclass(slots=True)
class Seen:
    """Hold what one client has seen: frames, times of pings, and how often its connection was lost."""

    frames: int = 0
    pings_s: list[float] = field(default_factory=list)
    lost: int = 0

    def ping_s(self, share: float) -> float:
        """Return the time within which this share of the pings was answered."""
        pings = sorted(self.pings_s) or [float("inf")]
        return pings[min(len(pings) - 1, int(len(pings) * share))]


class Victims:
    """The process with one client at each server; they are connected when the block begins."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    @classmethod
    @contextlib.contextmanager
    def connected(cls, *urls: str) -> Iterator[Victims]:
        command = [sys.executable, "-m", __name__, *urls]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        with process:
            victims = cls(process)
            assert victims._line() == "connected\n"
            yield victims
            process.kill()

    def begin(self, seconds: float) -> None:
        """Measure from now on."""
        assert self._process.stdin is not None, "it is a pipe"
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()

    def seen(self) -> list[Seen]:
        """Wait until the measurement ends, and return what the client at each server has seen."""
        return [Seen(**each) for each in json.loads(self._line())]

    def _line(self) -> str:
        assert self._process.stdout is not None, "it is a pipe"
        return self._process.stdout.readline()


class _Client:
    """A controller that connects again when it loses its connection."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._seen = Seen()
        self._pinged_at: float | None = None
        self.has_frames = asyncio.Event()

    async def run(self) -> None:
        while True:
            with contextlib.suppress(OSError, TimeoutError, WebSocketException, InvalidHandshake):
                async with self._connection() as connection:
                    self._pinged_at = None
                    pinging = asyncio.create_task(self._ping(connection))
                    try:
                        await self._receive(connection)
                    finally:
                        pinging.cancel()
            self._seen.lost += 1
            await asyncio.sleep(AGAIN_S)

    def take_seen(self) -> Seen:
        """Return what was seen since the last call; a ping without its answer counts as long as it waits."""
        seen, self._seen = self._seen, Seen()
        if self._pinged_at is not None:
            seen.pings_s.append(time.monotonic() - self._pinged_at)
        return seen

    @contextlib.asynccontextmanager
    async def _connection(self) -> AsyncIterator[ClientConnection]:
        tls = None
        if self._url.startswith("wss"):
            tls = ssl.create_default_context()
            tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        # Our pings measure; those of the library would close a connection that answers late.
        options = {"max_size": None, "max_queue": None, "compression": None, "ping_interval": None}
        async with connect(self._url, ssl=tls, local_addr=(ADDRESS, 0), **options) as connection:  # type: ignore[arg-type]  # mixed types
            yield connection

    async def _receive(self, connection: ClientConnection) -> None:
        async for message in connection:
            if isinstance(message, bytes):
                self._seen.frames += 1
                self.has_frames.set()
            elif '"reactor.pong"' in message and self._pinged_at is not None:
                self._seen.pings_s.append(time.monotonic() - self._pinged_at)
                self._pinged_at = None

    async def _ping(self, connection: ClientConnection) -> None:
        with contextlib.suppress(WebSocketException):
            while True:
                await asyncio.sleep(PING_S)
                if self._pinged_at is None:
                    self._pinged_at = time.monotonic()
                    await connection.send(PING)


async def _serve(urls: list[str]) -> None:
    clients = [_Client(url) for url in urls]
    running = [asyncio.create_task(client.run()) for client in clients]
    for client in clients:
        await client.has_frames.wait()
    _write("connected")
    while line := await asyncio.to_thread(sys.stdin.readline):
        for client in clients:
            client.take_seen()
        await asyncio.sleep(float(line))
        _write(json.dumps([asdict(client.take_seen()) for client in clients]))
    for task in running:
        task.cancel()


def _write(line: str) -> None:
    sys.stdout.write(f"{line}{os.linesep}")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1:]))
