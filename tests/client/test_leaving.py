"""The end of a session: queued items are sent first, and a stalled server does not delay the end."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from reactor_runtime.client import connect, connection
from tests.client.fake_server import FakeServer
from tests.timeouts import TIMEOUT_S

PIXELS = np.full((8, 8, 3), 222, np.uint8)
MORE_THAN_SOCKETS_HOLD = b"\xff\xd8" + bytes(10_000_000)


async def test_queued_items_are_sent_before_the_close(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "FLUSH_S", TIMEOUT_S)
    server = FakeServer()
    async with asyncio.timeout(TIMEOUT_S), server.open() as url:
        async with connect(url) as session:
            session.notify("move", x=1)
            session.publish("camera", PIXELS)
        await server.left.wait()
    assert (server.texts, len(server.pictures)) == (["move"], 1)


async def test_queued_items_are_sent_before_a_blocking_session_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "FLUSH_S", TIMEOUT_S)
    server = FakeServer()

    def program(url: str) -> None:
        with connect(url) as session:
            assert session.publish("camera", PIXELS).result(TIMEOUT_S)
            last = session.publish("camera", PIXELS)
        assert last.result(TIMEOUT_S)

    async with asyncio.timeout(TIMEOUT_S), server.open() as url:
        await asyncio.to_thread(program, url)
        await server.left.wait()
    assert len(server.pictures) == 2


async def test_publish_reports_whether_a_frame_was_sent() -> None:
    server = FakeServer()
    async with asyncio.timeout(TIMEOUT_S), server.open() as url, connect(url) as session:
        replaced, newest = session.publish("camera", PIXELS), session.publish("camera", PIXELS)
        assert (await replaced, await newest) == (False, True)
        assert await session.publish("camera", PIXELS)


async def test_a_server_that_reads_nothing_does_not_delay_the_end() -> None:
    server = FakeServer(deaf=True)
    async with asyncio.timeout(TIMEOUT_S), server.open() as url:
        async with connect(url) as session:
            stuck = session.publish("camera", MORE_THAN_SOCKETS_HOLD)
        assert not await stuck
        server.left.set()


async def test_a_cancelled_close_still_closes() -> None:
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
