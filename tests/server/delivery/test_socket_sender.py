from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from reactor_runtime.server.delivery.options import ClientOptions
from reactor_runtime.server.delivery.outbox import Item, Outbox
from reactor_runtime.server.delivery.socket_sender import SocketSender
from reactor_runtime.server.encoding.encoded import EncodedFrame
from reactor_runtime.wire.messages import View
from tests.fakes import FakeClock, frame_of, settle


class OneItemSocket:
    """A socket that takes one item, then nothing until `drain`."""

    def __init__(self) -> None:
        self._on_writable: Callable[[], object] | None = None
        self.ready = True
        self.posted: list[str | bytes] = []

    def post(self, item: str | bytes) -> None:
        assert self.ready, "nothing is posted to a socket that is not ready"
        self.posted.append(item)
        self.ready = False

    def notify_writable(self, on_writable: Callable[[], object] | None) -> None:
        self._on_writable = on_writable

    def drain(self) -> None:
        self.ready = True
        if self._on_writable is not None:
            self._on_writable()


class RunningSender:
    """A sender that runs between an outbox and a socket."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.outbox = Outbox(ClientOptions(self.clock))
        self.socket = OneItemSocket()
        self.sent: list[tuple[Item, float]] = []
        sender = SocketSender(
            self.outbox, self.socket, self.clock, lambda item, send_s: self.sent.append((item, send_s))
        )
        self.running = asyncio.create_task(sender.run())


@pytest.fixture
async def running() -> AsyncIterator[RunningSender]:
    running = RunningSender()
    await settle()
    yield running
    running.running.cancel()
    await asyncio.gather(running.running, return_exceptions=True)


def frame(seq: int) -> EncodedFrame:
    return frame_of(seq, b"%d" % seq)


async def test_a_queued_frame_is_posted_in_the_same_turn_of_the_loop(running: RunningSender) -> None:
    running.outbox.offer_frame(frame(1))
    assert running.socket.posted == [b"1"]


async def test_items_queued_before_the_sender_ran_are_sent(running: RunningSender) -> None:
    other = RunningSender()
    other.outbox.queue_message("early")
    await settle()
    assert other.socket.posted == ["early"]
    other.running.cancel()
    await asyncio.gather(other.running, return_exceptions=True)
    assert running.socket.posted == []


async def test_a_busy_socket_gets_the_newest_frame_when_it_is_ready(running: RunningSender) -> None:
    for seq in range(4):
        running.outbox.offer_frame(frame(seq))
    assert running.socket.posted == [b"0"]
    running.socket.drain()
    assert running.socket.posted == [b"0", b"3"]


async def test_the_time_until_the_socket_is_ready_is_reported(running: RunningSender) -> None:
    running.outbox.queue_message("slow")
    running.clock.spend(0.25)
    running.socket.drain()
    ((item, send_s),) = running.sent
    assert (item, round(send_s, 6)) == ("slow", 0.25)


async def test_a_frame_that_waits_for_the_rate_is_sent_at_its_time(running: RunningSender) -> None:
    running.outbox.set_view(View(max_fps=10.0))
    for seq in (1, 2):
        running.outbox.offer_frame(frame(seq))
        running.socket.drain()
    assert running.socket.posted == [b"1"]
    await running.clock.advance(0.15)
    assert running.socket.posted == [b"1", b"2"]


async def test_the_sender_ends_after_the_last_message_of_a_finished_outbox(running: RunningSender) -> None:
    for text in ("one", "two"):
        running.outbox.queue_message(text)
    running.outbox.finish()
    await settle()
    assert not running.running.done()
    running.socket.drain()
    running.socket.drain()
    await settle()
    assert running.running.done()
    assert running.socket.posted == ["one", "two"]
