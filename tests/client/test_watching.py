"""Seeing the sessions of others: the one that is named, and from the line."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from reactor_runtime.client import EventError, Phase, connect
from tests.server.bare import MODEL
from tests.server.running import RunningServer, listening, write_project
from tests.server.visitor import level, visiting
from tests.timeouts import TIMEOUT_S


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with listening(write_project(tmp_path_factory.mktemp("watched"), MODEL), "--sessions", "2") as server:
        server.wait_for("ready 2 of 2 in")
        yield server
        server.stop()


@pytest.fixture(autouse=True)
def _settled(server: RunningServer) -> None:
    server.until(lambda: all(each["status"] == "ready" for each in server.health()[1]["engines"]), "both ready")


async def test_a_viewer_sees_the_session_it_names_and_after_it_the_other(server: RunningServer) -> None:
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
        with pytest.raises(EventError, match="wait for your turn"):
            await third.send("set_level", level=0)
        watched = first.id
        await first.aclose()
        await third.ready()
        assert third.id != watched
        assert (third.role, third.state) == ("controller", {"level": 100})
        assert level(await third.frame()) == pytest.approx(100, abs=3)
        assert (await third.send("set_level", level=30)).n == 1
