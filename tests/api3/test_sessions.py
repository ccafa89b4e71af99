"""Sessions of programs for 3.x: hooks in their order, snapshots to viewers, sessions without a client, crashes."""

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

from tests.cli.command import reactor
from tests.server.client import WireClient, client, controlling
from tests.server.running import RunningServer, listening, serving

MANIFEST = "model: {name: stub}\nruntime: {import: model:Stub}\n"
HEAD = """\
import numpy as np

from reactor_runtime import (
    Audio, ClientInfo, CommandError, InputField, InputState, ModelMessage, Output, ReactorModel, ReactorPipeline,
    UploadedFile, Video, connected, disconnected, event, session_ended, session_started,
)


class Snapshot(ModelMessage):
    level: int
    clients: list[str]


class Uploaded(ModelMessage):
    size: int


class State(InputState):
    level: int = InputField(default=50, ge=0, le=255)


class Hooks:
    state: State

    def load(self, config_path):
        self.ids = []
        print("LOADED", flush=True)

    def note(self, what):
        print("NOTE", what, self.state.level, bool(self.connected), flush=True)

    @session_started
    def start(self):
        self.note("started")

    @connected
    async def join(self, client: ClientInfo):
        self.ids.append(client.id)
        await client.send(Snapshot(level=self.state.level, clients=list(self.ids)))
        self.note("+" + client.role)

    @disconnected
    def leave(self, client: ClientInfo):
        self.ids.remove(client.id)
        self.note("-" + client.role)

    @session_ended
    def end(self, client=None):
        self.note("ended")
        self.ids.clear()

    @event(name="upload")
    def upload(self, file: UploadedFile) -> Uploaded:
        return Uploaded(size=len(file.data))

    @event(name="refuse")
    def refuse(self):
        raise CommandError("busy", "not now")

"""
PIPELINE = (
    HEAD
    + """
class Picture(Output):
    main: Video


class Stub(Hooks, ReactorPipeline):
    state: State
    output: Picture
    fps = 30

    def inference(self):
        while True:
            if self.state.level == 13:
                raise RuntimeError("unlucky")
            yield Picture(main=np.full((32, 48, 3), self.state.level, np.uint8))
"""
)
LOOP = (
    HEAD
    + """
class Sounding(Output):
    main: Video
    voice: Audio


class Stub(Hooks, ReactorModel):
    state: State
    output_class: Sounding
    fps = 25

    @event(name="cut")
    def cut(self):
        self.output_buffer.flush()

    async def run(self):
        while True:
            await self.connected.wait()
            while self.connected:
                if self.state.level == 13:
                    raise RuntimeError("CUDA error")
                frame = np.full((2, 32, 48, 3), self.state.level, np.uint8)
                await self.emit(Sounding(main=frame, voice=np.zeros((1, 3840), np.int16)))
"""
)
PROGRAMS = {"pipeline": PIPELINE, "loop": LOOP}


def project(directory: Path, program: str) -> Path:
    (directory / "reactor.yaml").write_text(MANIFEST)
    (directory / "model.py").write_text(PROGRAMS[program])
    return directory


@pytest.fixture(params=PROGRAMS)
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunningServer]:
    with listening(project(tmp_path, request.param)) as server:
        server.wait_for("ready in")
        yield server


@pytest.fixture(params=PROGRAMS)
def recorded(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunningServer]:
    """A server that records, and so gives its engine 6 s to end: another one kills it after 0.8 s."""
    with listening(project(tmp_path, request.param), "--record", str(tmp_path / "sessions")) as server:
        server.wait_for("ready in")
        yield server


def notes(server: RunningServer) -> list[str]:
    return re.findall(r"^NOTE (.+)$", server.log, re.MULTILINE)


def wait_for_note(server: RunningServer, note: str, count: int = 1) -> None:
    server.until(lambda: notes(server).count(note) == count, f"{count} of {note}")


async def snapshot(client: WireClient) -> dict[str, object]:
    return await client.data("snapshot")


async def test_viewers_have_hooks_and_snapshots_and_the_session_outlives_all(recorded: RunningServer) -> None:
    async with controlling(recorded.url) as first:
        assert (await snapshot(first))["level"] == 50
        assert (await first.ask("set_level", {"level": 200}))["type"] == "reactor.reply"
        while (await first.frame()).level < 190:
            pass
        async with client(recorded.url, role="viewer") as viewer:
            seen = await snapshot(viewer)
            assert seen["level"] == 200
            assert len(seen["clients"]) == 2  # type: ignore[arg-type]
            assert (await viewer.ask("set_level", {"level": 1}))["data"]["code"] == "not_controller"
        wait_for_note(recorded, "-viewer 200 True")
        await first.data("reactor.stats")
        welcome = first.texts[0]["data"]
        # The snapshot of the viewer is not for the controller.
        assert sum(text["type"] == "snapshot" for text in first.texts) == 1
    wait_for_note(recorded, "-controller 200 False")
    async with client(recorded.url, resume=welcome["resume"]) as second:
        # It is the same session, with its state.
        again = await second.data("reactor.welcome")
        assert (again["session"], again["state"]) == (welcome["session"], {"level": 200})
        assert (await snapshot(second))["level"] == 200
        assert (await second.frame(applied=1)).level > 190
    wait_for_note(recorded, "-controller 200 False", 2)
    recorded.stop()
    assert notes(recorded) == [
        "started 50 False",
        "+controller 50 True",
        "+viewer 200 True",
        "-viewer 200 True",
        "-controller 200 False",
        "+controller 200 True",
        "-controller 200 False",
        "ended 200 False",
    ]


async def test_events_uploads_and_refusals(served: RunningServer) -> None:
    async with controlling(served.url) as controller:
        key = controller.texts[0]["data"]["upload_key"]
        address = f"http://127.0.0.1:{served.port}/uploads?key={key}"
        upload = urllib.request.Request(address, b"12345", {"Content-Type": "text/plain"})
        body = (await asyncio.to_thread(urllib.request.urlopen, upload)).read().decode()
        found = re.search(r'"upload": ?"([^"]+)"', body)
        assert found is not None
        reply = await controller.ask("upload", {"file": {"upload": found[1]}})
        assert reply["data"]["message"] == {"type": "uploaded", "data": {"size": 5}}
        error = await controller.ask("refuse")
        assert (error["type"], error["data"]["code"], error["data"]["message"]) == ("reactor.error", "busy", "not now")


async def test_a_crash_of_run_is_told_with_its_line_and_the_model_is_loaded_again(tmp_path: Path) -> None:
    with serving(project(tmp_path, "loop")) as server:
        async with controlling(server.url) as controller:
            await controller.frame()
            await controller.send("set_level", {"level": 13})
            error = await controller.data("reactor.error")
            assert error["code"] == "model_error"
            line = LOOP.splitlines().index('                    raise RuntimeError("CUDA error")') + 1
            assert f"RuntimeError: CUDA error (model.py:{line})" in error["message"]
            assert (await controller.closed())[0] == 1011
        async with controlling(server.url) as other:
            assert (await snapshot(other))["level"] == 50
            await other.frame()
        assert server.log.count("LOADED") == 2
        # A second crash soon after waits.
        async with controlling(server.url) as controller:
            await controller.send("set_level", {"level": 13})
            await controller.closed()
        server.wait_for(r"it is started again in 0\.5 s")
        server.until(lambda: server.log.count("LOADED") == 3, "a third load")
        server.wait_for_health("ready")


@pytest.mark.parametrize("has_client", [True, False], ids=["in a session", "without a client"])
async def test_the_model_is_loaded_again_while_a_thread_of_it_runs(tmp_path: Path, has_client: bool) -> None:
    thread = "import threading, time\nthreading.Thread(target=time.sleep, args=(1e6,)).start()\n"
    source = LOOP if has_client else LOOP.replace("await self.connected.wait()\n", "raise RuntimeError('at once')\n", 1)
    (project(tmp_path, "loop") / "model.py").write_text(thread + source)
    with listening(tmp_path) as server:
        server.wait_for("ready in")
        if has_client:
            async with controlling(server.url) as controller:
                await controller.send("set_level", {"level": 13})
                await controller.closed()
        server.until(lambda: server.log.count("LOADED") >= 2, "a second load")
        server.wait_for(r"was killed: it did not end within 0\.8 s, because of a thread")
        # Without a client each new one fails like the first.
        assert not has_client or server.log.count("LOADED") == 2


async def test_an_exception_of_inference_ends_the_session_and_not_the_model(tmp_path: Path) -> None:
    with serving(project(tmp_path, "pipeline")) as server:
        async with controlling(server.url) as controller:
            await controller.frame()
            await controller.send("set_level", {"level": 13})
            assert (await controller.closed())[0] == 1011
        async with controlling(server.url) as other:
            assert (await snapshot(other))["level"] == 50
        assert server.log.count("LOADED") == 1


async def test_flush_and_sound_of_a_loop(tmp_path: Path) -> None:
    with serving(project(tmp_path, "loop")) as server:
        async with controlling(server.url) as controller:
            assert (await controller.sound()).sample_rate == 48_000
            await controller.frame()
            await controller.send("cut", id="cut")
            # Before the reply or after it; a newer frame may have replaced the first one, but no sound is left out.
            while not (await controller.media()).header.flags & 1:
                pass


async def test_the_next_controller_in_the_queue_gets_a_session_of_its_own(tmp_path: Path) -> None:
    with serving(project(tmp_path, "pipeline")) as server:
        async with controlling(server.url) as first, client(server.url) as waiting:
            await waiting.data("reactor.queue", position=1)
            await first.ask("set_level", {"level": 99})
            await first.socket.close()
            welcome = await waiting.data("reactor.welcome", role="controller")
            assert welcome["session"] not in (None, first.texts[0]["data"]["session"])
            assert (await snapshot(waiting))["level"] == 50


async def test_the_next_controller_in_the_queue_continues_a_shared_session(tmp_path: Path) -> None:
    with serving(project(tmp_path, "pipeline"), "--shared") as server:
        async with controlling(server.url) as first, client(server.url) as waiting:
            await waiting.data("reactor.queue", position=1)
            await first.ask("set_level", {"level": 99})
            await first.socket.close()
            welcome = await waiting.data("reactor.welcome", role="controller")
            assert welcome["session"] == first.texts[0]["data"]["session"]
            assert (await snapshot(waiting))["level"] == 99


async def test_without_a_grace_period_a_session_ends_with_its_controller(tmp_path: Path) -> None:
    with serving(project(tmp_path, "pipeline"), "--resume-grace", "0") as server:
        async with controlling(server.url) as controller:
            await controller.frame()
        wait_for_note(server, "ended 50 False")
        assert notes(server)[-2:] == ["-controller 50 False", "ended 50 False"]
        async with controlling(server.url):
            wait_for_note(server, "started 50 False", 2)


async def test_a_session_ends_after_the_grace_period(tmp_path: Path) -> None:
    with serving(project(tmp_path, "pipeline"), "--resume-grace", "1") as server:
        async with controlling(server.url) as controller:
            assert controller.texts[0]["data"]["limits"]["resume_grace_s"] == 1
            await controller.frame()
        wait_for_note(server, "ended 50 False")
        server.wait_for_health("ready")


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_commands_run_the_program(program: str, tmp_path: Path) -> None:
    project(tmp_path, program)
    checked = reactor("check", "--step", cwd=tmp_path)
    assert (checked.code, checked.out.splitlines()[0]) == (0, "stub  model:Stub"), checked.err
    rendered = reactor("render", "--seconds", "0.5", "--out", "frames/", cwd=tmp_path)
    assert rendered.code == 0, rendered.err
    measured = reactor("bench", "--seconds", "0.5", "--rounds", "1", "--json", cwd=tmp_path)
    assert (measured.code, json.loads(measured.out)["name"]) == (0, tmp_path.name), measured.err


async def test_a_recorded_session_with_viewers_is_replayed(tmp_path: Path) -> None:
    with serving(project(tmp_path, "pipeline"), "--record", str(tmp_path / "sessions")) as server:
        async with controlling(server.url) as controller:
            await controller.frame()
            async with client(server.url, role="viewer") as viewer:
                await snapshot(viewer)
            wait_for_note(server, "-viewer 50 True")
            await controller.ask("set_level", {"level": 90})
            await controller.frame(applied=1)
    [recording] = (tmp_path / "sessions").glob("*.mcap")
    outcome = reactor("replay", str(recording), cwd=tmp_path)
    assert (outcome.code, outcome.out.startswith("equal")) == (0, True), outcome.out + outcome.err


async def test_the_next_controller_gets_a_slot_without_a_session_first(tmp_path: Path) -> None:
    with listening(project(tmp_path, "pipeline"), "--sessions", "2") as server:
        server.wait_for("ready 2 of 2")
        async with controlling(server.url) as first:
            await first.ask("set_level", {"level": 99})
            welcome = first.texts[0]["data"]
        wait_for_note(server, "-controller 99 False")
        async with controlling(server.url) as second:
            assert second.texts[0]["data"]["session"] != welcome["session"]
            assert second.texts[0]["data"]["state"] == {"level": 50}
            async with client(server.url, resume=welcome["resume"]) as again:
                assert (await again.data("reactor.welcome"))["state"] == {"level": 99}
        server.stop()


async def test_a_resumed_connection_is_another_client_of_the_same_session(tmp_path: Path) -> None:
    with serving(project(tmp_path, "pipeline")) as server:
        async with controlling(server.url) as first:
            welcome = first.texts[0]["data"]
            await first.ask("set_level", {"level": 77})
            await first.socket.close(4000)
        wait_for_note(server, "-controller 77 False")
        async with client(server.url, resume=welcome["resume"]) as again:
            assert (await again.data("reactor.welcome"))["session"] == welcome["session"]
            assert (await again.data("reactor.session", phase="resumed"))["session"] == welcome["session"]
            assert (await snapshot(again))["level"] == 77
            assert (await again.frame(applied=1)).level > 60


async def test_the_secret_of_a_controller_that_was_replaced_is_invalid(tmp_path: Path) -> None:
    with serving(project(tmp_path, "pipeline")) as server:
        async with controlling(server.url) as first:
            secret = first.texts[0]["data"]["resume"]
        async with client(server.url) as second:
            assert (await second.data("reactor.welcome", role="controller"))["resume"] not in (None, secret)
            async with client(server.url, resume=secret) as former:
                assert (await former.data("reactor.queue"))["position"] == 1
            await second.frame()


async def test_a_session_goes_on_while_viewers_watch(tmp_path: Path) -> None:
    with serving(project(tmp_path, "pipeline"), "--resume-grace", "1") as server:
        async with client(server.url, role="viewer") as viewer:
            await viewer.data("reactor.welcome")
            async with controlling(server.url) as controller:
                await controller.frame()
            wait_for_note(server, "-controller 50 True")
            shown = (await viewer.frame()).header.seq
            # More than the grace period later.
            while (await viewer.frame()).header.seq < shown + 45:
                pass
        wait_for_note(server, "ended 50 False")


async def test_hooks_come_in_pairs_on_each_instance_of_a_reload(tmp_path: Path) -> None:
    with serving(project(tmp_path, "pipeline"), "--reload") as server:
        async with controlling(server.url) as controller, client(server.url, role="viewer") as viewer:
            await snapshot(viewer)
            source = (tmp_path / "model.py").read_text()
            (tmp_path / "model.py").write_text(source.replace("self.state.level, np.uint8", "200, np.uint8"))
            await controller.data("reactor.reload", status="applied")
            while (await controller.frame()).level < 190:
                pass
            # New code in the same instance has no hooks; an instance that is loaded again has.
            assert len(notes(server)) == 3
            (tmp_path / "model.py").write_text(source.replace("self.ids = []", "self.ids = list()"))
            await controller.data("reactor.reload", status="applied")
            wait_for_note(server, "+viewer 50 True", 2)
        assert notes(server)[:7] == [
            "started 50 False",
            "+controller 50 True",
            "+viewer 50 True",
            "ended 50 False",
            "started 50 False",
            "+controller 50 True",
            "+viewer 50 True",
        ]


async def test_a_crash_of_run_without_a_client_loads_the_model_again(tmp_path: Path) -> None:
    crashing = LOOP.replace("await self.connected.wait()\n", "raise RuntimeError('at once')\n", 1)
    (project(tmp_path, "loop") / "model.py").write_text(crashing)
    with listening(tmp_path) as server:
        server.wait_for(r"run\(\) failed without a client; the model is loaded again")
        server.wait_for(r"it is started again in 0\.5 s")
        server.stop()


async def test_a_session_without_a_client_is_lost_with_its_process(tmp_path: Path) -> None:
    with serving(project(tmp_path, "pipeline")) as server:
        async with controlling(server.url) as first:
            session = first.texts[0]["data"]["session"]
            await first.ask("set_level", {"level": 99})
        wait_for_note(server, "-controller 99 False")
        os.kill(server.engine, signal.SIGKILL)
        server.until(lambda: server.log.count("LOADED") == 2, "a second load")
        server.wait_for_health("ready")
        async with controlling(server.url) as second:
            assert second.texts[0]["data"]["session"] != session
            assert (await snapshot(second))["level"] == 50
