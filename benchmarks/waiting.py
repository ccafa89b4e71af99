"""A front in a process of its own, with simulated workers: its processor while clients wait, and its admissions."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import dataclass, field, replace

import jwt
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from benchmarks.serving import cpu_of, run
from reactor_runtime.cluster.messages import FROM_WORKER, SeatStatus, SessionStatus
from reactor_runtime.server.sessions.slot import SessionEnd
from tests.cluster.simulation import EMPTY, STATUS

Row = tuple[str, str, str]
WORKERS = 64
WAITING = (0, 200, 2000, 5000)
PER_S = 20
SECONDS = 10.0
SETTLE_S = 2.0
REPORT_S = 1.0
# Without clients that wait, a session is over so soon that a worker is always free.
SHORT_S = 1.0
STARTUP_S = 120.0
# Clients that connect at the same time, before the measurement.
STARTING = 20
# A front opens few connections a second of one address.
ADDRESSES = 200


def waiting() -> Iterator[Row]:
    """Measure a front with 64 workers while 20 clients come and 20 sessions end each second, and thousands wait."""
    for count in WAITING:
        share, assigned_ms, updates = run(_measure(count))
        name = f"{count:,} clients wait" if count else "a worker is free"
        bound = "at most 10 %" if count == WAITING[1] else ""
        yield f"front, {WORKERS} workers, {name}: of one core", f"{100 * share:.1f} %", bound
        what = "free worker to redirect" if count else "connect to redirect"
        bounds = ("", "") if count else ("at most 20 ms", "at most 60 ms")
        yield f"  {what}, {PER_S} a second, p50", f"{_percentile(assigned_ms, 0.5):.1f} ms", bounds[0]
        yield "    p99", f"{_percentile(assigned_ms, 0.99):.1f} ms", bounds[1]
        if count:
            yield "  positions sent to a client a second", f"{updates:.2f}", ""


async def _measure(count: int) -> tuple[float, list[float], float]:
    """Return the share of a core that the front uses, the times until clients are assigned, and their updates."""
    async with _running_front(count) as cluster:
        if count:
            await cluster.fill(WORKERS + count)
        await asyncio.sleep(SETTLE_S)
        cluster.assigned_s.clear()
        updates, used_s, began = cluster.updates, cpu_of(cluster.front), time.monotonic()
        while (at := time.monotonic()) < began + SECONDS:
            cluster.connect_client()
            if count:
                cluster.end_session()
            await asyncio.sleep(at + 1 / PER_S - time.monotonic())
        assert not cluster.failures, cluster.failures[:3]
        passed_s = time.monotonic() - began
        share = (cpu_of(cluster.front) - used_s) / passed_s
        assigned_ms = sorted(1e3 * seconds for seconds in cluster.assigned_s)
        return share, assigned_ms, (cluster.updates - updates) / passed_s / max(count, 1)


NO_SESSION = SessionEnd("", "", is_broken=False)


@dataclass
class _Worker:
    """A worker that serves each client at once; `freed_at` is when its last session has ended."""

    id: str
    connection: ServerConnection
    session: SessionStatus | None = None
    ended: SessionEnd = NO_SESSION
    freed_at: float = 0.0

    async def report(self) -> None:
        slot = replace(EMPTY, session=self.session, ended=self.ended)
        status = replace(STATUS, phase="ready", slots=(slot,))
        with contextlib.suppress(ConnectionClosed):
            await self.connection.send(FROM_WORKER.encode(status))


@dataclass
class _Cluster:
    """Run the workers and the clients of a front; `assigned_s` has a time for each client that got its redirect."""

    with_queue: bool
    front: int = 0
    port: int = 0
    started: int = 0
    connected: int = 0
    updates: int = 0
    assigned_s: list[float] = field(default_factory=list)
    workers: dict[str, _Worker] = field(default_factory=dict)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    failures: list[BaseException] = field(default_factory=list)

    async def serve_worker(self, connection: ServerConnection) -> None:
        assert connection.request is not None, "the handshake is over"
        worker = _Worker(connection.request.path.split("/")[1], connection)
        self.workers[worker.id] = worker
        while connection.state.name == "OPEN":
            await worker.report()
            await asyncio.sleep(REPORT_S)

    def connect_client(self) -> None:
        self.started += 1
        self._start(self._follow_client(f"127.0.1.{self.started % ADDRESSES + 1}"))

    async def fill(self, count: int) -> None:
        """Connect clients until `count` have a worker or wait."""
        while self.connected < count:
            # The front would be late for the handshakes of thousands at once.
            for _ in range(min(STARTING, count - self.connected)):
                self.connect_client()
            await self.wait_until(lambda: self.connected == self.started)

    def end_session(self) -> None:
        """End the session of the worker whose previous one ended first."""
        busy = [worker for worker in self.workers.values() if worker.session is not None]
        self._end(min(busy, key=lambda worker: worker.freed_at))

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(STARTUP_S):
            while not condition():  # noqa: ASYNC110  (no event reports it)
                await asyncio.sleep(0.005)

    def _start(self, coroutine: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(coroutine)
        self.tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            self.failures.append(failure)

    def _end(self, worker: _Worker) -> None:
        assert worker.session is not None, "it has a session"
        worker.ended = SessionEnd(worker.session.id, "left", is_broken=False)
        worker.session, worker.freed_at = None, time.monotonic()
        self._start(worker.report())

    async def _follow_client(self, address: str) -> None:
        began, is_counted = time.monotonic(), False
        url = f"ws://127.0.0.1:{self.port}/ws?redirect=1"
        async with connect(url, compression=None, ping_interval=None, local_addr=(address, 0)) as socket:
            async for text in socket:
                received = time.monotonic()
                assert isinstance(text, str), "a front sends no frames to clients that wait"
                self.connected, is_counted = self.connected + (not is_counted), True
                if '"reactor.queue"' in text:
                    self.updates += 1
                elif '"reactor.redirect"' in text:
                    redirect = json.loads(text)["data"]
                    self._assigned(redirect, received, began)

    def _assigned(self, redirect: dict[str, str], at: float, connected_at: float) -> None:
        worker = self.workers[redirect["url"].rpartition("/")[2]]
        ticket = jwt.decode(redirect["ticket"], options={"verify_signature": False})["jti"]
        self.assigned_s.append(at - (worker.freed_at if self.with_queue else connected_at))
        worker.session = SessionStatus(f"s-{ticket}", "running", 0.0, (SeatStatus(ticket),))
        self._start(worker.report())
        if not self.with_queue:
            asyncio.get_running_loop().call_later(SHORT_S, self._end, worker)


@contextlib.asynccontextmanager
async def _running_front(count: int) -> AsyncIterator[_Cluster]:
    cluster = _Cluster(with_queue=count > 0)
    async with serve(cluster.serve_worker, "127.0.0.1", 0, compression=None, ping_interval=None) as workers:
        url = f"http://127.0.0.1:{next(iter(workers.sockets)).getsockname()[1]}"
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "benchmarks.front_process", url, str(WORKERS), str(2 * count + WORKERS)),
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert process.stdout is not None, "stdout is a pipe"
            cluster.front, cluster.port = process.pid, int(await process.stdout.readline())
            await cluster.wait_until(lambda: len(cluster.workers) == WORKERS)
            await asyncio.sleep(SETTLE_S)
            yield cluster
        finally:
            for task in tuple(cluster.tasks):
                task.cancel()
            await asyncio.gather(*cluster.tasks, return_exceptions=True)
            process.send_signal(signal.SIGKILL)
            await process.wait()


def _percentile(values: list[float], share: float) -> float:
    return values[min(len(values) - 1, int(len(values) * share))]
