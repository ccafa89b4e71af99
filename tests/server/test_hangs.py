"""A model that hangs under `--step-timeout`, in every place and style; and one that is only slow."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from reactor_runtime.client import SessionEnded
from tests.processes import gone
from tests.server.running import RunningServer, serving, started, write_project
from tests.server.session_client import is_served, several, until_over, visiting

# Longer than any step takes that does not hang, on a busy machine too.
STEP_TIMEOUT_S = 2
OPTION = ("--step-timeout", str(STEP_TIMEOUT_S))
HANGS = """
def hang(how):
    print("hanging", flush=True)
    if how == "sleeps":
        time.sleep(600)
    elif how == "computes":
        while True:
            pass
    elif how == "holds the lock":
        ctypes.PyDLL(None).sleep(600)
    elif how == "is stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif how == "debugger":
        breakpoint()
"""
PIPELINE = (
    HANGS
    + """
class MyState(InputState):
    _step = ""
    _end = ""


class MyModel(ReactorPipeline):
    state: MyState
    fps = 30
    where = ""

    @connected
    def hello(self):
        if os.path.exists(FLAG):
            os.unlink(FLAG)
            hang("sleeps")

    @disconnected
    def goodbye(self):
        hang(self.state._end)

    @event(name="in_handler")
    def in_handler(self):
        hang("sleeps")

    @event(name="in_step")
    def in_step(self, how: str):
        self.state._step = how

    @event(name="at_the_end")
    def at_the_end(self):
        self.state._end = "sleeps"

    @event(name="slow")
    def slow(self):
        self.state._step = "slow"

    def inference(self):
        while True:
            if self.state._step == "slow":
                time.sleep(0.5)
            elif self.state._step:
                hang(self.state._step)
            yield gray(100)


FLAG = os.path.join(os.path.dirname(__file__), "hang-in-connected")
"""
)
BLOCKS = (
    HANGS
    + """
@model("painter")
class MyModel(VideoModel):
    def __init__(self, config):
        self.how = ""

    @command("in_step")
    def in_step(self, how: str):
        self.how = how

    @command("in_handler")
    def in_handler(self):
        hang("sleeps")

    def start_session(self):
        self.how = ""
        ctx = get_ctx()
        while not ctx.should_stop():
            if self.how:
                hang(self.how)
            ctx.emit_block(gray(100)[None])
"""
)
LOOP = (
    HANGS
    + """
class MyModel(ReactorModel):
    how = ""

    @event(name="in_step")
    def in_step(self, how: str):
        self.how = how

    @event(name="in_handler")
    async def in_handler(self):
        hang("sleeps")

    async def run(self):
        while True:
            await self.connected.wait()
            if self.how:
                hang(self.how)
            await self.emit(MyOutput(main_video=gray(100)))
"""
)


@pytest.fixture(scope="module", params=[PIPELINE, LOOP, BLOCKS], ids=["pipeline", "loop", "blocks"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    project = write_project(tmp_path_factory.mktemp("model"), request.param)
    with serving(project, *OPTION) as server:
        yield server


@pytest.mark.parametrize("how", ["sleeps", "computes", "holds the lock", "is stopped"])
async def test_a_step_that_hangs_ends_its_session_and_the_model_comes_back(server: RunningServer, how: str) -> None:
    before = len(server.log)
    answers = how in ("sleeps", "computes")
    what = "one step took longer than" if answers else "nothing in it has answered for"
    async with visiting(server.url) as session:
        await session.frame()
        engine = server.engine
        session.notify("in_step", how=how)
        with pytest.raises(SessionEnded, match=f"hung: {what} {STEP_TIMEOUT_S} s") as ended:
            await until_over(session)
        assert ended.value.reason == "model_died"
    gone(engine)
    await is_served(server.url)
    line = {
        "sleeps": "time.sleep(600)",
        "computes": "while True:",
        "holds the lock": "in hang",
        "is stopped": "most recent call first",
    }[how]
    assert line in server.log[before:]


async def test_a_handler_that_hangs_ends_its_session(server: RunningServer) -> None:
    async with visiting(server.url) as session:
        await session.frame()
        with pytest.raises(SessionEnded) as ended:
            await session.send("in_handler")
        assert ended.value.reason == "model_died"
    await is_served(server.url)
    assert "in in_handler" in server.log


async def test_the_log_shows_the_stack_of_the_author_s_code(tmp_path: Path) -> None:
    with serving(write_project(tmp_path, PIPELINE), *OPTION) as server:
        async with visiting(server.url) as session:
            await session.frame()
            (tmp_path / "hang-in-connected").touch()
        async with visiting(server.url) as session:
            with pytest.raises(SessionEnded) as ended:
                await until_over(session)
            assert ended.value.reason == "model_died"
        log = server.log[server.log.index("hung: one step") :]
        first, second = [line.strip() for line in log.splitlines() if line.strip().startswith("File ")][:2]
        assert first.endswith("in hello")
        assert second.endswith("in hang")
        assert "reactor_runtime" not in log.partition("it is started again")[0]
        await is_served(server.url)
        async with visiting(server.url) as session:
            await session.send("at_the_end")
        await is_served(server.url)
        assert server.log.count(f"hung: one step took longer than {STEP_TIMEOUT_S} s. It is here") == 2


async def test_a_slow_model_continues(tmp_path: Path) -> None:
    timeout_s = 5
    with serving(write_project(tmp_path, PIPELINE), "--step-timeout", str(timeout_s)) as server:
        async with visiting(server.url) as session:
            first = await session.frame(after=await session.send("slow"))
            *_, last = await several(session.frames(), 12)
            assert last.pts_s - first.pts_s > timeout_s
        assert "hung" not in server.log


async def test_a_server_and_a_model_that_were_both_stopped_continue(tmp_path: Path) -> None:
    with serving(write_project(tmp_path, PIPELINE), *OPTION) as server:
        async with visiting(server.url) as session:
            await session.frame()
            os.killpg(server.process.pid, signal.SIGSTOP)
            # As long as somebody leaves it: more than the timeout.
            await asyncio.sleep(1.5 * STEP_TIMEOUT_S)
            os.killpg(server.process.pid, signal.SIGCONT)
            await several(session.frames(), 30)
            await session.send("slow")
        assert "hung" not in server.log


async def test_without_a_timeout_nothing_is_ended(tmp_path: Path) -> None:
    with started(write_project(tmp_path, PIPELINE)) as server:
        server.wait_for("ready in")
        async with visiting(server.url) as session:
            session.notify("in_step", how="sleeps")
            await asyncio.to_thread(server.wait_for, "hanging")
            engine = server.engine
        server.wait_for_health("stopping")
        assert server.engine == engine
        server.interrupt()
        assert server.ended() == 0
