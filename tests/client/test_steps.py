"""Stepped sessions through the client, against a real server."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.client import ConnectionLost, EventError, Frame, SessionEnded, Sound, StepRefused, connect
from reactor_runtime.testing import PipelineExecutor, replay
from tests.server.running import RunningServer, serving, started, write_project
from tests.timeouts import TIMEOUT_S

MODEL = """
import random


class MyInput(Input):
    camera: Video


class Both(Output):
    main_video: Video
    tone: Audio


class Made(ModelMessage):
    number: int


class MyState(InputState):
    level: int = InputField(default=3, ge=0, le=9)
    made: int = 0


class MyModel(ReactorPipeline):
    state: MyState
    input: MyInput
    output: Both

    async def inference(self):
        while True:
            self.state.made += 1
            await self.send(Made(number=self.state.made))
            frame = np.random.randint(0, 25, (8, 8, 3)).astype(np.uint8) + np.uint8(25 * self.state.level)
            seen = self.input.camera.try_read(1)
            frames = np.stack([seen[0] if seen else frame, frame])
            yield Both(main_video=frames, tone=np.full((1, 3200), self.state.made, np.int16))

    @event(name="raise_level")
    def raise_level(self, by: int):
        self.state.level += by

    @event(name="finish")
    def finish(self):
        self.end("game over")

    @event(name="crash")
    def crash(self):
        os.kill(os.getpid(), signal.SIGKILL)
"""
LOOP = """
class MyModel(ReactorModel):
    output: MyOutput

    async def run(self):
        while True:
            await self.emit(gray(1))
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_project(tmp_path_factory.mktemp("model"), MODEL)


@pytest.fixture(scope="module")
def server(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    recordings = tmp_path_factory.mktemp("recordings")
    arguments = ("--sessions", "2", "--resume-grace", "20", "--record", str(recordings))
    with started(project, *arguments) as server:
        server.wait_for("ready 2 of 2")
        yield server
        server.stop()


@pytest.fixture
def url(server: RunningServer) -> Iterator[str]:
    server.wait_for_health("ready")
    yield f"http://127.0.0.1:{server.port}"
    server.wait_for_health("ready")


@pytest.fixture
def model(project: Path, monkeypatch: pytest.MonkeyPatch) -> type[Model]:
    """Return the class that the server runs."""
    spec = importlib.util.spec_from_file_location("stepped_pipeline", project / "pipeline.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    found: type[Model] = module.MyModel
    return found


def test_300_steps_have_the_frames_sound_and_messages_of_the_same_steps_offline(url: str, model: type[Model]) -> None:
    with PipelineExecutor(model) as executor, connect(url, stepped=True) as session:
        executor.connect(stepped=True)
        session.view(codecs=["raw"])
        for number in range(30):
            state, commands = {"level": number % 9}, [("raise_level", {"by": 1})]
            seed = 5 if number == 0 else None
            offline = executor.step(10, state=state, commands=commands, seed=seed)
            online = session.step(10, state=state, commands=commands, seed=seed)
            assert (online.step, online.steps) == (offline.step, 10)
            received: list[Frame | Sound] = [*online.frames, *online.sound]
            made = sorted(offline.frames, key=lambda each: each.track)
            assert [(each.track, each.seq) for each in received] == [(each.track, each.seq) for each in made]
            assert [each.pts_s for each in received] == pytest.approx([each.due_s for each in made], abs=2e-6)
            assert all(np.array_equal(one.array, other.array) for one, other in zip(received, made, strict=True))
            messages = [(each.type, each.data) for each in offline.messages]
            assert [(each.type, each.data) for each in online.messages] == messages
            assert online.state == {"level": executor.state.level, "made": executor.state.made}


def test_media_arrives_without_loss_and_before_the_step(url: str) -> None:
    pixels = np.random.default_rng(2).integers(0, 256, (8, 8, 3), np.uint8)
    with connect(url, stepped=True) as session:
        session.view(codecs=["raw"])
        result = session.step(media={"camera": [pixels]})
        assert np.array_equal(result.frames[0].array, pixels)
        assert not np.array_equal(result.frame().array, pixels)
        with pytest.raises(ValueError, match="no track 'microphone'"):
            session.step(media={"microphone": [pixels]})


def test_refused_steps_name_the_place_and_keep_the_session(url: str) -> None:
    with connect(url, stepped=True) as session:
        with pytest.raises(StepRefused, match=r"state\.level: 12 is above 9") as refused:
            session.step(state={"level": 12})
        assert (refused.value.code, refused.value.fields[0].path) == ("invalid_event", "state.level")
        assert (refused.value.result.steps, refused.value.result.frames) == (0, [])
        with pytest.raises(StepRefused, match=r"commands\[0\]\.data\.by: missing"):
            session.step(commands=["raise_level"])
        assert session.step().step == 1


def test_a_session_that_the_model_ends_answers_the_steps_before(url: str) -> None:
    with connect(url, stepped=True) as session:
        session.step(3)
        with contextlib.suppress(SessionEnded):
            assert session.step(5, commands=["finish"]).steps < 5
        with pytest.raises(SessionEnded, match="game over"):
            session.step()


async def test_requests_at_the_same_time_follow_each_other(url: str) -> None:
    async with connect(url, stepped=True) as session, asyncio.timeout(TIMEOUT_S):
        results = await asyncio.gather(session.step(2), session.step(1, state={"level": 9}), session.step(3))
        assert [(each.step, len(each.frames)) for each in results] == [(2, 4), (3, 2), (6, 6)]
        assert [message.data["number"] for message in results[2].messages] == [4, 5, 6]


async def test_sessions_step_independently(url: str) -> None:
    async with connect(url, stepped=True) as one, connect(url, stepped=True) as other, asyncio.timeout(TIMEOUT_S):
        await one.step(3)
        assert (await other.step()).step == 1
        assert (await one.step()).step == 4


async def test_a_viewer_sees_a_stepped_session_and_steps_nothing(url: str) -> None:
    async with (
        connect(url, stepped=True) as session,
        connect(url, role="viewer", session=session.id) as viewer,
        asyncio.timeout(TIMEOUT_S),
    ):
        await session.step(seed=1)
        assert (await viewer.frame()).track == "main_video"
        with pytest.raises(EventError) as refused:
            await viewer.step()
        assert refused.value.code == "not_controller"


async def test_a_session_that_is_not_stepped_refuses_steps(url: str) -> None:
    async with connect(url) as session, asyncio.timeout(TIMEOUT_S):
        with pytest.raises(EventError, match="connect with generation=stepped") as refused:
            await session.step()
        assert refused.value.code == "not_ready"


async def test_a_resumed_session_goes_on_and_the_step_that_was_lost_can_be_told(url: str) -> None:
    async with connect(url, stepped=True) as session, asyncio.timeout(TIMEOUT_S):
        await session.step(2)
        before = session.id
        pending = asyncio.create_task(session.step(5000))
        await asyncio.sleep(0)
        socket = session.connection.socket
        assert socket is not None
        socket.transport.abort()
        with pytest.raises(ConnectionLost):
            await pending
        after = await session.step()
        assert session.id == before
        # The request that nobody waits for ended with the connection.
        assert 3 <= after.step < 5000
        assert [frame.seq for frame in after.frames] == [2 * after.step - 2, 2 * after.step - 1]


def test_a_recorded_episode_is_replayed_frame_by_frame(
    server: RunningServer, url: str, project: Path, model: type[Model]
) -> None:
    recordings = Path(str(server.process.args[-1]))
    before = set(recordings.glob("*.mcap"))

    def written() -> list[Path]:
        files = sorted(set(recordings.glob("*.mcap")) - before)
        return [file for file in files if f"recorded the session file={file}\n" in server.log]

    with connect(url, stepped=True) as session:
        for seed in (3, 4):
            session.step(4, seed=seed)
            session.step(4, state={"level": 8}, commands=[("raise_level", {"by": 1})])
    # One of the session until its first reset, one of each episode.
    server.until(lambda: len(written()) == 3, "recordings")
    with contextlib.chdir(project):
        outcomes = [replay(file, model) for file in written()]
    assert sorted((each.steps, each.total) for each in outcomes) == [(0, 0), (8, 0), (8, 0)]


def test_a_loop_makes_no_steps(tmp_path: Path) -> None:
    with serving(write_project(tmp_path, LOOP)) as server:
        url = f"http://127.0.0.1:{server.port}"
        with pytest.raises(SessionEnded, match="a ReactorModel makes no steps"), connect(url, stepped=True):
            pass
        server.wait_for_health("ready")
