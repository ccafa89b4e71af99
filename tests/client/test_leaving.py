"""Leaving a session: what waits goes first, and nobody is held up by a server that takes nothing."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from reactor_runtime.client import connect
from tests.client.fake_server import FakeServer
from tests.timeouts import TIMEOUT_S

PICTURE = np.full((8, 8, 3), 222, np.uint8)
MORE_THAN_SOCKETS_HOLD = b"\xff\xd8" + bytes(10_000_000)


async def test_what_was_published_and_said_last_is_sent_before_the_goodbye() -> None:
    server = FakeServer()
    async with asyncio.timeout(TIMEOUT_S), server.open() as url:
        async with connect(url) as session:
            session.notify("move", x=1)
            session.publish("camera", PICTURE)
        await server.left.wait()
    assert (server.texts, len(server.pictures)) == (["move"], 1)


async def test_without_a_loop_it_is_sent_as_well() -> None:
    server = FakeServer()

    def program(url: str) -> None:
        with connect(url) as session:
            assert session.publish("camera", PICTURE).result(TIMEOUT_S)
            last = session.publish("camera", PICTURE)
        assert last.result(TIMEOUT_S)

    async with asyncio.timeout(TIMEOUT_S), server.open() as url:
        await asyncio.to_thread(program, url)
        await server.left.wait()
    assert len(server.pictures) == 2


async def test_who_awaits_is_told_whether_a_picture_has_gone() -> None:
    server = FakeServer()
    async with asyncio.timeout(TIMEOUT_S), server.open() as url, connect(url) as session:
        overtaken, newest = session.publish("camera", PICTURE), session.publish("camera", PICTURE)
        assert (await overtaken, await newest) == (False, True)
        assert await session.publish("camera", PICTURE)


async def test_a_server_that_takes_nothing_holds_nobody_up() -> None:
    server = FakeServer(deaf=True)
    async with asyncio.timeout(TIMEOUT_S), server.open() as url:
        async with connect(url) as session:
            stuck = session.publish("camera", MORE_THAN_SOCKETS_HOLD)
        assert not await stuck
        server.left.set()


async def test_leaving_that_is_cancelled_leaves_all_the_same() -> None:
    server = FakeServer(deaf=True)
    async with asyncio.timeout(TIMEOUT_S), server.open() as url:
        session = await connect(url)
        stuck = session.publish("camera", MORE_THAN_SOCKETS_HOLD)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await session.aclose()
        assert not await stuck
        assert session.status.reason == "closed"
        server.left.set()
