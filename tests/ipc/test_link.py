from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest

from reactor_runtime.ipc import messages as ipc
from reactor_runtime.ipc.channel import Channel
from reactor_runtime.ipc.framing import HEAD, encode
from reactor_runtime.ipc.link import AT_ONCE_S, MOST_BACKLOG_BYTES, MOST_MESSAGE_BYTES, Link, MessageBudget
from tests.fakes import FakeClock
from tests.timeouts import TIMEOUT_S


async def open_link() -> tuple[Link, socket.socket, asyncio.Queue[ipc.Message]]:
    """Return a link, the engine's end of its socket, and the messages that the link receives."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    received: asyncio.Queue[ipc.Message] = asyncio.Queue()
    return (
        await Link.open(ours, lambda _, message: received.put_nowait(message), FakeClock(), share=1),
        theirs,
        received,
    )


async def test_messages_go_both_ways() -> None:
    link, theirs, received = await open_link()
    engine = Channel(theirs)
    engine.send(ipc.Ready(1.5))
    async with asyncio.timeout(TIMEOUT_S):
        assert await received.get() == ipc.Ready(1.5)
        link.send(ipc.StopSession("s-1"), slot=3)
        assert await asyncio.to_thread(lambda: next(iter(engine))) == (3, ipc.StopSession("s-1"))
    link.close()
    theirs.close()
    await asyncio.wait_for(link.lost, TIMEOUT_S)


async def test_lost_is_done_when_the_engine_closes_and_sending_is_harmless() -> None:
    link, theirs, _ = await open_link()
    theirs.close()
    await asyncio.wait_for(link.lost, TIMEOUT_S)
    link.send(ipc.Shutdown())
    assert not link.backlogged
    link.close()
    link.close()


async def test_an_engine_that_does_not_read_is_a_backlog_and_not_a_wait() -> None:
    link, theirs, _ = await open_link()
    event = ipc.ClientEvent("s", "c", None, "x", "y" * 100_000)
    backlogged = [link.backlogged]
    for _ in range(2 * MOST_BACKLOG_BYTES // 100_000):
        link.send(event)
    backlogged.append(link.backlogged)
    assert backlogged == [False, True]
    link.close()
    theirs.close()
    await asyncio.wait_for(link.lost, TIMEOUT_S)


MESSAGE_S = 0.0003
MOST_A_TURN = 4


class Receiver:
    """Collects messages, each of which takes 0.3 ms."""

    def __init__(self) -> None:
        self.received: list[ipc.Message] = []
        self.has_received = asyncio.Event()

    def receive(self, _: int, message: ipc.Message) -> None:
        self.received.append(message)
        self.has_received.set()

    def cpu_s(self) -> float:
        return len(self.received) * MESSAGE_S


async def test_a_burst_is_delivered_whole_for_1_ms_a_turn_and_reading_continues_after_it() -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    receiver = Receiver()
    link = await Link.open(ours, receiver.receive, FakeClock(), share=1, cpu_s=receiver.cpu_s)
    burst: list[ipc.Message] = [ipc.Loading(f"{number:100}") for number in range(300)]
    sending = asyncio.create_task(asyncio.to_thread(theirs.sendall, b"".join(map(encode, burst))))
    # closing ends a write that would block the thread for ever
    with theirs, contextlib.closing(link):
        async with asyncio.timeout(TIMEOUT_S):
            while len(receiver.received) < len(burst):
                before = len(receiver.received)
                await asyncio.sleep(0)
                assert len(receiver.received) - before <= MOST_A_TURN
            await sending
            assert receiver.received == burst
            receiver.has_received.clear()
            theirs.sendall(encode(ipc.Ready(1.5)))
            await receiver.has_received.wait()
            assert receiver.received[-1] == ipc.Ready(1.5)
    await asyncio.wait_for(link.lost, TIMEOUT_S)


@pytest.mark.parametrize("closed_by", ["server", "engine"])
async def test_messages_that_were_read_before_the_link_closes_are_delivered_in_turns(closed_by: str) -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    receiver = Receiver()
    link = await Link.open(ours, receiver.receive, FakeClock(), share=1, cpu_s=receiver.cpu_s)
    theirs.sendall(b"".join(encode(ipc.Loading(f"{number}")) for number in range(100)))
    async with asyncio.timeout(TIMEOUT_S):
        await receiver.has_received.wait()
        assert len(receiver.received) <= MOST_A_TURN
        (link if closed_by == "server" else theirs).close()
        while not link.lost.done():
            before = len(receiver.received)
            await asyncio.sleep(0)
            assert len(receiver.received) - before <= MOST_A_TURN
    assert receiver.received[-1] == ipc.Loading("99")
    theirs.close()


def test_a_budget_pays_a_burst_of_a_tenth_of_a_second_and_then_its_share() -> None:
    budget = MessageBudget(0.25, now=0.0)
    assert budget.spend(0.0, 0.1) == 0.0
    assert budget.spend(0.0, 0.01) == pytest.approx(0.04)
    assert budget.spend(0.0396, 0.0) == 0.0
    assert budget.spend(100.0, 0.1) == 0.0
    assert budget.spend(100.0, 30.0) == 1.0


async def test_an_engine_that_has_spent_its_share_rests_and_all_of_its_messages_come() -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    receiver, clock = Receiver(), FakeClock()
    link = await Link.open(ours, receiver.receive, clock, share=0.5, cpu_s=receiver.cpu_s)
    # They take 120 ms, of which 100 ms are saved.
    burst: list[ipc.Message] = [ipc.Loading(f"{number}") for number in range(400)]
    theirs.sendall(b"".join(map(encode, burst)))
    theirs.close()
    async with asyncio.timeout(TIMEOUT_S):
        await receiver.has_received.wait()
        while not link.lost.done():
            rested_s = clock.now() - FakeClock().now()
            most_s = AT_ONCE_S + 0.5 * rested_s + MOST_A_TURN * MESSAGE_S
            assert len(receiver.received) * MESSAGE_S <= most_s
            await clock.advance(0.001)
    assert receiver.received == burst


async def test_a_message_above_4_mib_ends_the_link_at_its_head_after_those_before_it() -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    received: list[ipc.Message] = []
    link = await Link.open(ours, lambda _, message: received.append(message), FakeClock(), share=1)
    theirs.sendall(encode(ipc.Ready(1.5)) + HEAD.pack(0, MOST_MESSAGE_BYTES, 1))
    with pytest.raises(ValueError, match="a message of 4194305 bytes is above 4194304"):
        await asyncio.wait_for(link.lost, TIMEOUT_S)
    assert received == [ipc.Ready(1.5)]
    theirs.close()


async def test_an_exception_of_the_receiver_ends_the_link_and_is_raised_by_lost() -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)

    def fail(_: int, message: ipc.Message) -> None:
        raise KeyError(message)

    link = await Link.open(ours, fail, FakeClock(), share=1)
    theirs.sendall(encode(ipc.Ready(1.5)))
    with pytest.raises(KeyError):
        await asyncio.wait_for(link.lost, TIMEOUT_S)
    theirs.close()
