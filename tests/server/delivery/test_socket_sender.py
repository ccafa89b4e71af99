from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from reactor_runtime.server.delivery.outbox import Outbox
from reactor_runtime.server.delivery.socket_sender import SocketSender
from reactor_runtime.server.encoding.encoded import EncodedFrame
from reactor_runtime.wire.messages import View
from tests.fakes import FakeClock, settle


class Slot:
    """A socket that takes one thing, then nothing until what it took is on its way."""

    def __init__(self) -> None:
        self._on_writable: Callable[[], object] | None = None
        self.ready = True
        self.posted: list[str | bytes] = []

    def post(self, item: str | bytes) -> None:
        assert self.ready, "nothing is posted to a socket that takes nothing"
        self.posted.append(item)
        self.ready = False

    def notify_writable(self, on_writable: Callable[[], object] | None) -> None:
        self._on_writable = on_writable

    def drain(self) -> None:
        self.ready = True
        if self._on_writable is not None:
            self._on_writable()


class Post:
    """A sender between an outbox and such a socket, running."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.outbox = Outbox(self.clock)
        self.socket = Slot()
        self.sent: list[tuple[str | bytes, float]] = []
        sender = SocketSender(
            self.outbox, self.socket, self.clock, lambda item, send_s: self.sent.append((item, send_s))
        )
        self.running = asyncio.create_task(sender.run())


@pytest.fixture
async def post() -> AsyncIterator[Post]:
    post = Post()
    await settle()
    yield post
    post.running.cancel()
    await asyncio.gather(post.running, return_exceptions=True)


def frame(seq: int) -> EncodedFrame:
    return EncodedFrame("video", seq, b"%d" % seq, 0.1)


async def test_what_is_put_into_the_outbox_is_on_the_socket_before_the_loop_turns(post: Post) -> None:
    post.outbox.offer_frame(frame(1))
    assert post.socket.posted == [b"1"]


async def test_what_was_put_before_the_sender_ran_is_sent(post: Post) -> None:
    other = Post()
    other.outbox.queue_message("early")
    await settle()
    assert other.socket.posted == ["early"]
    other.running.cancel()
    await asyncio.gather(other.running, return_exceptions=True)
    assert post.socket.posted == []


async def test_a_socket_that_is_not_ready_gets_the_newest_frame_when_it_is(post: Post) -> None:
    for seq in range(4):
        post.outbox.offer_frame(frame(seq))
    assert post.socket.posted == [b"0"]
    post.socket.drain()
    assert post.socket.posted == [b"0", b"3"]


async def test_the_time_an_item_took_is_kept(post: Post) -> None:
    post.outbox.queue_message("slow")
    post.clock.spend(0.25)
    post.socket.drain()
    ((item, send_s),) = post.sent
    assert (item, round(send_s, 6)) == ("slow", 0.25)


async def test_what_waits_for_its_time_is_sent_then(post: Post) -> None:
    post.outbox.set_view(View(max_fps=10.0))
    for seq in (1, 2):
        post.outbox.offer_frame(frame(seq))
        post.socket.drain()
    assert post.socket.posted == [b"1"]
    await post.clock.advance(0.15)
    assert post.socket.posted == [b"1", b"2"]


async def test_it_ends_when_what_is_left_of_a_finished_outbox_is_sent(post: Post) -> None:
    for text in ("one", "two"):
        post.outbox.queue_message(text)
    post.outbox.finish()
    await settle()
    assert not post.running.done()
    post.socket.drain()
    post.socket.drain()
    await settle()
    assert post.running.done()
    assert post.socket.posted == ["one", "two"]
