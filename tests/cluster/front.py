"""A front on this loop, whose workers are processes of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import httpx

from reactor_runtime import manifest
from reactor_runtime.cluster.front.fleet import WorkerFleet
from reactor_runtime.cluster.front.scaling import Scaling
from reactor_runtime.cluster.front.worker_slot import WorkerSlot
from reactor_runtime.cluster.job import WorkerJob
from reactor_runtime.cluster.messages import FrontIdentity
from reactor_runtime.cluster.placement.placement import WorkerPlaced
from reactor_runtime.cluster.tickets import TicketIssuer
from reactor_runtime.server.options import (
    LoadingProgress,
    ReloadReport,
    ServeOptions,
    ServerListening,
    ServerReady,
    ServerStatistics,
)
from reactor_runtime.server.run import Service
from reactor_runtime.server.sessions.slot import SlotSettings
from tests.cluster.local_placement import SECRET, LocalPlacement
from tests.server.client import client
from tests.timeouts import TIMEOUT_S

MODEL = """
class MyState(InputState):
    level: int = 100


class MyModel(ReactorPipeline):
    state: MyState
    fps = 30

    def load(self, config):
        if config.get("fail"):
            raise OSError("disk on fire")

    def inference(self):
        while self.state.level < 255:
            yield gray(self.state.level)
        raise RuntimeError("it fell over")
"""


class Front:
    """The front as its tests see it, and its operator."""

    def __init__(
        self,
        project: Path,
        *,
        workers: int,
        taken_over: Sequence[WorkerPlaced] = (),
        relays_all: bool = False,
        build: str = "",
        **of_server: Any,
    ) -> None:
        self.port = 0
        self.ready = 0
        self._ready = asyncio.Event()
        self.listening = asyncio.Event()
        self._wanted = workers
        options = ServeOptions(manifest=manifest.load(project), **{"config": {}, **of_server})
        self.placement = LocalPlacement(
            lambda worker: WorkerJob.of(
                options, cluster="test", worker=worker, secret=SECRET, project=str(project), build=build
            ),
            taken_over,
        )
        identity = FrontIdentity.of_this_process()
        self.id = identity.id
        self.fleet = WorkerFleet(
            SlotSettings.of(options),
            self,
            placement=self.placement,
            scaling=Scaling(least=workers, most=workers),
            front=identity,
            build=build,
            make_tickets=lambda secret: TicketIssuer(secret, "test", identity.id),
            relays_all=relays_all,
        )
        self.service: Service[WorkerSlot] = Service(self.fleet, self)
        self.task = asyncio.create_task(self._run(socket.create_server(("127.0.0.1", 0))))

    async def _run(self, sock: socket.socket) -> None:
        with sock:
            await self.service.run(sock)

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/ws"

    def http(self) -> httpx.AsyncClient:
        return http_of(f"http://127.0.0.1:{self.port}")

    @property
    def slots(self) -> list[WorkerSlot]:
        return list(self.fleet.admission.slots)

    async def until_ready(self) -> None:
        """Wait until all workers are ready; raise why the front has ended if it has."""
        ready = asyncio.create_task(self._ready.wait())
        await asyncio.wait([ready, self.task], timeout=TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if self.task.done():
            self.task.result()
        assert self._ready.is_set()

    def kill(self, slot: WorkerSlot) -> None:
        self.placement.processes[slot.worker].kill()

    def end_input(self, slot: WorkerSlot) -> None:
        """End the input of a worker, as when its actor has ended."""
        stdin = self.placement.processes[slot.worker].stdin
        assert stdin is not None
        stdin.close()

    def on_listening(self, listening: ServerListening) -> None:
        self.port = listening.port
        self.listening.set()

    def on_loading(self, loading: LoadingProgress) -> None: ...

    def on_ready(self, ready: ServerReady) -> None:
        self.ready = ready.ready
        if ready.ready == self._wanted:
            self._ready.set()

    def on_reload(self, report: ReloadReport) -> None: ...

    def on_tick(self, statistics: Callable[[], ServerStatistics]) -> None:
        statistics()

    def on_exit(self) -> None: ...


def http_of(url: str) -> httpx.AsyncClient:
    """Return an HTTP client of a server, which waits for an answer as long as a test waits for anything."""
    return httpx.AsyncClient(base_url=url, timeout=TIMEOUT_S)


@contextlib.asynccontextmanager
async def running_front(
    project: Path,
    *,
    workers: int = 1,
    taken_over: Sequence[WorkerPlaced] = (),
    connects: bool = True,
    **of_server: Any,
) -> AsyncIterator[Front]:
    """Run a front with options of its server for the block, from when its workers are ready; they end with it.

    If it does not connect to the scheduler, the block begins when it listens.
    """
    front = Front(project, workers=workers, taken_over=taken_over, **of_server)
    try:
        if connects:
            await front.until_ready()
        else:
            front.placement.can_connect.clear()
            await asyncio.wait_for(front.listening.wait(), TIMEOUT_S)
        yield front
    finally:
        if not front.task.done():
            front.service.stop()
        await asyncio.wait_for(asyncio.gather(front.task, return_exceptions=True), TIMEOUT_S)
        assert all(process.returncode is not None for process in front.placement.processes.values())


async def redirected(front: Front, **query: str) -> dict[str, str]:
    """Connect as a client that follows redirects; return where to."""
    async with client(front.url, redirect="1", **query) as controller:
        data: dict[str, str] = await controller.data("reactor.redirect")
        assert await controller.closed() == (1000, "continue at the worker")
        return data


def socket_of(redirect: dict[str, str]) -> str:
    return redirect["url"].replace("http", "ws", 1) + "/ws"
