"""H.264 where a session changes: its size, code, connection and end, and several sessions beside each other.

Frames show the number of their step, counted by the code, and 1,000 more for each wish of the client.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from reactor_runtime.client import Frame, Phase, Session, connect
from tests.client.cable import Cable
from tests.client.test_resume import reaches
from tests.client.test_video_served import pieces
from tests.server.running import RunningServer, serving, started, write_project
from tests.timeouts import TIMEOUT_S
from tests.video import number_in

MODEL = """
from tests.video import numbered


class MyState(InputState):
    wide: bool = False
    thousands: int = 0


class MyModel(ReactorPipeline):
    state: MyState
    output: MyOutput
    fps = 30

    def inference(self):
        number = 0
        while True:
            yield numbered(number + 1000 * self.state.thousands, width=320 if self.state.wide else 256)
            number += 1
"""

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_project(tmp_path_factory.mktemp("video"), MODEL)


@pytest.fixture(scope="module")
def server(project: Path) -> Iterator[RunningServer]:
    with started(project, "--codec", "always", "--sessions", "2", "--resume-grace", "20") as server:
        server.wait_for("ready 2 of 2")
        yield server
        server.stop()


@contextlib.asynccontextmanager
async def visiting(port: int, query: str = "") -> AsyncIterator[Session]:
    async with asyncio.timeout(TIMEOUT_S), connect(f"http://127.0.0.1:{port}/{query}") as session:
        yield session


def numbers(frames: list[Frame]) -> list[int]:
    """Return how the numbers in the frames' pixels differ from those of the frames, for the ones that are legible.

    On a busy machine the server may have had too few bits for a key.
    """
    found = [(frame, number_in(frame.array)) for frame in frames]
    legible = [number - frame.seq for frame, number in found if number >= 0]
    assert len(legible) > len(frames) // 2
    return legible


async def until(session: Session, first: int) -> None:
    """Wait for video whose frames show a number of at least `first`."""
    async for frame in session.frames():
        if frame.number is not None and number_in(frame.array) >= first:
            return


async def test_each_of_two_sessions_gets_its_own_video(server: RunningServer) -> None:
    async with visiting(server.port) as first, visiting(server.port) as second:
        assert first.id != second.id
        await second.send("set_thousands", thousands=2)
        await until(second, 2000)
        for session, plus in ((first, 0), (second, 2000)):
            assert set(numbers(await pieces(session, 20))) == {plus}


async def test_frames_of_another_size_begin_with_a_key(server: RunningServer) -> None:
    async with visiting(server.port) as session:
        for wide in (True, False):
            await session.send("set_wide", wide=wide)
            frames = await pieces(session, 40)
            assert frames[-1].array.shape == (96, 320 if wide else 256, 3)
            assert set(numbers(frames)) == {0}


async def test_video_begins_anew_when_a_connection_comes_back(server: RunningServer) -> None:
    cable = Cable(server.port)
    async with asyncio.timeout(TIMEOUT_S), cable.laid() as url, connect(url) as session:
        before = await pieces(session, 10)
        cable.cut()
        await reaches(session, Phase.RECONNECTING)
        after = await pieces(session, 20)
        assert set(numbers(before + after)) == {0}
        # The newest frame from before the break is the first.
        assert [frame.seq for frame in after] == sorted({frame.seq for frame in after})
        assert after[-1].seq > before[-1].seq + 10


async def test_a_viewer_gets_the_video_of_one_session_after_the_other(server: RunningServer) -> None:
    async with visiting(server.port, "?role=viewer") as viewer:
        for thousands in (1, 2):
            async with visiting(server.port) as controller:
                await controller.send("set_thousands", thousands=thousands)
                await until(viewer, 1000 * thousands)
                assert set(numbers(await pieces(viewer, 20))) == {1000 * thousands}


async def test_new_code_is_shown_as_video(tmp_path: Path) -> None:
    project = write_project(tmp_path, MODEL)
    with serving(project, "--codec", "always", "--reload") as server:
        async with visiting(server.port) as session:
            await pieces(session, 10)
            (project / "pipeline.py").write_text(
                (project / "pipeline.py").read_text().replace("number = 0", "number = 3000")
            )
            await until(session, 3000)
            assert len(set(numbers(await pieces(session, 20)))) == 1
