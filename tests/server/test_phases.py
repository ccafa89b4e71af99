"""A model that dies or runs out of memory in each phase: how its session ends, and what follows."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from reactor_runtime.client import EventError, SessionEnded
from tests.server.running import RunningServer, serving, started, write_project
from tests.server.session_client import is_served, several, until_over, visiting

MODEL = """
ARMED, HELD = (os.path.join(os.path.dirname(__file__), name) for name in ("armed", "held"))


def strike(phase):
    try:
        with open(ARMED) as file:
            armed, fault = file.read().split()
        if armed != phase:
            return
        if phase in ("import", "load"):
            os.replace(ARMED, HELD)
        else:
            os.unlink(ARMED)
    except FileNotFoundError:  # not armed, or another engine was first
        return
    if fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault == "segfault":
        ctypes.string_at(0)
    elif fault == "memory":
        np.ones(1 << 60, np.uint8)


strike("import")


class MyState(InputState):
    pass


class MyModel(ReactorPipeline):
    state: MyState
    fps = 30

    def load(self, config):
        strike("load")
        while os.path.exists(HELD):
            time.sleep(0.01)

    @connected
    def hello(self):
        strike("connected")

    @disconnected
    def goodbye(self):
        strike("disconnected")

    @event(name="act")
    def act(self):
        strike("handler")

    def inference(self):
        while True:
            strike("step")
            yield gray(100)
"""
WORDS = {"kill": "SIGKILL", "segfault": "SIGSEGV", "memory": "MemoryError"}


def arm(server: RunningServer, phase: str, fault: str) -> None:
    """Let the fault happen once, when the model gets there; after one in a load the next waits for `release`."""
    new = server.output.parent / "new"
    new.write_text(f"{phase} {fault}")
    # A model that looks meanwhile must not read an empty file.
    new.replace(server.output.parent / "armed")


def release(server: RunningServer) -> None:
    (server.output.parent / "held").unlink()


@pytest.fixture(scope="module", params=WORDS)
def fault(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def server(fault: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server for each fault: the pauses before the model is loaded again become longer with each death."""
    with serving(write_project(tmp_path_factory.mktemp(fault), MODEL)) as server:
        yield server


@pytest.fixture
def free(server: RunningServer) -> RunningServer:
    """The server, without a session: one that is ending would run into the fault of the next test."""
    server.wait_for_health("ready")
    return server


async def run_into_it(server: RunningServer) -> None:
    async with visiting(server.url) as session:
        await session.frame()
        await session.send("act")
        await until_over(session)


@pytest.mark.parametrize("phase", ["connected", "step", "handler"])
async def test_a_session_ends_with_the_reason_and_the_next_is_served(
    free: RunningServer, fault: str, phase: str
) -> None:
    arm(free, phase, fault)
    # A handler may fail: the session continues.
    if (phase, fault) == ("handler", "memory"):
        with pytest.raises(EventError, match="the handler of act failed"):
            await run_into_it(free)
    else:
        with pytest.raises(SessionEnded, match=WORDS[fault]) as ended:
            await run_into_it(free)
        assert ended.value.reason == ("model_error" if fault == "memory" else "model_died")
    await is_served(free.url)


async def test_a_fault_after_the_controller_has_left_is_logged(free: RunningServer, fault: str) -> None:
    before = free.log.count(WORDS[fault])
    async with visiting(free.url) as session:
        await session.frame()
        arm(free, "disconnected", fault)
    await is_served(free.url)
    free.until(lambda: free.log.count(WORDS[fault]) > before, f"{WORDS[fault]} in the log")


async def test_a_model_that_cannot_be_loaded_again_at_once_is_tried_again(tmp_path: Path) -> None:
    with serving(write_project(tmp_path, MODEL)) as server:
        for phase, fault in (("import", "kill"), ("load", "memory")):
            arm(server, phase, fault)
            os.kill(server.engine, signal.SIGKILL)
            server.wait_for_health("failed")
            assert server.health()[0] == 503
            assert server.get("/ready") == (503, "failed\n")
            assert server.get("/live")[0] == 200
            release(server)
            await is_served(server.url)
            assert WORDS[fault] in server.log
            assert "could not be loaded again, the next try is in" in server.log
            assert server.health()[1]["status"] in ("ready", "stopping")


@pytest.mark.parametrize("fault", ["kill", "memory"])
async def test_a_fault_while_the_server_stops_changes_nothing(tmp_path: Path, fault: str) -> None:
    with started(write_project(tmp_path, MODEL)) as server:
        server.wait_for("ready in")
        async with visiting(server.url) as session:
            await session.frame()
            arm(server, "disconnected", fault)
            server.interrupt()
            with pytest.raises(SessionEnded) as ended:
                await until_over(session)
            assert ended.value.reason == "server_stopping"
        assert server.ended() == 0


@pytest.mark.parametrize("phase", ["step", "disconnected"])
@pytest.mark.parametrize("fault", ["kill", "memory"])
async def test_a_fault_while_it_drains_leaves_the_other_session_to_its_end(
    tmp_path: Path, fault: str, phase: str
) -> None:
    with started(write_project(tmp_path, MODEL), "--sessions", "2", "--drain-timeout", "60") as server:
        server.wait_for("ready 2 of 2")
        async with visiting(server.url) as other:
            await other.frame()
            async with visiting(server.url) as session:
                await session.frame()
                server.process.terminate()
                await asyncio.to_thread(server.wait_for, "stopping when 2 sessions are over")
                arm(server, phase, fault)
                if phase == "step":  # of whichever comes to it first
                    await asyncio.to_thread(server.wait_for, WORDS[fault])
                    assert server.get("/ready") == (503, "stopping\n")
            if phase == "disconnected":
                await asyncio.to_thread(server.wait_for, WORDS[fault])
                assert server.get("/ready") == (503, "stopping\n")
                await several(other.frames(), 10)
        assert server.ended() == 0
        assert "it is started again" not in server.log
