"""The floor of sending: encoded frames from one process to another, without any other work."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from benchmarks.serving import run
from reactor_runtime.wire.containers import attach
from reactor_runtime.wire.media_header import MediaHeader


@contextlib.contextmanager
def sending(size_bytes: int, fps: int) -> Iterator[int]:
    """Send files of a size from a process of its own; yield the port."""
    command = [sys.executable, "-m", __name__, str(size_bytes), str(fps)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None, "stdout is a pipe"
    try:
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


async def _serve(size_bytes: int, fps: int) -> None:
    async def send(socket: ServerConnection) -> None:
        file = b"\xff\xd8" + bytes(size_bytes - 2)
        with contextlib.suppress(ConnectionClosed):
            async for seq in _ticks(1 / fps):
                await socket.send(attach(MediaHeader("main_video", seq, 0, time.time_ns() // 1000, 0), file))

    async with serve(send, "127.0.0.1", 0, compression=None) as server:
        # The parent process reads the port.
        print(server.sockets[0].getsockname()[1], flush=True)  # noqa: T201
        await server.wait_closed()


async def _ticks(interval_s: float) -> AsyncIterator[int]:
    due, seq = time.monotonic(), 0
    while True:
        due, seq = due + interval_s, seq + 1
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        yield seq


if __name__ == "__main__":
    run(_serve(int(sys.argv[1]), int(sys.argv[2])))
