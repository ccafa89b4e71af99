"""The actor of a worker: starts the worker's process on its node, and ends with it."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator

from reactor_runtime.cluster.job import WorkerFailed, WorkerJob, WorkerListening, parse_answer
from reactor_runtime.errors import describe_exit
from reactor_runtime.oom_kills import OomKills
from reactor_runtime.server.net.listening import is_loopback

LINE_BYTES = 1 << 20
# A driver kills an actor when it has the reason for the end; without a driver the actor ends after this time, to free
# its share of the node.
END_S = 10.0


class WorkerActor:
    """Run one worker process, whose input this holds open: the process ends if the actor is killed.

    Its methods run on the actor's event loop, and any driver may call them any number of times.
    """

    def __init__(self, job: str) -> None:
        self._job = WorkerJob.from_json(job)
        self._listening = asyncio.Event()
        self._port = 0
        self._certificate = ""
        self._process: asyncio.Task[str] | None = None

    def __repr__(self) -> str:
        # Ray writes this before each line of the log.
        return f"{self._job.worker} on {socket.gethostname()}"

    async def secret(self) -> str:
        """Return the secret of the worker's cluster."""
        return self._job.secret

    async def start(self) -> tuple[str, str, str, str] | None:
        """Start the process unless it runs; return its place when it listens, None if it has ended.

        The place is its URL, its address, its node and its certificate, as in `WorkerPlaced`.
        """
        process = self._run()
        listening = asyncio.create_task(self._listening.wait())
        await asyncio.wait([listening, process], return_when=asyncio.FIRST_COMPLETED)
        listening.cancel()
        return self._place() if self._port and not process.done() else None

    async def wait_end(self) -> str:
        """Return why the process has ended, when it has."""
        return await asyncio.shield(self._run())

    def _run(self) -> asyncio.Task[str]:
        if self._process is None:
            self._process = asyncio.create_task(self._serve())
            self._process.add_done_callback(lambda _: asyncio.get_running_loop().call_later(END_S, os._exit, 0))
        return self._process

    async def _serve(self) -> str:
        oom_kills = OomKills()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "reactor_runtime.cluster.worker_process"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LINE_BYTES,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{self._job.to_json()}\n".encode())
        reason = ""
        async for text in _lines(process.stdout):
            match answer := parse_answer(text):
                case WorkerListening():
                    self._port, self._certificate = answer.port, answer.certificate
                    self._listening.set()
                case WorkerFailed(error):
                    reason = error
                case None:
                    sys.stdout.write(text)
                    sys.stdout.flush()
        code = await process.wait()
        process.stdin.close()
        reason = reason or f"its process {describe_exit(code, oom_killed=oom_kills.happened())}"
        # The front learns the node of a worker that listens from its place.
        return reason if self._listening.is_set() else f"on {socket.gethostname()}: {reason}"

    def _place(self) -> tuple[str, str, str, str]:
        host = self._job.host if is_loopback(self._job.host) else _node_address()
        scheme = "https" if self._certificate else "http"
        name = f"[{host}]" if ":" in host else host
        address, node = f"{scheme}://{name}:{self._port}", socket.gethostname()
        url = (self._job.url or address).format(host=name, node=node, port=self._port)
        return url, address, node, self._certificate


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[str]:
    """Yield lines until the end; drop the first part of a line longer than 1 MiB."""
    while True:
        try:
            line = await stream.readline()
        except ValueError:
            continue
        if not line:
            return
        yield line.decode(errors="replace")


def _node_address() -> str:
    """Return the address at which the other nodes reach this one."""
    import ray.util

    address: str = ray.util.get_node_ip_address()
    return address
