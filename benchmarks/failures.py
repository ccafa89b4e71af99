"""A front with workers of this machine, of which one fails: gaps of other sessions, and how long its client waits."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import statistics
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.scheduled_front import FrontJob
from benchmarks.serving import address, free_port, run
from reactor_runtime.client import ClientError, Session, connect
from reactor_runtime.cluster.job import WorkerJob
from reactor_runtime.cluster.placement.driver_messages import (
    FROM_DRIVER,
    TO_DRIVER,
    DriverConnected,
    FromDriver,
    StartWorker,
    StopWorker,
)
from reactor_runtime.cluster.placement.placement import PlacementConnected, PlacementEvent, WorkerGone, WorkerPlaced
from tests.cluster.local_placement import LocalPlacement
from tests.processes import engines_of

Row = tuple[str, str, str]
RUNS = 5
CLIENTS = 4
# One worker is free for the client that loses its own.
WORKERS = CLIENTS + 1
CONFIG = {"width": 320, "height": 240, "fps": 30}
DRAIN_S = 2.0
BEFORE_S = 4.0
SETTLE_S = 2.0
PATIENCE_S = 60.0
RETRY_S = 0.02
POLL_S = 0.05
SERVING = ("ready", "busy")


@dataclass
class ReconnectingClient:
    """Connect a client again and again, and record the arrival and the session of each frame."""

    port: int
    frames: list[tuple[float, str | None]] = field(default_factory=list)

    async def run(self) -> None:
        while True:
            with contextlib.suppress(ClientError):
                async with connect(address(self.port)) as session:
                    await self._receive(session)
            await asyncio.sleep(RETRY_S)

    async def _receive(self, session: Session) -> None:
        """Receive the frames of one session after the other; raise ClientError when the server can't be reached."""
        while True:
            await session.ready()
            with contextlib.suppress(ClientError):
                async for _ in session.frames(decode=False):
                    self.frames.append((time.monotonic(), session.id))

    def gap_s(self, since: float, until: float) -> float:
        """Return the longest time without a frame."""
        bounds = [since, *(at for at, _ in self.frames if since < at < until), until]
        return max(later - earlier for earlier, later in itertools.pairwise(bounds))

    def lost_s(self, session: str | None) -> float | None:
        """Return the time from the last frame of a session to the first of the next one; None before that."""
        of_session = [at for at, id in self.frames if id == session]
        later = [at for at, _ in self.frames if at > of_session[-1]]
        return later[0] - of_session[-1] if later else None


class Cluster:
    """Start a front, which may be killed, and the workers that it orders, as a scheduler on other machines does."""

    def __init__(self) -> None:
        self.port = free_port()
        self._jobs: dict[str, WorkerJob] = {}
        self._workers = LocalPlacement(self._jobs.__getitem__)
        self._placed: dict[str, WorkerPlaced] = {}
        self._to_front: asyncio.StreamWriter | None = None
        self._front: asyncio.subprocess.Process | None = None
        self._scheduler = 0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        following = asyncio.create_task(self._workers.run(self._report))
        server = await asyncio.start_server(self._serve_front, "127.0.0.1", 0)
        self._scheduler = server.sockets[0].getsockname()[1]
        try:
            await self.start_front()
            yield
        finally:
            await self.kill_front()
            self._workers.kill()
            await self._workers.aclose()
            following.cancel()
            server.close()

    async def start_front(self) -> None:
        job = FrontJob(self.port, self._scheduler, WORKERS, CONFIG, DRAIN_S)
        command = (sys.executable, "-m", "benchmarks.scheduled_front", json.dumps(asdict(job)))
        self._front = await asyncio.create_subprocess_exec(*command)

    async def kill_front(self) -> None:
        if self._front is not None and self._front.returncode is None:
            self._front.kill()
            await self._front.wait()

    def server_of(self, worker: str) -> int:
        """Return the process of a worker's server."""
        return self._workers.processes[worker].pid

    async def workers(self) -> dict[str, dict[str, Any]]:
        """Return what the front knows of each worker; nothing while it can't be reached."""
        try:
            health = await asyncio.to_thread(_read, f"{address(self.port)}/health")
        except (urllib.error.URLError, ConnectionError):
            return {}
        return {engine["worker"]: engine for engine in health["engines"]}

    async def wait_until_ready(self, clients: list[ReconnectingClient]) -> None:
        """Wait until all workers serve and each client has a session of its own."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                workers = await self.workers()
                sessions = {worker["session"] for worker in workers.values()}
                serving = sum(worker["status"] in SERVING for worker in workers.values())
                if serving == WORKERS and all(client.frames and client.frames[-1][1] in sessions for client in clients):
                    return
                await asyncio.sleep(POLL_S)

    def _report(self, event: PlacementEvent) -> None:
        if isinstance(event, WorkerPlaced):
            self._placed[event.worker] = event
        elif isinstance(event, WorkerGone):
            self._placed.pop(event.worker, None)
        # The scheduled front gets what was placed when it connects.
        if not isinstance(event, PlacementConnected):
            self._send(event)

    def _send(self, message: FromDriver) -> None:
        if self._to_front is not None and not self._to_front.is_closing():
            self._to_front.write(f"{FROM_DRIVER.encode(message)}\n".encode())

    async def _serve_front(self, orders: asyncio.StreamReader, to_front: asyncio.StreamWriter) -> None:
        self._to_front = to_front
        self._send(DriverConnected(tuple(self._placed), ""))
        for placed in tuple(self._placed.values()):
            self._send(placed)
        with contextlib.suppress(ConnectionError):
            async for line in orders:
                match TO_DRIVER.decode(line):
                    case StartWorker(worker, job):
                        self._jobs[worker] = WorkerJob.from_json(job)
                        self._workers.start(worker)
                    case StopWorker(worker):
                        self._workers.stop(worker)
        to_front.close()


async def _kill_server(cluster: Cluster, worker: str) -> None:
    os.kill(cluster.server_of(worker), signal.SIGKILL)


async def _kill_engine(cluster: Cluster, worker: str) -> None:
    (engine,) = engines_of(cluster.server_of(worker))
    os.kill(engine, signal.SIGKILL)


async def _drain_worker(cluster: Cluster, worker: str) -> None:
    os.kill(cluster.server_of(worker), signal.SIGTERM)


async def _stop_worker(cluster: Cluster, worker: str) -> None:
    os.kill(cluster.server_of(worker), signal.SIGSTOP)


async def _restart_front(cluster: Cluster, _worker: str) -> None:
    await cluster.kill_front()
    await cluster.start_front()


Failure = Callable[[Cluster, str], Awaitable[None]]
FAILURES: dict[str, Failure] = {
    "a worker's server is killed": _kill_server,
    "a model's process is killed": _kill_engine,
    "the front is killed and started": _restart_front,
    f"a worker ends, with {DRAIN_S:.0f} s for its session": _drain_worker,
    "a worker is silent": _stop_worker,
}


@dataclass(frozen=True, slots=True)
class Result:
    """The largest gaps of the other sessions, before and after a failure, and how long its client had no frames."""

    before_s: float
    after_s: float
    lost_s: float


def failures() -> Iterator[Row]:
    """Measure four sessions of 320x240 at 30 fps on five workers while a worker or the front fails."""
    for name, fail in FAILURES.items():
        results = run(_measure(fail))
        after = statistics.median(result.after_s for result in results)
        before = statistics.median(result.before_s for result in results)
        lost = statistics.median(result.lost_s for result in results)
        frames = "a new client has frames" if fail is _restart_front else "its client has frames again"
        yield f"{name}: gap of others", f"{1e3 * after:.0f} ms", "at most 100 ms"
        yield f"  the {BEFORE_S:.0f} s before it", f"{1e3 * before:.0f} ms", ""
        yield f"  {frames} after", f"{lost:.2f} s", ""


async def _measure(fail: Failure) -> list[Result]:
    cluster = Cluster()
    async with cluster.running():
        clients = [ReconnectingClient(cluster.port) for _ in range(CLIENTS)]
        receiving = [asyncio.create_task(client.run()) for client in clients]
        try:
            return [await _fail_once(cluster, clients, fail) for _ in range(RUNS)]
        finally:
            await _cancelled(receiving)


async def _fail_once(cluster: Cluster, clients: list[ReconnectingClient], fail: Failure) -> Result:
    await cluster.wait_until_ready(clients)
    await asyncio.sleep(SETTLE_S)
    first = clients[0]
    session = first.frames[-1][1]
    (worker,) = [id for id, worker in (await cluster.workers()).items() if worker["session"] == session]
    began = time.monotonic()
    await asyncio.sleep(BEFORE_S)
    failed_at = time.monotonic()
    await fail(cluster, worker)
    if fail is _restart_front:
        others, lost_s = clients, await _wait_for_new_client(cluster, failed_at)
    else:
        others, lost_s = clients[1:], await _wait_until_back(first, session)
    await asyncio.sleep(SETTLE_S)
    before_s = max(client.gap_s(began, failed_at) for client in others)
    return Result(before_s, max(client.gap_s(failed_at, time.monotonic()) for client in others), lost_s)


async def _wait_until_back(client: ReconnectingClient, session: str | None) -> float:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            await asyncio.sleep(POLL_S)
            if client.frames[-1][1] != session and (lost_s := client.lost_s(session)) is not None:
                return lost_s


async def _wait_for_new_client(cluster: Cluster, since: float) -> float:
    client = ReconnectingClient(cluster.port)
    receiving = asyncio.create_task(client.run())
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not client.frames:  # noqa: ASYNC110  (no event reports it)
                await asyncio.sleep(POLL_S)
    finally:
        await _cancelled([receiving])
    return client.frames[0][0] - since


async def _cancelled(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _read(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
        return json.load(answer)
