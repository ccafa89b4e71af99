from __future__ import annotations

import asyncio
import socket

from reactor_runtime.ipc import messages as ipc
from reactor_runtime.ipc.channel import Channel
from reactor_runtime.ipc.link import MOST_BACKLOG_BYTES, Link
from tests.timeouts import TIMEOUT_S


async def open_link() -> tuple[Link, Channel, asyncio.Queue[ipc.Message]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    received: asyncio.Queue[ipc.Message] = asyncio.Queue()
    return await Link.open(ours, received.put_nowait), Channel(theirs), received


async def test_messages_go_both_ways() -> None:
    link, engine, received = await open_link()
    engine.send(ipc.Ready(1.5))
    async with asyncio.timeout(TIMEOUT_S):
        assert await received.get() == ipc.Ready(1.5)
        link.send(ipc.StopSession("s-1"))
        assert await asyncio.to_thread(lambda: next(iter(engine))) == ipc.StopSession("s-1")
    link.close()
    engine.close()


async def test_lost_is_done_when_the_engine_closes_and_sending_is_harmless() -> None:
    link, engine, _ = await open_link()
    engine.close()
    await asyncio.wait_for(link.lost, TIMEOUT_S)
    link.send(ipc.Shutdown())
    assert not link.backlogged
    link.close()
    link.close()


async def test_an_engine_that_does_not_read_is_a_backlog_and_not_a_wait() -> None:
    link, engine, _ = await open_link()
    event = ipc.ClientEvent("s", "c", None, "x", "y" * 100_000)
    backlogged = [link.backlogged]
    for _ in range(2 * MOST_BACKLOG_BYTES // 100_000):
        link.send(event)
    backlogged.append(link.backlogged)
    assert backlogged == [False, True]
    link.close()
    engine.close()
    await asyncio.wait_for(link.lost, TIMEOUT_S)
