"""A server of ours in a process of its own, and what a bare client of it sees."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from reactor_runtime.wire.media_header import MediaHeader, detach

MODEL = Path(__file__).parent / "model"
STARTUP_S = 30


@dataclass(frozen=True, slots=True)
class Received:
    """A frame at the client: when it was there, what its header says, how large it was."""

    at: float
    wall: float
    header: MediaHeader
    size_bytes: int


@contextlib.contextmanager
def serving(project: Path = MODEL, host: str = "127.0.0.1", **config: float) -> Iterator[int]:
    """Serve a model of the benchmarks; gives the port."""
    arguments = [f"--set={key}={value}" for key, value in config.items()]
    run_model = [sys.executable, "-m", "reactor_cli", "run", str(project), "--host", host, "--port", "0"]
    command = [*run_model, "--log-level", "warning", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    assert process.stdout is not None, "a pipe was asked for"
    port = 0
    for line in process.stdout:
        if found := re.search(r"http://[^:/]+:(\d+)", line):
            port = int(found[1])
        if line.startswith("ready"):
            break
    try:
        yield port
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(STARTUP_S)
        process.stdout.close()


@contextlib.asynccontextmanager
async def client(port: int, host: str = "127.0.0.1") -> AsyncIterator[ClientConnection]:
    """Connect as controller with a client that isn't ours."""
    async with connect(f"ws://{host}:{port}/ws", compression=None, max_size=None, max_queue=64) as socket:
        yield socket


async def frames(socket: ClientConnection, texts: list[dict[str, Any]] | None = None) -> AsyncIterator[Received]:
    """Yield every frame; text messages go into `texts`."""
    async for message in socket:
        at, wall = time.monotonic(), time.time()
        if isinstance(message, bytes):
            header, _ = detach(message)
            assert header is not None, "every frame of the server's carries a header"
            yield Received(at, wall, header, len(message))
        elif texts is not None:
            texts.append(json.loads(message))


async def acknowledge(socket: ClientConnection, frame: Received) -> None:
    """Tell the server that the frame was shown."""
    data = {"track": frame.header.track, "seq": frame.header.seq}
    await socket.send(json.dumps({"type": "reactor.ack", "data": data}))


def cpu_s() -> float:
    """CPU time so far of the server that is running and of its engine, in seconds."""
    return sum(map(cpu_of, running()))


def running() -> tuple[int, ...]:
    """Give the process ids of the server that is running and of its engine, in this order."""
    servers = _children(os.getpid())
    return *servers, *(engine for server in servers for engine in _children(server))


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


def cpu_of(pid: int) -> float:
    """CPU time of a process so far, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(coroutine: Any) -> Any:
    """Run a client on the loop the server uses too."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(coroutine)
