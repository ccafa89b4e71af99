"""`sessions_per_model`: several sessions in one process and on one loaded model, as people run it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from reactor_runtime.client import SessionEnded, connect
from reactor_runtime.recording.file import read_recording
from tests.cli.command import reactor
from tests.processes import engines_of
from tests.server.client import client
from tests.server.running import RunningServer, listening, serving, write_project
from tests.server.session_client import until_over, visiting

MODEL = """
import random


class MyState(InputState):
    level: int = InputField(default=0, ge=0, le=255)
    image: UploadedFile | None = None


class MyModel(ReactorPipeline):
    state: MyState
    fps = 30
    sessions_per_model = 4
    warmup = 1

    def load(self, config):
        print("loaded", flush=True)
        self.total = 0

    @event(name="add")
    def add(self, by: int):
        self.total += by

    @event(name="whoami")
    def whoami(self):
        image = 0 if self.state.image is None else len(self.state.image.read())
        raise CommandError("whoami", f"pid {os.getpid()} total {self.total} image {image}")

    @event(name="fail")
    def fail(self):
        self.total = None

    @event(name="die")
    def die(self):
        os._exit(9)

    def inference(self):
        while True:
            noise = random.randrange(2)
            frame = gray(self.state.level)
            frame[:16] = (self.total + noise) % 256
            yield frame
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(write_project(tmp_path_factory.mktemp("shared"), MODEL), "--resume-grace", "30s") as server:
        yield server


@pytest.fixture(autouse=True)
def _settled(server: RunningServer) -> None:
    server.until(lambda: [each["status"] for each in server.health()[1]["engines"]] == ["ready"] * 4, "all ready")


async def test_four_controllers_share_a_process_and_see_their_own_frames(server: RunningServer) -> None:
    assert re.search(r"ready in [\d.]+ s, for 4 sessions", server.log)
    async with (
        visiting(server.url) as a,
        visiting(server.url) as b,
        visiting(server.url) as c,
        visiting(server.url) as d,
    ):
        chance = random.Random(4)
        for _ in range(10):
            for session in (a, b, c, d):
                level, by = chance.randrange(256), chance.randrange(9)
                await session.send("add", by=by)
                frame = await session.frame(after=await session.send("set_level", level=level))
                assert abs(frame.array[20:].mean() - level) < 3
        answers = []
        for session in (a, b, c, d):
            with pytest.raises(Exception, match="pid") as raised:
                await session.send("whoami")
            answers.append(str(raised.value))
        assert len({re.sub(r" total .*", "", answer) for answer in answers}) == 1
        assert len(engines_of(server.process.pid)) == 1
        async with client(server.url) as fifth:
            await fifth.message("reactor.queue", position=1)
            await a.aclose()
            await fifth.message("reactor.welcome", role="controller")
    assert server.log.count("loaded") == 1


async def test_uploads_reach_the_session_whose_client_has_sent_them(server: RunningServer) -> None:
    async with visiting(server.url) as first, visiting(server.url) as second:
        for session, size in ((first, 100), (second, 7000)):
            await session.send("set_image", image=await session.upload(b"x" * size, name="image.bin"))
        for session, size in ((first, 100), (second, 7000)):
            with pytest.raises(Exception, match=f"total 0 image {size}$"):
                await session.send("whoami")


async def test_an_exception_ends_the_session_that_raised_it(server: RunningServer) -> None:
    async with visiting(server.url) as failing, visiting(server.url) as other:
        await other.send("set_level", level=90)
        await failing.send("fail")
        with pytest.raises(SessionEnded, match="unsupported operand"):
            await until_over(failing)
        frame = await other.frame(after=await other.send("set_level", level=100))
        assert abs(frame.array[20:].mean() - 100) < 3


async def test_a_controller_that_lost_its_connection_finds_its_own_session(server: RunningServer) -> None:
    async with visiting(server.url) as other, client(server.url) as lost:
        await other.send("set_level", level=10)
        secret = (await lost.message("reactor.welcome"))["data"]["resume"]
        await lost.ask("set_level", {"level": 200})
        lost.socket.transport.abort()
        async with client(server.url, resume=secret) as back:
            welcome = await back.message("reactor.welcome", role="controller")
            assert welcome["data"]["state"]["level"] == 200
            await back.ask("add", {"by": 1})
            # The upper half shows the total.
            assert abs((await back.frame(applied=2)).level - 100) < 3


async def test_a_crash_ends_all_sessions_and_the_model_is_loaded_again(server: RunningServer) -> None:
    before = server.log.count("loaded")
    async with visiting(server.url) as first, visiting(server.url) as second:
        await second.frame()
        first.notify("die")
        for session in (first, second):
            with pytest.raises(SessionEnded, match="the model's process exited with code 9"):
                await until_over(session)
    server.until(lambda: server.log.count("loaded") == before + 1, "another load")
    server.until(lambda: server.health()[1]["status"] == "ready", "ready again")
    async with visiting(server.url) as again:
        await again.frame()


async def test_a_killed_process_leaves_no_slot_behind(server: RunningServer) -> None:
    async with visiting(server.url) as session:
        await session.frame()
        os.kill(server.engine, signal.SIGKILL)
        with pytest.raises(SessionEnded):
            await until_over(session)
    server.until(lambda: server.health()[1]["status"] == "ready", "ready again")
    assert len(server.health()[1]["engines"]) == 4


def test_the_metrics_and_the_health_have_a_row_for_each_session_and_the_memory_once(server: RunningServer) -> None:
    health = server.health()[1]
    assert [each["number"] for each in health["engines"]] == [1, 2, 3, 4]
    assert [each["memory_bytes"] is None for each in health["engines"]] == [False, True, True, True]
    assert 'reactor_engine_state{engine="4",state="ready"} 1.0' in server.get("/metrics")[1]
    shown = reactor("status", f"http://127.0.0.1:{server.port}", cwd=server.output.parent)
    assert "0 of 4 sessions" in shown.out


async def test_recordings_of_concurrent_sessions_replay_bit_for_bit(tmp_path: Path) -> None:
    project = write_project(tmp_path, MODEL)
    with serving(project, "--sessions-per-model", "2", "--record", str(project / "sessions")) as server:
        async with visiting(server.url) as first, visiting(server.url) as second:
            for number in range(10):
                for session in (first, second):
                    await session.frame(after=await session.send("set_level", level=20 * number + (session is first)))
    files = sorted((project / "sessions").iterdir())
    assert len(files) == 2
    for file in files:
        assert len(read_recording(file).outputs) >= 10
        replayed = reactor("replay", str(file), cwd=project)
        assert replayed.code == 0, replayed.out + replayed.err


async def test_a_save_starts_the_model_again_and_all_sessions_get_the_new_code(tmp_path: Path) -> None:
    project = write_project(tmp_path, MODEL)
    with serving(project, "--reload") as server:
        async with visiting(server.url) as first, visiting(server.url) as second:
            await asyncio.gather(first.frame(), second.frame())
            text = (project / "pipeline.py").read_text()
            (project / "pipeline.py").write_text(text.replace("gray(self.state.level)", "gray(250)"))
            for session in (first, second):
                with pytest.raises(SessionEnded, match="the model starts again with new code"):
                    await until_over(session)
        server.until(lambda: server.health()[1]["status"] == "ready", "ready again")
        async with visiting(server.url) as first, visiting(server.url) as second:
            for session in (first, second):
                assert abs((await session.frame()).array[20:].mean() - 250) < 3
        assert "reload restarting: several sessions share the loaded model" in server.log


LOOP = """
class MyState(InputState):
    level: int = InputField(default=0, ge=0, le=255)


class MyModel(ReactorModel):
    state: MyState
    output: MyOutput
    sessions_per_model = 2

    async def run(self):
        while True:
            await self.connected.wait()
            await self.emit(gray(self.state.level))
"""
BLOCKS = """
class MyState(InputState):
    level: int = InputField(default=0, ge=0, le=255)


class MyModel(VideoModel):
    state: MyState
    sessions_per_model = 2

    def start_session(self):
        while not get_ctx().should_stop():
            get_ctx().emit_block(np.stack([gray(self.state.level)] * 2))
"""
AWAITING = """
class MyState(InputState):
    level: int = InputField(default=0, ge=0, le=255)


class MyModel(ReactorPipeline):
    state: MyState
    sessions_per_model = 2

    async def inference(self):
        while True:
            await asyncio.sleep(0.01)
            yield gray(self.state.level)
"""
BATCH = """
class MyState(InputState):
    level: int = InputField(default=0, ge=0, le=255)


class MyModel(ReactorPipeline):
    state: MyState
    fps = 30
    sessions_per_model = 2

    def batch(self, sessions):
        while True:
            yield [gray(each.state.level) for each in sessions]
"""


@pytest.mark.parametrize("model", [LOOP, BLOCKS, AWAITING, BATCH], ids=["loop", "blocks", "async", "batch"])
async def test_sessions_of_every_style_share_a_process(model: str, tmp_path: Path) -> None:
    with serving(write_project(tmp_path, model)) as server:
        async with visiting(server.url) as first, visiting(server.url) as second:
            for level in (50, 200):
                for session, wanted in ((first, level), (second, 250 - level)):
                    frame = await session.frame(after=await session.send("set_level", level=wanted))
                    assert abs(frame.array.mean() - wanted) < 3
            assert len(engines_of(server.process.pid)) == 1


SEATS = """
class World(InputState):
    pass


class Player(InputState):
    level: int = InputField(default=0, ge=0, le=255)


class MyModel(ReactorPipeline):
    state: World
    seat_state: Player
    output: MyOutput
    seats = 2
    fps = 30
    sessions_per_model = 2

    def inference(self):
        while True:
            yield [MyOutput(main_video=gray(seat.state.level)) for seat in self.seats]
"""


async def test_rooms_with_seats_share_a_process(tmp_path: Path) -> None:
    with serving(write_project(tmp_path, SEATS)) as server:
        async with contextlib.AsyncExitStack() as stack:
            players = [await stack.enter_async_context(connect(server.url, room=room)) for room in ("a", "a", "b", "b")]
            for number, player in enumerate(players):
                await player.send("set_level", level=50 * number + 20)
            for number, player in enumerate(players):
                frame = await player.frame(after=await player.send("set_level", level=50 * number + 40))
                assert abs(frame.array.mean() - (50 * number + 40)) < 3
        assert len(engines_of(server.process.pid)) == 1


async def test_a_viewer_of_a_slot_that_a_save_removes_gets_the_welcome_of_another(tmp_path: Path) -> None:
    project = write_project(tmp_path / "project", MODEL)
    with listening(project, "--reload") as server:
        server.wait_for("for 4 sessions")
        async with contextlib.AsyncExitStack() as stack:
            for number in (1, 2):
                controller = await stack.enter_async_context(client(server.url))
                session = (await controller.data("reactor.welcome"))["session"]
                assert server.health()[1]["engines"][number - 1]["session"] == session
            viewer = await stack.enter_async_context(client(server.url, role="viewer", session=session))
            assert (await viewer.data("reactor.welcome"))["session"] == session
            code = (project / "pipeline.py").read_text()
            (project / "pipeline.py").write_text(code.replace("sessions_per_model = 4", "sessions_per_model = 1"))
            assert (await viewer.data("reactor.welcome"))["session"] is None
            await viewer.data("reactor.reload", status="applied")
        server.stop()


async def test_a_save_restarts_a_model_of_which_a_session_never_ends_its_step(tmp_path: Path) -> None:
    stuck = MODEL.replace(
        "frame = gray(self.state.level)", "frame = gray(self.state.level)\n" + 12 * " " + "while self.total > 99: pass"
    )
    project = write_project(tmp_path, stuck)
    with serving(project, "--reload") as server:
        async with visiting(server.url) as session:
            await session.frame()
            await session.send("add", by=100)
            (project / "pipeline.py").write_text(
                (project / "pipeline.py").read_text().replace("self.total > 99", "False")
            )
            with pytest.raises(SessionEnded, match="the model starts again with new code"):
                await until_over(session)
        server.until(lambda: server.health()[1]["status"] == "ready", "ready again")
        async with visiting(server.url) as session:
            await session.frame()


def test_more_sessions_than_a_loaded_model_may_have_are_refused(tmp_path: Path) -> None:
    project = write_project(tmp_path, MODEL.replace("sessions_per_model = 4", "sessions_per_model = 65"))
    checked = reactor("check", str(project), cwd=tmp_path)
    assert "MyModel.sessions_per_model must be at most 64, not 65" in checked.err
