"""Two engines under one server, as people run it: each is loaded, used, killed and stopped beside the other."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from reactor_runtime.client import Phase, connect
from tests.processes import engines_of, gone
from tests.server.client import WireClient, client, controlling
from tests.server.running import RunningServer, listening, started, write_project
from tests.server.session_client import level, visiting
from tests.timeouts import TIMEOUT_S

MODEL = """
import logging

logger = logging.getLogger("mine")


class MyState(InputState):
    level: int = InputField(default=0, ge=0, le=255)


class MyModel(ReactorPipeline):
    state: MyState
    fps = 30

    def load(self, config):
        began = time.monotonic()
        time.sleep(config.get("load_s", 0.0))
        first, go = (os.path.join(os.path.dirname(__file__), name) for name in ("first", "go"))
        if config.get("waits") and os.path.exists(first):
            while not os.path.exists(go):
                time.sleep(0.01)
        open(first, "w").close()
        logger.warning("loaded pid=%d began=%f ended=%f", os.getpid(), began, time.monotonic())

    def inference(self):
        while True:
            yield gray(self.state.level)

    @event(name="whoami")
    def whoami(self):
        raise CommandError("whoami", f"pid {os.getpid()}")

    @event(name="take")
    def take(self, file: UploadedFile):
        raise CommandError("took", f"{file.size_bytes} bytes")
"""
STARTED = """
print("imported", flush=True)
"""
LOADED = re.compile(r"engine (\d): mine: loaded pid=(\d+) began=([\d.]+) ended=([\d.]+)")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with listening(write_project(tmp_path_factory.mktemp("sessions"), MODEL), "--sessions", "2") as server:
        server.wait_for("ready 2 of 2 in")
        yield server
        server.stop()


@pytest.fixture(autouse=True)
def _settled(server: RunningServer) -> None:
    server.until(lambda: all(each["status"] == "ready" for each in server.health()[1]["engines"]), "both ready")


async def pid_of(controller: WireClient) -> int:
    """Ask the process of a session for its id."""
    refusal = await controller.ask("whoami")
    return int(refusal["data"]["message"].removeprefix("pid "))


async def test_two_controllers_have_a_model_each(server: RunningServer) -> None:
    async with controlling(server.url) as first, controlling(server.url) as second:
        for controller, wanted in ((first, 50), (second, 200)):
            await controller.ask("set_level", {"level": wanted})
        for controller, wanted in ((first, 50), (second, 200)):
            assert abs((await controller.frame(applied=1)).level - wanted) < 3
        assert {await pid_of(first), await pid_of(second)} == set(engines_of(server.process.pid))
        async with client(server.url) as third:
            await third.message("reactor.queue", position=1)
            await second.socket.close()
            await third.message("reactor.welcome", role="controller")


async def test_a_viewer_watches_the_session_it_names_and_then_the_other(server: RunningServer) -> None:
    async with controlling(server.url) as first, client(server.url) as second:
        await first.ask("set_level", {"level": 50})
        session = (await second.message("reactor.welcome"))["data"]["session"]
        await second.ask("set_level", {"level": 200})
        await second.frame(applied=1)
        async with client(server.url, role="viewer", session=session) as viewer:
            assert abs((await viewer.frame(applied=1)).level - 200) < 3
            status, _ = await asyncio.to_thread(server.get, f"/snapshot/main_video.jpg?session={session}x")
            assert status == 404
            await second.socket.close()
            await viewer.message("reactor.session", phase="ended")
            welcome = await viewer.message("reactor.welcome", role="viewer")
            assert welcome["data"]["state"] == {"level": 50}
            assert abs((await viewer.frame(applied=1)).level - 50) < 3


async def test_our_viewer_sees_the_session_it_names_and_after_it_the_other(server: RunningServer) -> None:
    async with asyncio.timeout(TIMEOUT_S), visiting(server.url) as first, visiting(server.url) as second:
        dark, bright = await first.send("set_level", level=50), await second.send("set_level", level=200)
        async with connect(server.url, role="viewer", session=second.id) as viewer:
            assert viewer.id == second.id
            assert level(await viewer.frame(after=bright)) == pytest.approx(200, abs=3)
            await second.aclose()
            async for status in viewer.statuses():
                if status.session == first.id:
                    break
            assert level(await viewer.frame(after=dark)) == pytest.approx(50, abs=3)
            assert viewer.state == {"level": 50}


async def test_who_waits_in_line_may_watch_and_then_has_a_session_of_its_own(server: RunningServer) -> None:
    async with (
        visiting(server.url) as first,
        visiting(server.url),
        connect(server.url, watch=True, wait=False) as third,
    ):
        reply = await first.send("set_level", level=250)
        assert level(await third.frame(after=reply)) == pytest.approx(250, abs=3)
        assert (third.status.phase, third.status.position, third.id) == (Phase.WAITING, 1, first.id)
        sending = asyncio.create_task(third.send("set_level", level=30))
        watched = first.id
        await first.aclose()
        reply = await sending  # it has waited for the turn
        assert reply.n == 1
        assert third.id != watched
        assert (third.role, third.state) == ("controller", {"level": 30})
        assert level(await third.frame(after=reply)) == pytest.approx(30, abs=3)


async def test_a_file_belongs_to_the_session_whose_key_it_came_with(server: RunningServer) -> None:
    async with client(server.url) as first, client(server.url) as second:
        keys = [(await each.message("reactor.welcome"))["data"]["upload_key"] for each in (first, second)]
        for key, mine, other in ((keys[0], first, second), (keys[1], second, first)):
            address = f"http://127.0.0.1:{server.port}/uploads?key={key}"
            request = urllib.request.Request(address, data=b"mine", headers={"Content-Type": "image/png"})
            with await asyncio.to_thread(urllib.request.urlopen, request, timeout=TIMEOUT_S) as response:
                file = json.loads(response.read())
            assert (await mine.ask("take", {"file": file}))["data"]["message"] == "4 bytes"
            assert (await other.ask("take", {"file": file}))["data"]["code"] == "unresolved_upload"


async def test_killing_an_engine_leaves_the_other_session_undisturbed(server: RunningServer) -> None:
    async with controlling(server.url) as first, controlling(server.url) as second:
        await first.frame()
        os.kill(await pid_of(second), signal.SIGKILL)
        code, _ = await second.closed()
        assert code == 1011
        before = first.frames
        await first.ask("set_level", {"level": 77})
        assert abs((await first.frame(applied=1)).level - 77) < 3
        assert [message["data"]["phase"] for message in first.texts if message["type"] == "reactor.session"] == [
            "started"
        ]
        async with controlling(server.url) as again:
            await again.frame()
        while first.frames < before + 10:
            await first.frame()
    assert re.search(r"engine [12]: the model's process was killed", server.log)


def test_each_is_loaded_after_the_other_and_serves_as_soon_as_it_is(tmp_path: Path) -> None:
    project = write_project(tmp_path, MODEL)
    with listening(project, "--sessions", "2", "--set", "load_s=0.6", "--set", "waits=true") as server:
        server.wait_for("ready 1 of 2 in")
        assert server.health()[1]["status"] == "ready"
        assert "ready 2 of 2" not in server.log
        assert [each["status"] for each in server.health()[1]["engines"]] == ["ready", "loading"]
        (project / "go").touch()
        server.wait_for("ready 2 of 2 in")
        (first, _, _, ended), (second, _, began, _) = LOADED.findall(server.log)
        assert (first, second) == ("1", "2")
        assert float(began) >= float(ended)
        for engine in engines_of(server.process.pid):
            os.kill(engine, signal.SIGKILL)
        server.until(lambda: len(LOADED.findall(server.log)) == 4, "both loaded again")
        (*_, ended), (_, _, began, _) = LOADED.findall(server.log)[2:]
        assert float(began) >= float(ended)
        server.stop()


async def test_draining_waits_for_every_session(tmp_path: Path) -> None:
    arguments = ("--sessions", "2", "--drain-timeout", "600")
    with listening(write_project(tmp_path, MODEL), *arguments) as server:
        server.wait_for("ready 2 of 2 in")
        async with controlling(server.url) as first:
            async with controlling(server.url) as second:
                server.process.send_signal(signal.SIGTERM)
                for each in (first, second):
                    await each.message("reactor.session", phase="stopping")
            await asyncio.to_thread(server.wait_for, "session ended")
            assert server.process.poll() is None
            await first.frame()
        assert await asyncio.to_thread(server.ended) == 0, server.log


async def test_an_engine_that_dies_while_the_server_drains_is_not_started_again(tmp_path: Path) -> None:
    arguments = ("--sessions", "2", "--drain-timeout", "600")
    with listening(write_project(tmp_path, MODEL), *arguments) as server:
        server.wait_for("ready 2 of 2 in")
        async with controlling(server.url) as first:
            await first.frame()
            server.process.send_signal(signal.SIGTERM)
            await first.message("reactor.session", phase="stopping")
            async with client(server.url, role="viewer") as late:
                assert (await late.closed())[0] == 1001
            died = engines_of(server.process.pid)[0]
            os.kill(died, signal.SIGKILL)
            await asyncio.to_thread(server.wait_for, "the model's process was killed")
        assert await asyncio.to_thread(server.ended) == 0, server.log
    assert len(LOADED.findall(server.log)) == 2
    assert "started again" not in server.log


def test_stopping_while_one_loads_and_another_waits_leaves_nothing(tmp_path: Path) -> None:
    with started(write_project(tmp_path, MODEL + STARTED), "--sessions", "3", "--set", "load_s=600") as server:
        server.wait_for("imported")
        server.stop()
        assert server.log.count("imported") == 1


def test_no_engine_outlives_the_server(tmp_path: Path) -> None:
    with listening(write_project(tmp_path, MODEL), "--sessions", "2") as server:
        server.wait_for("ready 2 of 2 in")
        engines = engines_of(server.process.pid)
        server.process.kill()
        assert len(engines) == 2
        for engine in engines:
            gone(engine)


def test_a_class_that_is_wrong_is_said_once(tmp_path: Path) -> None:
    with started(write_project(tmp_path, "import nothing_of_that_name\n"), "--sessions", "2") as server:
        assert server.ended() == 2
        assert server.log.count("importing pipeline failed") == 1


def test_json_lines_name_the_engine(tmp_path: Path) -> None:
    with started(write_project(tmp_path, MODEL), "--sessions", "2", "--log-format", "json") as server:
        server.wait_for("ready 2 of 2 in")
        server.until(lambda: server.log.count('"mine"') == 2, "what both engines have logged")
        lines = [json.loads(line) for line in server.log.splitlines()]
        assert [line["engine"] for line in lines if line["logger"] == "mine"] == ["1", "2"]
        os.kill(engines_of(server.process.pid)[0], signal.SIGKILL)
        server.wait_for("started again")
        server.until(lambda: server.log.count("ready 2 of 2") == 2, "engine that is ready again")
        lost = [json.loads(line) for line in server.log.splitlines() if "started again" in line]
        assert lost[0]["engine"] in ("1", "2")
        server.stop()
