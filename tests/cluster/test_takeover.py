"""A worker has one front: a second one ends, unless the first was killed or does not answer."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from reactor_runtime import manifest
from reactor_runtime.cluster.job import WorkerJob
from reactor_runtime.cluster.placement.placement import PlacementConnected, PlacementEvent, WorkerPlaced
from reactor_runtime.cluster.tickets import TicketIssuer
from reactor_runtime.errors import UsageError
from reactor_runtime.server.options import ServeOptions, TurnLimits
from tests.cluster.front import MODEL, Front, running_front
from tests.cluster.local_placement import SECRET, LocalPlacement
from tests.cluster.test_front import refusal, resumed
from tests.forks import ROOT
from tests.server.client import client, controlling
from tests.server.running import write_project
from tests.timeouts import TIMEOUT_S


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path / "project", MODEL)


@contextlib.asynccontextmanager
async def running_worker(project: Path, **of_server: Any) -> AsyncIterator[LocalPlacement]:
    """Run a worker without a front for the block, with options of its server."""
    options = ServeOptions(manifest=manifest.load(project), config={}, **of_server)
    placement = LocalPlacement(
        lambda worker: WorkerJob.of(options, cluster="test", worker=worker, secret=SECRET, project=str(project))
    )
    placed = asyncio.Queue[PlacementEvent]()
    running = asyncio.create_task(placement.run(placed.put_nowait))
    await asyncio.sleep(0)
    placement.start("w-1")
    try:
        assert isinstance(await asyncio.wait_for(placed.get(), TIMEOUT_S), PlacementConnected)
        assert isinstance(await asyncio.wait_for(placed.get(), TIMEOUT_S), WorkerPlaced)
        yield placement
    finally:
        await placement.aclose()
        running.cancel()


@contextlib.asynccontextmanager
async def other_front(worker: WorkerPlaced) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a process for the block that is connected to a worker as its front."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.cluster.other_front", worker.address, SECRET),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert await line_of(process) == "connected"
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


def ticket_for(worker: WorkerPlaced) -> str:
    """Return a ticket of a first front for a controller of a worker."""
    ticket = TicketIssuer(SECRET, "test", "f-1").issue(
        worker.worker, role="controller", session="", client="c-1", now=time.time()
    )
    return ticket.text


def socket_of(worker: WorkerPlaced) -> str:
    return f"{worker.url.replace('http', 'ws', 1)}/ws"


async def line_of(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    return (await asyncio.wait_for(process.stdout.readline(), TIMEOUT_S)).decode().strip()


async def test_a_second_front_ends_and_names_the_first_which_goes_on(project: Path) -> None:
    async with running_front(project) as first, controlling(first.url) as controller:
        await controller.frame()
        second = Front(project, workers=2, taken_over=first.placement.placed)
        named = f"the cluster test has a front already: process {os.getpid()} on "
        with pytest.raises(UsageError, match=named) as error:
            await asyncio.wait_for(second.task, TIMEOUT_S)
        assert "--cluster NAME" in error.value.hint
        assert not second.placement.processes
        assert not second.placement.has_removed
        assert (await controller.ask("set_level", {"level": 50}))["data"] == {"n": 1}
        assert abs((await controller.frame(applied=1)).level - 50) < 3


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "silent"])
async def test_a_front_takes_the_workers_of_one_that_does_not_answer(project: Path, how: signal.Signals) -> None:
    async with running_worker(project) as placement, other_front(placement.placed[0]) as first:
        (worker,) = placement.placed
        first.send_signal(how)
        async with running_front(project, taken_over=[worker]) as second:
            assert "another one has replaced" in await refusal(socket_of(worker), ticket=ticket_for(worker))
            async with controlling(second.url) as controller:
                assert abs((await controller.frame()).level - 100) < 3
                if how is signal.SIGSTOP:
                    first.send_signal(signal.SIGCONT)
                    assert await line_of(first) == f"refused {os.getpid()}"
                assert (await controller.ask("set_level", {"level": 50}))["data"] == {"n": 1}


async def test_a_client_resumes_at_its_worker_while_the_front_is_dead(project: Path) -> None:
    async with running_worker(project, limits=TurnLimits(resume_grace_s=TIMEOUT_S)) as placement:
        (worker,) = placement.placed
        url = socket_of(worker)
        async with client(url, ticket=ticket_for(worker)) as controller, other_front(worker) as front:
            secret = (await controller.data("reactor.welcome"))["resume"]
            assert (await controller.ask("set_level", {"level": 50}))["data"] == {"n": 1}
            front.kill()
            await front.wait()
            controller.socket.transport.abort()
            await controller.closed()
        async with client(url, resume=secret) as back:
            await resumed(back)


async def test_a_front_listens_before_it_is_connected_and_then_finds_a_session_to_resume(project: Path) -> None:
    limits = TurnLimits(resume_grace_s=TIMEOUT_S)
    async with running_worker(project, limits=limits) as placement:
        (worker,) = placement.placed
        async with client(socket_of(worker), ticket=ticket_for(worker)) as controller:
            secret = (await controller.data("reactor.welcome"))["resume"]
            assert (await controller.ask("set_level", {"level": 50}))["data"] == {"n": 1}
            controller.socket.transport.abort()
            await controller.closed()
        async with running_front(project, taken_over=[worker], connects=False, limits=limits) as front:
            async with front.http() as http:
                ready = await http.get("/ready")
                assert (ready.status_code, ready.text) == (503, "loading: connecting to the cluster\n")
                health = (await http.get("/health")).json()
                assert (health["status"], health["detail"]) == ("loading", "connecting to the cluster")
                assert (await http.get("/")).status_code == 200
            loading = front.fleet.statistics().loading
            assert loading is not None
            assert loading.detail == "connecting to the cluster"
            async with client(front.url) as waiting:
                data = await waiting.data("reactor.session", phase="loading")
                assert (data["model"], data["detail"]) == ("my-model", "connecting to the cluster")
            # In the queue, the client would lose its session, which the front does not know yet.
            with pytest.raises(InvalidStatus) as refused:
                async with client(front.url, resume=secret):
                    pass
            assert refused.value.response.status_code == 503
            front.placement.can_connect.set()
            await front.until_ready()
            async with client(front.url, resume=secret) as back:
                await resumed(back)
            async with front.http() as http:
                assert "detail" not in (await http.get("/health")).json()


async def test_a_front_with_another_build_finishes_the_session_of_a_worker_and_serves_others_with_its_own(
    project: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with running_worker(project) as placement:
        (worker,) = placement.placed
        async with client(socket_of(worker), ticket=ticket_for(worker)) as controller:
            await controller.frame()
            write_project(project, MODEL.replace("100", "20"))
            async with running_front(project, taken_over=[worker], build="later") as front:
                async with controlling(front.url) as other:
                    assert abs((await other.frame()).level - 20) < 3
                async with front.http() as http:
                    assert '"default": 20' in (await http.get("/schema")).text
                assert (await controller.ask("set_level", {"level": 50}))["data"] == {"n": 1}
                assert abs((await controller.frame(applied=1)).level - 50) < 3
                assert "and ends with its last session worker=w-1 node=here" in caplog.text
                assert (front.ready, len(front.slots)) == (1, 2)
                await controller.socket.close()
                assert await asyncio.wait_for(placement.processes["w-1"].wait(), TIMEOUT_S) == 0
