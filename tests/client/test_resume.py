"""Broken connections: the session is resumed if the server keeps it, and lost otherwise."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from reactor_runtime.client import ConnectionLost, Phase, Session, connect
from reactor_runtime.client.address import Address
from reactor_runtime.client.connection import MAX_UNANSWERED_PINGS, Connection
from tests.client.cable import Cable
from tests.server.running import RunningServer, serving, write_project
from tests.timeouts import TIMEOUT_S

MODEL = """
class MyState(InputState):
    level: int = InputField(default=100, ge=0, le=255)


class MyModel(ReactorPipeline):
    state: MyState
    fps = 30

    def inference(self):
        while True:
            yield gray(self.state.level)

    @event(name="dawdle")
    async def dawdle(self):
        await asyncio.sleep(0.2)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(write_project(tmp_path_factory.mktemp("kept"), MODEL), "--resume-grace", "20") as server:
        yield server


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(write_project(tmp_path_factory.mktemp("not-kept"), MODEL)) as server:
        yield server


async def reaches(session: Session, phase: Phase) -> None:
    async for status in session.statuses():
        if status.phase is phase:
            return
    raise AssertionError(f"it never was {phase}: {session.status}")


async def test_a_session_continues_after_a_break(server: RunningServer) -> None:
    cable = Cable(server.port)
    async with asyncio.timeout(TIMEOUT_S), cable.laid() as url, connect(url) as session:
        await session.send("set_level", level=200)
        own = session.status.session
        frames = session.frames()
        before = await anext(frames)
        cable.cut()
        await reaches(session, Phase.RECONNECTING)
        await reaches(session, Phase.CONNECTED)
        assert (session.status.session, session.state) == (own, {"level": 200})
        async for frame in frames:
            if frame.seq > before.seq + 5:
                break
        assert frame.array.mean() == pytest.approx(200, abs=3)
        assert (await session.send("set_level", level=1)).n == 2


async def test_a_break_fails_an_unanswered_event_and_delays_a_new_one(server: RunningServer) -> None:
    server.wait_for_health("ready")
    cable = Cable(server.port)
    async with asyncio.timeout(TIMEOUT_S), cable.laid() as url, connect(url) as session:
        unanswered = asyncio.create_task(session.send("dawdle"))
        await asyncio.sleep(0)
        cable.cut()
        with pytest.raises(ConnectionLost):
            await unanswered
        assert session.status.phase is Phase.RECONNECTING
        assert not session.notify("set_level", level=2)
        assert (await session.send("set_level", level=3)).n >= 1


async def test_a_viewer_reconnects_to_a_server_that_keeps_no_sessions(forgetful: RunningServer) -> None:
    cable, controller = Cable(forgetful.port), connect(f"http://127.0.0.1:{forgetful.port}")
    async with asyncio.timeout(TIMEOUT_S), cable.laid() as url, connect(url, role="viewer") as viewer, controller:
        frames = viewer.frames()
        await anext(frames)
        cable.cut()
        await reaches(viewer, Phase.RECONNECTING)
        await reaches(viewer, Phase.CONNECTED)
        await anext(frames)
    forgetful.wait_for_health("ready")


async def test_the_client_reconnects_after_unanswered_pings(server: RunningServer) -> None:
    server.wait_for_health("ready")
    cable = Cable(server.port)
    async with asyncio.timeout(TIMEOUT_S), cable.laid() as url:
        connection = Connection(Address.parse(url), ping_s=0.5)
        await connection.open()
        session = Session(connection)
        await session.ready()
        own = session.id
        cable.mute()
        await reaches(session, Phase.RECONNECTING)
        await reaches(session, Phase.CONNECTED)
        assert session.id == own
        await session.aclose()


async def test_a_program_that_blocks_its_loop_keeps_its_connection(server: RunningServer) -> None:
    server.wait_for_health("ready")
    async with asyncio.timeout(TIMEOUT_S):
        connection = Connection(Address.parse(f"http://127.0.0.1:{server.port}"), ping_s=1.0)
        await connection.open()
        session = Session(connection)
        await session.ready()
        time.sleep(MAX_UNANSWERED_PINGS + 0.5)  # noqa: ASYNC251  (a blocked loop is what is tested)
        assert (await session.send("set_level", level=5)).n == 1
        assert (session.status.phase, session.status.notice) == (Phase.CONNECTED, "")
        await session.aclose()


@pytest.mark.parametrize("kept", [True, False], ids=["not wanted", "not kept"])
async def test_a_session_that_cannot_be_resumed_is_lost(
    kept: bool, server: RunningServer, forgetful: RunningServer
) -> None:
    where = server if kept else forgetful
    where.wait_for_health("ready")
    cable = Cable(where.port)
    async with asyncio.timeout(TIMEOUT_S), cable.laid() as url, connect(url, reconnect=not kept) as session:
        # On a busy machine the client may have reconnected before a thread has decoded the last one.
        frames = session.frames(decode=False)
        await anext(frames)
        cable.cut()
        with pytest.raises(ConnectionLost):
            [frame async for frame in frames]
        with pytest.raises(ConnectionLost):
            await session.send("set_level", level=1)
        assert session.status.phase is (Phase.ENDED if kept else Phase.RECONNECTING)


STILL = """
class MyModel(ReactorPipeline):
    state: MyState
    fps = 30

    def inference(self):
        shown = None
        while True:
            if shown == self.state.level:
                yield Idle
            else:
                shown = self.state.level
                yield gray(shown)
"""


async def test_the_last_frame_of_an_idle_model_is_not_yielded_again_after_a_break(tmp_path: Path) -> None:
    model = MODEL.partition("class MyModel")[0] + STILL
    with serving(write_project(tmp_path, model), "--resume-grace", "20") as server:
        cable = Cable(server.port)
        async with asyncio.timeout(TIMEOUT_S), cable.laid() as url, connect(url) as session:
            frames = session.frames()
            first = await anext(frames)
            cable.cut()
            await reaches(session, Phase.RECONNECTING)
            await reaches(session, Phase.CONNECTED)
            await session.send("set_level", level=50)
            after = await anext(frames)
            assert (after.seq, after.held) == (first.seq + 1, False)
