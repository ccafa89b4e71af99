"""Turns over real sockets, and watching from the wait queue."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.client import client, controlling
from tests.server.pauses import vanish
from tests.server.running import RunningServer, serving, write_project

MODEL = """
class Level(InputState):
    level: int = InputField(default=100, ge=0, le=255)


class Filler(ModelMessage):
    text: str


class MyModel(ReactorPipeline):
    state: Level
    fps = 60

    @event(name="flood")
    async def flood(self, client: ClientInfo):
        for _ in range(2000):
            await client.send(Filler(text=10_000 * "x"))

    def inference(self):
        while True:
            yield MyOutput(main_video=gray(self.state.level))
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_project(tmp_path_factory.mktemp("turns"), MODEL)


@pytest.fixture(scope="module")
def server(project: Path) -> Iterator[RunningServer]:
    with serving(project) as server:
        yield server


async def test_a_waiting_client_sees_the_running_session_and_then_its_own_from_the_start(server: RunningServer) -> None:
    async with controlling(server.url) as first, client(server.url, watch="1") as second:
        await second.data("reactor.welcome", role="viewer")
        n = (await first.ask("set_level", {"level": 250}))["data"]["n"]
        assert abs((await second.frame(applied=n)).level - 250) < 3
        assert (await second.ask("set_level", {"level": 0}))["data"]["code"] == "not_controller"
        await first.socket.close()
        welcome = await second.data("reactor.welcome", role="controller")
        frame = await second.frame()
    assert welcome["state"] == {"level": 100}
    assert (frame.header.seq, frame.header.applied) == (0, 0)
    assert abs(frame.level - 100) < 3


async def test_turns_change_by_themselves_in_the_order_of_the_queue(project: Path) -> None:
    with serving(project, "--max-session", "0.8s") as server:
        async with client(server.url) as first, client(server.url) as second, client(server.url) as third:
            await third.data("reactor.queue")
            for turn in (first, second):
                await turn.data("reactor.session", phase="started")
                assert (await turn.data("reactor.session", phase="ending"))["seconds"] <= 0.8
                ended = await turn.data("reactor.session", phase="ended")
                assert ended["reason"] == "turn_over"
                assert await turn.closed() == (1000, "the turn is over: others wait")
            await third.data("reactor.session", phase="started")
            assert (await third.ask("set_level", {"level": 1}))["type"] == "reactor.reply"


async def test_a_silent_controller_is_asked_and_released(project: Path) -> None:
    with serving(project, "--idle-timeout", "5s") as server:
        async with client(server.url) as controller:
            assert (await controller.data("reactor.session", phase="idle"))["seconds"] == 5
            await controller.send("reactor.here")
            await controller.data("reactor.session", phase="idle", seconds=None)
            await controller.data("reactor.session", phase="idle", seconds=5)
            assert (await controller.data("reactor.session", phase="ended"))["reason"] == "idle"
            assert (await controller.closed())[0] == 1000


async def test_a_controller_resumes_its_session_after_a_break(project: Path) -> None:
    with serving(project, "--resume-grace", "30") as server:
        async with client(server.url, role="viewer") as viewer, client(server.url) as controller:
            welcome = await controller.data("reactor.welcome")
            n = (await controller.ask("set_level", {"level": 250}))["data"]["n"]
            seq = (await controller.frame(applied=n)).header.seq
            await vanish(controller)
            await viewer.data("reactor.session", phase="away", seconds=30.0)
            async with client(server.url, resume=welcome["resume"]) as back:
                again = await back.data("reactor.welcome")
                assert (again["session"], again["state"]) == (welcome["session"], {"level": 250})
                held = await back.frame()
                assert (held.header.flags & 2, held.header.applied) == (2, n)
                assert abs(held.level - 250) < 3
                assert (await back.frame()).header.seq > held.header.seq >= seq
                assert (await back.ask("set_level", {"level": 100}))["data"]["n"] == n + 1
                await viewer.data("reactor.session", phase="resumed")
            await viewer.data("reactor.session", phase="ended", reason="left")  # it said goodbye: nothing is waited for


async def test_a_controller_that_was_dropped_because_it_read_nothing_may_resume(project: Path) -> None:
    with serving(project, "--resume-grace", "30") as server:
        async with client(server.url, role="viewer") as viewer, client(server.url) as controller:
            welcome = await controller.data("reactor.welcome")
            await viewer.data("reactor.session", phase="started")
            controller.socket.transport.pause_reading()
            await controller.send("flood")
            assert (await viewer.data("reactor.session"))["phase"] == "away"
            await vanish(controller)
            async with client(server.url, resume=welcome["resume"]) as back:
                assert (await back.data("reactor.welcome"))["session"] == welcome["session"]


async def test_the_model_pauses_while_its_controller_is_away_until_the_grace_is_over(project: Path) -> None:
    with serving(project, "--resume-grace", "2s") as server:
        async with client(server.url, role="viewer") as viewer, client(server.url) as controller:
            await controller.data("reactor.welcome")
            await vanish(controller)
            await viewer.data("reactor.session", phase="away")
            async with client(server.url) as waiting:
                frames = viewer.frames
                await viewer.data("reactor.session", phase="ended", reason="left")
                assert viewer.frames - frames < 60, "fewer than half of those of two seconds"
                await waiting.data("reactor.session", phase="started")
