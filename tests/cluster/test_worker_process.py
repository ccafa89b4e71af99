"""A worker's process: its priority, and its end by orders of the front, by signals, and with its input."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from reactor_runtime import manifest
from reactor_runtime.cluster.job import WorkerJob, WorkerListening, parse_answer
from reactor_runtime.server.options import ServeOptions
from tests.cluster.front import MODEL, running_front
from tests.server.client import client, controlling
from tests.server.running import write_project
from tests.timeouts import TIMEOUT_S

# PR_CAPBSET_DROP and CAP_SYS_NICE: without it even root can't raise a priority, as in most containers.
WITH_LOW_PRIORITY = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(24, 23)
os.nice(15)
os.execv(sys.executable, [sys.executable, "-m", "reactor_runtime.cluster.worker_process"])
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path / "project", MODEL)


@pytest.fixture
def patient_front(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the front wait for workers that end, and kill none that a busy machine delays."""
    monkeypatch.setattr("reactor_runtime.cluster.front.link.STOPPING_S", TIMEOUT_S)
    monkeypatch.setattr("reactor_runtime.cluster.front.remote_worker.LOST_AFTER_S", TIMEOUT_S)


@pytest.mark.usefixtures("patient_front")
async def test_workers_with_and_without_a_session_end_orderly_when_the_front_drains(project: Path) -> None:
    async with running_front(project, workers=2, drain_timeout_s=TIMEOUT_S) as front:
        async with controlling(front.url) as controller:
            (idle,) = [slot for slot in front.slots if slot.session is None]
            os.kill(os.getpid(), signal.SIGTERM)
            await controller.data("reactor.session", phase="stopping")
            await asyncio.wait_for(front.placement.processes[idle.worker].wait(), TIMEOUT_S)
            assert (await controller.ask("set_level", {"level": 50}))["data"] == {"n": 1}
        await asyncio.wait_for(front.task, TIMEOUT_S)
    assert [process.returncode for process in front.placement.processes.values()] == [0, 0]


async def test_a_relayed_client_that_loses_its_worker_while_the_front_drains_does_not_wait_for_another(
    project: Path,
) -> None:
    async with (
        running_front(project, workers=2, drain_timeout_s=TIMEOUT_S) as front,
        controlling(front.url) as other,
        controlling(front.url) as controller,
    ):
        os.kill(os.getpid(), signal.SIGTERM)
        await controller.data("reactor.session", phase="stopping")
        (id,) = [text["data"]["client"] for text in controller.texts if text["type"] == "reactor.welcome"]
        (hit,) = [slot for slot in front.slots if slot.session and slot.session.seats[0].client == id]
        front.kill(hit)
        assert (await controller.data("reactor.session", phase="lost"))["message"]
        assert await controller.closed() == (1001, "the server is stopping")
        assert (await other.ask("set_level", {"level": 50}))["data"] == {"n": 1}


async def test_a_worker_whose_actor_has_ended_is_lost_as_a_killed_one(project: Path) -> None:
    async with running_front(project) as front:
        async with client(front.url, redirect="1") as waiting:
            redirect = await waiting.data("reactor.redirect")
        async with client(redirect["url"].replace("http", "ws") + "/ws", ticket=redirect["ticket"]) as controller:
            await controller.data("reactor.session", phase="started")
            (hit,) = front.slots
            process = front.placement.processes[hit.worker]
            assert process.stdin is not None
            process.stdin.close()
            # A closing handshake would say that the session is over.
            assert (await controller.closed())[0] == 1006
            assert await asyncio.wait_for(process.wait(), TIMEOUT_S) == 130
        async with asyncio.timeout(TIMEOUT_S):
            while hit in front.slots:  # noqa: ASYNC110  (no event reports it)
                await asyncio.sleep(0.01)
        assert front.fleet.admission.settings.metrics.sessions.counts["lost"] == 1


@pytest.mark.usefixtures("patient_front")
async def test_a_worker_that_its_front_has_stopped_ends_orderly_though_its_actor_ends(project: Path) -> None:
    async with running_front(project) as front, controlling(front.url) as controller:
        front.service.stop()
        assert await controller.closed() == (1001, "the server is stopping")
    assert [process.returncode for process in front.placement.processes.values()] == [0]


def test_a_worker_that_has_to_run_with_low_priority_says_how_to_change_that(project: Path) -> None:
    options = ServeOptions(manifest=manifest.load(project), config={})
    job = WorkerJob.of(options, cluster="test", worker="w-1", secret="5", project=str(project))
    with subprocess.Popen(
        [sys.executable, "-c", WITH_LOW_PRIORITY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{job.to_json()}\n")
        process.stdin.flush()
        assert isinstance(parse_answer(process.stdout.readline()), WorkerListening)
        _, log = process.communicate(timeout=TIMEOUT_S)
    assert re.search(r"warn  Ray runs this worker with niceness 1[5-9], ", log)
    assert "set RAY_worker_niceness=0 where you start Ray on this node" in log
