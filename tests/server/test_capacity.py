"""Admission by what is measured: sessions share a loaded model while their steps fit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import reactor
from tests.server.client import client, controlling
from tests.server.running import RunningServer, serving, write_project
from tests.server.session_client import visiting

# A step takes 23 ms of 100 ms, and may take 30 on a busy machine: three sessions fit, and leave a tenth.
MODEL = """
class MyState(InputState):
    step_ms: int = 23


class MyModel(ReactorPipeline):
    state: MyState
    fps = 10
    sessions_per_model = 6

    def inference(self):
        while True:
            time.sleep(self.state.step_ms / 1000)
            yield gray(100)
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    with serving(write_project(tmp_path, MODEL)) as server:
        yield server


async def test_a_controller_waits_while_the_steps_of_another_session_would_not_fit(server: RunningServer) -> None:
    async with visiting(server.url) as first, visiting(server.url) as second, visiting(server.url) as third:
        for session in (first, second, third):
            await session.frame()
        # Until all three are measured, the reason is another one.
        server.until(lambda: "a step takes " in server.get("/ready")[1], "the limit")
        async with client(server.url) as fourth:
            queued = await fourth.message("reactor.queue", position=1)
            assert "a step takes " in queued["data"]["reason"]
            health = server.health()[1]
            assert health["fitting"] == 3
            status, text = server.get("/ready")
            assert status == 200
            assert text.startswith("ready\n3 of 6 sessions fit: a step takes ")
            assert "reactor_sessions_fitting 3.0" in server.get("/metrics")[1]
            shown = reactor("status", f"http://127.0.0.1:{server.port}", cwd=server.output.parent)
            assert "3 fit: a step takes " in shown.out
            await third.aclose()
            await fourth.message("reactor.welcome", role="controller")


async def test_shorter_steps_make_room_for_those_that_wait(tmp_path: Path) -> None:
    with serving(write_project(tmp_path, MODEL.replace("step_ms: int = 23", "step_ms: int = 80"))) as server:
        async with controlling(server.url) as first, client(server.url) as second:
            queued = await second.message("reactor.queue", position=1)
            assert queued["data"]["reason"]
            await first.ask("set_step_ms", {"step_ms": 10})
            await second.message("reactor.welcome", role="controller")
        server.until(lambda: server.health()[1]["limit"] == "", "room")
