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

from reactor_runtime import manifest
from reactor_runtime.cluster.job import WorkerJob
from reactor_runtime.cluster.placement.placement import PlacementEvent, WorkerPlaced
from reactor_runtime.cluster.tickets import TicketIssuer
from reactor_runtime.errors import UsageError
from reactor_runtime.server.options import ServeOptions, TurnLimits
from tests.cluster.front import MODEL, SECRET, Front, running_front
from tests.cluster.local_placement import LocalPlacement
from tests.cluster.test_front import refusal, resumed
from tests.server.client import client, controlling
from tests.server.running import ROOT, write_project
from tests.timeouts import TIMEOUT_S


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path / "project", MODEL)


@contextlib.asynccontextmanager
async def running_worker(project: Path, **of_server: Any) -> AsyncIterator[WorkerPlaced]:
    """Run a worker without a front for the block, with options of its server."""
    options = ServeOptions(manifest=manifest.load(project), config={}, **of_server)
    placement = LocalPlacement(
        lambda worker: WorkerJob.of(options, cluster="test", worker=worker, secret=SECRET, project=str(project))
    )
    placed = asyncio.Queue[PlacementEvent]()
    running = asyncio.create_task(placement.run(placed.put_nowait))
    await asyncio.sleep(0)
    placement.start("w-1")
    worker = await asyncio.wait_for(placed.get(), TIMEOUT_S)
    assert isinstance(worker, WorkerPlaced)
    try:
        yield worker
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
    async with running_worker(project) as worker, other_front(worker) as first:
        first.send_signal(how)
        async with running_front(project, taken_over=[worker]) as second:
            of_first = TicketIssuer(SECRET, "test", "f-1").issue(
                worker.worker, role="controller", session="", client="", now=time.time()
            )
            assert "another one has replaced" in await refusal(
                f"{worker.url.replace('http', 'ws', 1)}/ws", ticket=of_first.text
            )
            async with controlling(second.url) as controller:
                assert abs((await controller.frame()).level - 100) < 3
                if how is signal.SIGSTOP:
                    first.send_signal(signal.SIGCONT)
                    assert await line_of(first) == f"refused {os.getpid()}"
                assert (await controller.ask("set_level", {"level": 50}))["data"] == {"n": 1}


async def test_a_client_resumes_at_its_worker_while_the_front_is_dead(project: Path) -> None:
    async with running_worker(project, limits=TurnLimits(resume_grace_s=TIMEOUT_S)) as worker:
        url = f"{worker.url.replace('http', 'ws', 1)}/ws"
        ticket = TicketIssuer(SECRET, "test", "f-1").issue(
            worker.worker, role="controller", session="", client="c-1", now=time.time()
        )
        async with client(url, ticket=ticket.text) as controller, other_front(worker) as front:
            secret = (await controller.data("reactor.welcome"))["resume"]
            assert (await controller.ask("set_level", {"level": 50}))["data"] == {"n": 1}
            front.kill()
            await front.wait()
            controller.socket.transport.abort()
            await controller.closed()
        async with client(url, resume=secret) as back:
            await resumed(back)
