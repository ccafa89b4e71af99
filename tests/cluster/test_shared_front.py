"""A front with real workers, whose loaded models several sessions share."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from reactor_runtime.client import connect
from tests.cluster.front import MODEL, Front, running_front
from tests.server.client import client
from tests.server.running import write_project
from tests.timeouts import TIMEOUT_S

SHARED = MODEL.replace("fps = 30", "fps = 30\n    sessions_per_model = 3")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path / "project", SHARED)


def ids_at(front: Front) -> set[str]:
    """Return the ids of the sessions that the front knows."""
    return {slot.session.id for slot in front.slots if slot.session is not None}


async def health(front: Front) -> dict[str, object]:
    async with front.http() as http:
        return dict((await http.get("/health")).json())


@pytest.mark.parametrize("relays_all", [False, True], ids=["redirected", "relayed"])
async def test_each_client_of_a_worker_has_a_session_of_its_own(project: Path, relays_all: bool) -> None:
    async with running_front(project, relays_all=relays_all) as front, contextlib.AsyncExitStack() as stack:
        url = f"http://127.0.0.1:{front.port}"
        sessions = [await stack.enter_async_context(connect(url)) for _ in range(3)]
        assert len({session.id for session in sessions}) == 3
        async with asyncio.timeout(TIMEOUT_S):
            while not {session.id for session in sessions} <= ids_at(front):  # noqa: ASYNC110  (no event reports it)
                await asyncio.sleep(0.01)
        for number, session in enumerate(sessions):
            await session.send("set_level", level=50 + 50 * number)
        for number, session in enumerate(sessions):
            async for frame in session.frames():
                if abs(float(frame.array.mean()) - 50 * (number + 1)) < 3:
                    break
            viewer = await stack.enter_async_context(connect(url, role="viewer", session=session.id))
            assert (await anext(viewer.frames())).track == "main_video"
            assert viewer.id == session.id
        async with client(front.url) as waiting:
            assert (await waiting.data("reactor.queue"))["position"] == 1
            engines = (await health(front))["engines"]
            assert isinstance(engines, list)
            assert {engine["session"] for engine in engines} == {session.id for session in sessions}
            assert [engine["memory_bytes"] is not None for engine in engines] == [True, False, False]
            # The model fails in this session alone.
            await sessions[1].send("set_level", level=255)
            await waiting.data("reactor.session", phase="started")
        await sessions[0].send("set_level", level=70)
        await sessions[2].send("set_level", level=70)


async def test_an_option_replaces_the_number_of_the_class(project: Path) -> None:
    async with running_front(project, sessions_per_model=2) as front:
        assert len(front.slots) == 2
