"""The block style under `reactor run`: clients one after the other, and those that vanish at any moment."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

from tests.processes import threads
from tests.server.client import WireClient, client, controlling
from tests.server.running import RunningServer, serving, started, write_project
from tests.timeouts import TIMEOUT_S

MODEL = """
HELD = os.path.join(os.path.dirname(__file__), "held")


@model("Painter 2")
class MyModel(VideoModel):
    def __init__(self, config):
        self.sessions = 0
        self.level = config.get("level", 100)

    @command("set_level", description="How bright it is")
    def set_level(self, level: int = InputField(ge=0, le=255)):
        self.level = level

    @command("do")
    def do(self, what: str):
        self.what = what

    @command("rest")
    def rest(self, seconds: float):
        print("resting", flush=True)
        time.sleep(seconds)
        while os.path.exists(HELD):
            time.sleep(0.01)
        print("rested", flush=True)

    @command("refuse")
    def refuse(self):
        raise CommandError("full", "no more")

    @command("fail")
    def fail(self):
        raise KeyError("broken")

    def start_session(self):
        self.what = ""
        self.sessions += 1
        ctx = get_ctx()
        assert not ctx.should_stop()
        try:
            ctx.send({"type": "hello", "data": {"sessions": self.sessions}})
            while not ctx.should_stop():
                if self.what == "raise":
                    raise RuntimeError("out of ideas")
                if self.what == "return":
                    return
                if self.what == "exit":
                    sys.exit(3)
                if self.what == "wait":
                    ctx.disable_monitoring()
                    time.sleep(0.01)
                    continue
                ctx.emit_block(np.stack([gray(self.level)] * 12))
        finally:
            if self.what == "linger":
                print("lingering", flush=True)
                time.sleep(1.0)
                while os.path.exists(HELD):
                    time.sleep(0.01)
            self.level = 100
            print(f"over {self.sessions}", flush=True)
"""


@pytest.fixture(autouse=True)
def _settled(server: RunningServer) -> None:
    server.until(lambda: server.health()[1]["status"] in ("ready", "failed"), "free model")


def sessions_over(server: RunningServer) -> int:
    return len(re.findall(r"^over", server.log, re.MULTILINE))


async def rest(server: RunningServer, controller: WireClient, seconds: float) -> None:
    """Send the command, and return when the model rests."""
    before = server.log.count("resting")
    await controller.send("rest", {"seconds": seconds}, id=1)
    server.until(lambda: server.log.count("resting") > before, "rest")


async def test_three_clients_in_a_row_each_get_a_session_of_their_own(server: RunningServer) -> None:
    before = threads(server.engine)
    for _ in range(3):
        over = sessions_over(server)
        async with controlling(server.url) as controller:
            first = await controller.frame()
            assert (abs(first.level - 100) < 3, first.header.seq <= 12) == (True, True)
            assert (await controller.ask("set_level", {"level": 200}))["type"] == "reactor.reply"
            frame = await controller.frame(applied=1)
            assert abs(frame.level - 200) < 3
            hello = [text["data"]["sessions"] for text in controller.texts if text["type"] == "hello"]
            assert len(hello) == 1
        server.wait_for_health("ready")
        assert sessions_over(server) == over + 1
        server.until(lambda: threads(server.engine) == before, f"{before} threads")


async def test_blocks_play_evenly(server: RunningServer) -> None:
    async with asyncio.timeout(TIMEOUT_S), controlling(server.url) as controller:
        at_us, even = (await controller.frame()).header.pts_us, 0
        # A busy machine may be late meanwhile.
        while even < 20:
            before_us, at_us = at_us, (await controller.frame()).header.pts_us
            even = even + 1 if 16_000 < at_us - before_us < 18_000 else 0


async def test_commands_answer_as_events_do(server: RunningServer) -> None:
    async with controlling(server.url) as controller:
        assert "set_level" in (controller.texts[0]["data"]["schema"]["events"])
        wrong = (await controller.ask("set_level", {"level": 300}))["data"]
        assert (wrong["code"], wrong["fields"][0]["path"]) == ("invalid_event", "set_level.level")
        assert (await controller.ask("refuse"))["data"]["code"] == "full"
        assert (await controller.ask("fail"))["data"]["code"] == "internal_error"
        assert (await controller.ask("nothing"))["data"]["code"] == "unknown_event"
        await controller.frame()
    server.wait_for("KeyError: 'broken'")


async def test_a_command_that_takes_long_delays_no_frame_and_the_next_command_waits(server: RunningServer) -> None:
    held = server.output.parent / "held"
    held.touch()
    async with controlling(server.url) as controller:
        try:
            await rest(server, controller, 0.0)
            await controller.send("set_level", {"level": 9}, id=2)
            await controller.send("reactor.ping", {"t": 1})
            await controller.message("reactor.pong")
            # More than were made before.
            for _ in range(60):
                await controller.frame()
            assert "reactor.reply" not in [text["type"] for text in controller.texts]
        finally:
            held.unlink()
        assert [(await controller.message("reactor.reply"))["id"] for _ in range(2)] == [1, 2]


@pytest.mark.parametrize("point", ["start", "emit_block", "command", "finally"])
async def test_a_client_that_vanishes_at_any_moment_leaves_nothing(server: RunningServer, point: str) -> None:
    async with client(server.url) as controller, client(server.url) as waiting:
        if point != "start":
            await controller.frame()
        if point == "command":
            await rest(server, controller, 0.3)
        if point == "finally":
            await controller.ask("do", {"what": "linger"})
        await waiting.data("reactor.queue")
        over = sessions_over(server)
        controller.socket.transport.abort()
        await waiting.data("reactor.session", phase="started")
        assert sessions_over(server) >= over + (point != "start")
        frame = await waiting.frame()
        assert (abs(frame.level - 100) < 3, frame.header.applied, frame.header.seq <= 12) == (True, 0, True)


async def test_a_session_that_raises_tells_its_client_why_and_the_next_is_served(server: RunningServer) -> None:
    for what, words in (("raise", "RuntimeError: out of ideas"), ("exit", "the model called sys.exit(3)")):
        async with controlling(server.url) as controller:
            await controller.send("do", {"what": what})
            assert words in (await controller.data("reactor.error"))["message"]
            assert (await controller.data("reactor.session", phase="ended"))["reason"] == "model_error"
            assert (await controller.closed())[0] == 1011
    assert 'raise RuntimeError("out of ideas")' in server.log
    async with controlling(server.url) as controller:
        await controller.frame()


async def test_a_session_that_returns_is_finished_and_no_failure(server: RunningServer) -> None:
    async with controlling(server.url) as controller:
        await controller.frame()
        await controller.ask("do", {"what": "return"})
        assert (await controller.data("reactor.session", phase="ended"))["reason"] == "finished"
        assert (await controller.closed())[0] == 1000
        assert not [text for text in controller.texts if text["type"] == "reactor.error"]
    server.wait_for_health("ready")


async def test_a_session_that_is_slow_to_stop_holds_the_health_at_stopping_and_nobody_else(
    server: RunningServer,
) -> None:
    held = server.output.parent / "held"
    held.touch()
    async with controlling(server.url) as controller:
        lingering = server.log.count("lingering")
        await controller.ask("do", {"what": "linger"})
    try:
        server.until(lambda: server.log.count("lingering") > lingering, "lingering session")
        status, health = server.health()
    finally:
        held.unlink()
    assert (status, health["status"]) == (503, "stopping")
    async with controlling(server.url) as controller:
        await controller.frame()


async def test_the_page_that_pauses_is_served_its_last_frame(server: RunningServer) -> None:
    async with controlling(server.url) as controller:
        await controller.frame()
        await controller.ask("do", {"what": "wait"})
        async with client(server.url, role="viewer") as viewer:
            assert abs((await viewer.frame()).level - 100) < 3


IGNORING = """
class MyModel(VideoModel):
    def start_session(self):
        get_ctx().emit_block(gray(100))
        while True:
            time.sleep(0.01)
"""


@pytest.mark.parametrize(("program", "over"), [(MODEL, 1), (IGNORING, 0)], ids=["that stops", "that ignores it"])
def test_a_project_is_stopped_while_a_session_runs(tmp_path: Path, program: str, over: int) -> None:
    async def watch(running: RunningServer) -> None:
        async with controlling(running.url) as controller:
            await controller.frame()
            running.interrupt()
            assert (await controller.data("reactor.session", phase="ended"))["reason"] == "server_stopping"

    with started(write_project(tmp_path, program), stop_s=TIMEOUT_S if over else None) as running:
        running.wait_for("ready in")
        asyncio.run(watch(running))
        assert running.ended() == 0
        assert sessions_over(running) == over


def test_a_model_is_called_what_its_decorator_says_where_the_manifest_gives_no_name(
    server: RunningServer, tmp_path: Path
) -> None:
    assert server.health()[1]["model"] == "my-model"
    with serving(write_project(tmp_path, MODEL, reactor_yaml="model: pipeline:MyModel\n")) as unnamed:
        assert unnamed.health()[1]["model"] == "Painter 2"
        assert json.loads(unnamed.get("/schema")[1])["info"]["title"] == "Painter 2"
