"""A pipeline, and an app of 3.x, over two ranks with a process group of gloo, served by `reactor run`."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.distributed.conftest import ranks_start_beside_one_gpu  # noqa: F401  # a fixture for all tests here
from tests.processes import PROC, alive, descendants, gone
from tests.server.client import WireClient, client, controlling
from tests.server.running import RunningServer, serving, started, write_project

pytest.importorskip("torch")

MODEL = """
from reactor_runtime import DistributedRunner
from workers import Painter


class MyState(InputState):
    _task = "paint"


class MyModel(ReactorPipeline):
    state: MyState
    fps = 30

    def load(self, config):
        self.runner = DistributedRunner(Painter, world_size=2, call_timeout=5, load_kwargs={"level": 40})
        self.runner.start()

    def inference(self):
        while True:
            yield self.runner.generate(self.state._task)

    @event(name="do")
    def do(self, task: str):
        self.state._task = task
"""
APP = """
from reactor_runtime import DistributedRunner
from workers import Painter


class AppState(InputState):
    _task = "paint"


class Failed(ModelMessage):
    reason: str


class App(ReactorApp):
    state: AppState
    output: MyOutput
    fps = 30

    def load(self, config_path: Path | None):
        self.runner = DistributedRunner(Painter, world_size=2, call_timeout=5, load_kwargs={"level": 40})
        self.runner.start()

    def generate(self, input):
        return MyOutput(main_video=self.runner.generate(input._task))

    async def process_output(self, outcome):
        if isinstance(outcome.error, ValueError):
            self.state._task = "paint"
            await self.send(Failed(reason=str(outcome.error)))
            return None
        return await super().process_output(outcome)

    @event(name="do")
    def do(self, task: str):
        self.state._task = task
"""
APP_MANIFEST = """
apiVersion: v1
kind: Model
model: {name: ranked}
runtime: {import: "pipeline:App"}
"""
WORKERS = """
import os
import signal
import numpy as np
import torch
from torch import distributed

from reactor_runtime import DistributedWorker


class Painter(DistributedWorker):
    def load(self, level):
        self.level = level + 20 * self.rank
        print("painter", "is", "loaded")

    def generate(self, task):
        if task == "raise":
            raise ValueError("out of paint")
        if task == "desync" and self.rank == 1:
            raise ValueError("out of paint")
        if task == "die" and self.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        total = torch.tensor(self.level)
        distributed.all_reduce(total)
        return np.full((32, 48, 3), int(total), np.uint8)
"""


def write_distributed(directory: Path, *, level: int = 0) -> Path:
    project = write_project(directory, MODEL)
    write_workers(project, level=level)
    return project


def write_workers(project: Path, *, level: int) -> None:
    (project / "workers.py").write_text(WORKERS.replace("int(total)", f"int(total) + {level}"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(write_distributed(tmp_path_factory.mktemp("distributed"))) as server:
        yield server


def ranks(server: RunningServer) -> list[int]:
    """Return the processes of the ranks."""
    return [pid for pid in descendants(server.process.pid) if b"reactor_runtime.distributed" in command_line(pid)]


def command_line(pid: int) -> bytes:
    try:
        return (PROC / str(pid) / "cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def until_replaced(server: RunningServer, before: list[int]) -> None:
    """Wait until other ranks have loaded, and see that the former are gone."""
    for pid in before:
        gone(pid)
    server.until(lambda: len(ranks(server)) == 2 and server.health()[1]["status"] == "ready", "other ranks")


async def paints(server: RunningServer, level: int = 100) -> None:
    async with controlling(server.url) as controller:
        assert (await controller.frame()).level == pytest.approx(level, abs=3)


async def test_frames_are_made_by_all_ranks(server: RunningServer) -> None:
    assert len(ranks(server)) == 2
    await paints(server)
    for rank in (0, 1):
        server.wait_for(rf"info  model: painter is loaded rank={rank}$")


async def test_an_exception_of_all_ranks_ends_the_session_with_their_line(server: RunningServer) -> None:
    before = ranks(server)
    async with controlling(server.url) as controller:
        await controller.send("do", {"task": "raise"})
        code, reason = await controller.closed()
    assert code == 1011
    assert "out of paint" in reason
    line = WORKERS[: WORKERS.index('ValueError("out of paint")')].count("\n") + 1
    assert f"workers.py:{line}" in reason
    server.wait_for_health("ready")
    assert ranks(server) == before
    await paints(server)


@pytest.mark.parametrize(
    ("task", "reason"), [("die", "rank 1 of Painter was killed"), ("desync", "rank 1 raised ValueError")]
)
async def test_a_dead_rank_ends_the_session_and_the_next_one_waits_for_other_ranks(
    server: RunningServer, task: str, reason: str
) -> None:
    before = ranks(server)
    async with controlling(server.url) as controller, client(server.url) as waiting:
        await waiting.data("reactor.queue")
        await controller.send("do", {"task": task})
        code, found = await controller.closed()
        assert code == 1011
        assert reason in found
        await waiting.data("reactor.session", phase="started")
        assert (await waiting.frame()).level == pytest.approx(100, abs=3)
    until_replaced(server, before)


async def test_an_app_handles_an_exception_of_its_ranks_and_starts_again_without_one(tmp_path: Path) -> None:
    project = write_project(tmp_path / "project", "from pathlib import Path\n" + APP)
    write_workers(project, level=0)
    (project / "reactor.yaml").write_text(APP_MANIFEST)
    with serving(project) as server:
        before = ranks(server)
        async with controlling(server.url) as controller:
            await controller.send("do", {"task": "raise"})
            assert await controller.data("failed") == {"reason": "out of paint"}
            assert (await controller.frame()).level == pytest.approx(100, abs=3)
            await controller.send("do", {"task": "die"})
            code, reason = await controller.closed()
        assert code == 1011
        assert "rank 1 of Painter was killed" in reason
        until_replaced(server, before)
        await paints(server)


async def test_a_rank_that_dies_without_a_session_is_replaced(server: RunningServer) -> None:
    server.wait_for_health("ready")
    before = ranks(server)
    os.kill(before[0], signal.SIGKILL)
    until_replaced(server, before)
    server.wait_for("the model can't be served any longer: rank [01] of Painter was killed")
    await paints(server)


@pytest.mark.parametrize("victim", ["engine", "server"])
def test_no_rank_survives_the_engine_or_the_server(tmp_path: Path, victim: str) -> None:
    with started(write_distributed(tmp_path)) as server:
        server.wait_for("ready in")
        before = ranks(server)
        os.kill(server.engine if victim == "engine" else server.process.pid, signal.SIGKILL)
        for pid in before:
            gone(pid)


SLOW_END = """
import atexit
import time
from pathlib import Path

import numpy as np

from reactor_runtime import DistributedWorker


class Painter(DistributedWorker):
    def load(self, level):
        atexit.register(self.end)

    def end(self):
        # Longer than the server waits for a model without ranks.
        time.sleep(2)
        Path(__file__).with_name("ended").touch()

    def generate(self, task):
        return np.full((32, 48, 3), 100, np.uint8)
"""


def test_a_stop_gives_ranks_time_to_end(tmp_path: Path) -> None:
    project = write_distributed(tmp_path)
    (project / "pipeline.py").write_text((project / "pipeline.py").read_text().replace("world_size=2", "world_size=1"))
    (project / "workers.py").write_text(SLOW_END)
    with serving(project):
        pass
    assert (project / "ended").exists()


async def test_a_reload_of_the_workers_starts_the_engine_again(tmp_path: Path) -> None:
    project = write_distributed(tmp_path)
    with serving(project, "--reload") as server:
        before = ranks(server)
        async with controlling(server.url) as controller:
            assert (await controller.frame()).level == pytest.approx(100, abs=3)
            # The ranks go on with a change of the model that does not concern them.
            text = (project / "pipeline.py").read_text()
            (project / "pipeline.py").write_text(text.replace("yield self", "yield 20 + self"))
            await until_level(controller, 120)
            assert ranks(server) == before
            write_workers(project, level=50)
            code, reason = await controller.closed()
        assert (code, reason) == (1001, "the model starts again with new code")
        until_replaced(server, before)
        await paints(server, 170)
        await dies_with_reload(server)


async def dies_with_reload(server: RunningServer) -> None:
    """See that a dead rank ends a session that `--reload` would keep."""
    before = ranks(server)
    async with controlling(server.url) as controller:
        await controller.send("do", {"task": "die"})
        assert (await controller.closed())[0] == 1011
    until_replaced(server, before)
    await paints(server, 170)
    assert all(alive(pid) for pid in ranks(server))


async def until_level(client: WireClient, level: int) -> None:
    while abs((await client.frame()).level - level) > 3:
        pass
