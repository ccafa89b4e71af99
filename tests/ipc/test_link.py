from __future__ import annotations

import asyncio
import contextlib
import socket

from reactor_runtime.ipc import messages as ipc
from reactor_runtime.ipc.channel import Channel
from reactor_runtime.ipc.framing import encode
from reactor_runtime.ipc.link import MOST_A_TURN, MOST_BACKLOG_BYTES, Link
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


async def test_a_burst_is_delivered_whole_at_most_200_messages_a_turn_and_reading_continues_after_it() -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    received: asyncio.Queue[ipc.Message] = asyncio.Queue()
    link = await Link.open(ours, received.put_nowait)
    burst: list[ipc.Message] = [ipc.Loading(f"{number:100}") for number in range(25 * MOST_A_TURN)]
    sending = asyncio.create_task(asyncio.to_thread(theirs.sendall, b"".join(map(encode, burst))))
    delivered: list[ipc.Message] = []
    # closing ends a write that would block the thread for ever
    with theirs, contextlib.closing(link):
        async with asyncio.timeout(TIMEOUT_S):
            while len(delivered) < len(burst):
                await asyncio.sleep(0)
                assert received.qsize() <= MOST_A_TURN
                delivered += [received.get_nowait() for _ in range(received.qsize())]
            await sending
            assert delivered == burst
            theirs.sendall(encode(ipc.Ready(1.5)))
            assert await received.get() == ipc.Ready(1.5)


async def test_messages_that_were_read_before_the_link_closes_are_delivered() -> None:
    link, engine, received = await open_link()
    for number in range(MOST_A_TURN + 1):
        engine.send(ipc.Loading(f"{number}"))
    async with asyncio.timeout(TIMEOUT_S):
        assert await received.get() == ipc.Loading("0")
        link.close()
        await link.lost
    assert [received.get_nowait() for _ in range(received.qsize())][-1] == ipc.Loading(f"{MOST_A_TURN}")
    engine.close()
