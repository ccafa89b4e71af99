"""A bad network: a TCP relay in a process of its own, with a limited or changing rate, delay, jitter and an outage.

It reads no faster than the link's rate, into small buffers, so that the sender is limited as by a router with a short
queue. It can't lose packets; over TCP a loss looks like a stall.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from benchmarks.serving import run

CHUNK_BYTES = 4096
# The kernel doubles it.
BUFFER_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class Link:
    """Describe a link, the same in both directions; with `change_every_s` its rate alternates with `then_mbit`."""

    mbit: float
    round_trip_s: float
    jitter_s: float = 0.0
    then_mbit: float = 0.0
    change_every_s: float = 0.0
    outage_at_s: float = 0.0
    outage_s: float = 0.0

    def byte_s(self, age_s: float) -> float:
        """Return the seconds that a byte takes at an age of the link."""
        changed = self.change_every_s and int(age_s / self.change_every_s) % 2
        return 8 / (1e6 * (self.then_mbit if changed else self.mbit))

    def resumes_at(self, age_s: float) -> float:
        """Return when data is sent that is ready at an age of the link: after the outage, if there is one."""
        end_s = self.outage_at_s + self.outage_s
        return end_s if self.outage_at_s <= age_s < end_s else age_s


@contextlib.contextmanager
def linked(port: int, link: Link) -> Iterator[int]:
    """Relay to a port of this machine; yield the port to connect to."""
    command = [sys.executable, "-m", __name__, str(port), json.dumps(asdict(link))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None, "stdout is a pipe"
    try:
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


async def relay(port: int, link: Link) -> None:
    """Relay until cancelled, and print the port. The age of the link counts from its first client."""
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        # The parent process reads the port.
        print(listener.getsockname()[1], flush=True)  # noqa: T201
        began = 0.0
        async with asyncio.TaskGroup() as tasks:
            while True:
                near, _ = await loop.sock_accept(listener)
                began = began or time.monotonic()
                tasks.create_task(_join(near, port, link, began))


async def _join(near: socket.socket, port: int, link: Link, began: float) -> None:
    far = socket.socket()
    with near, far:
        # After connect() the window would be larger.
        far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        for end in (near, far):
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(far, ("127.0.0.1", port))
        tasks = [asyncio.create_task(_Direction(link, began).relay(*pair)) for pair in ((far, near), (near, far))]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Direction:
    """Relay in one direction: read at the link's rate, keep data for its delay, write in order."""

    def __init__(self, link: Link, began: float) -> None:
        self._link = link
        self._began = began
        self._random = random.Random(5)
        self._in_flight: deque[tuple[float, bytes]] = deque()
        self._added = asyncio.Event()

    async def relay(self, source: socket.socket, sink: socket.socket) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._read(source))
            tasks.create_task(self._write(sink))

    async def _read(self, source: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        free_at = arrives_at = 0.0
        while data := await loop.sock_recv(source, CHUNK_BYTES):
            now = time.monotonic()
            start = self._began + self._link.resumes_at(max(free_at, now) - self._began)
            free_at = start + len(data) * self._link.byte_s(start - self._began)
            delay_s = self._link.round_trip_s / 2 + self._random.uniform(0, self._link.jitter_s)
            arrives_at = max(arrives_at, free_at + delay_s)
            self._in_flight.append((arrives_at, data))
            self._added.set()
            # Timers are coarse, and waking up late would lower the rate; reading a chunk early does not raise it.
            if free_at > now + 0.002:
                await asyncio.sleep(free_at - now - 0.001)
        raise ConnectionError("closed")

    async def _write(self, sink: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            while self._in_flight:
                at, data = self._in_flight[0]
                if at > time.monotonic():
                    await asyncio.sleep(at - time.monotonic())
                self._in_flight.popleft()
                await loop.sock_sendall(sink, data)
            self._added.clear()
            await self._added.wait()


if __name__ == "__main__":
    run(relay(int(sys.argv[1]), Link(**json.loads(sys.argv[2]))))
