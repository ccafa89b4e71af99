from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from reactor_runtime.ipc.channel import Channel
from reactor_runtime.ipc.messages import Loading, StateChanged
from reactor_runtime.ipc.server_gone import ServerGone
from tests.timeouts import TIMEOUT_S


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Channel(ours), Channel(theirs)


def test_messages_arrive_in_order_until_the_other_side_finishes(ends: tuple[Channel, Channel]) -> None:
    ours, theirs = ends
    for number in range(3):
        ours.send(Loading(f"line {number}"), slot=number)
    ours.finish()
    assert list(theirs) == [(0, Loading("line 0")), (1, Loading("line 1")), (2, Loading("line 2"))]


def test_threads_never_mix_their_messages(ends: tuple[Channel, Channel]) -> None:
    ours, theirs = ends
    each = [StateChanged("s", {"text": letter * 5000}) for letter in "abcd"]

    def send(message: StateChanged) -> None:
        for _ in range(50):
            ours.send(message)

    threads = [threading.Thread(target=send, args=(message,)) for message in each]
    for thread in threads:
        thread.start()
    incoming = iter(theirs)
    received = [next(incoming)[1] for _ in range(200)]
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert all(received.count(message) == 50 for message in each)


def test_an_end_that_has_finished_sends_nothing_and_receives(ends: tuple[Channel, Channel]) -> None:
    ours, theirs = ends
    ours.send(Loading("last"))
    ours.finish()
    ours.send(Loading("late"))
    theirs.send(Loading("back"))
    assert list(theirs) == [(0, Loading("last"))]
    assert next(iter(ours)) == (0, Loading("back"))


def test_send_raises_when_the_other_end_is_closed() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        channel = Channel(ours)
        theirs.close()
        with pytest.raises(ServerGone):
            channel.send(Loading("hello"))
        assert list(channel) == []
        channel.finish()


def test_a_forked_child_sends_nothing_and_does_not_hold_the_connection_open() -> None:
    ours, theirs = socket.socketpair()
    parent, child, other = Channel(ours), Channel(ours.dup()), Channel(theirs)
    child.close_in_child()
    child.send(Loading("from the child"))
    parent.send(Loading("from the parent"))
    ours.close()
    assert list(other) == [(0, Loading("from the parent"))]
    theirs.close()


def test_a_fork_while_a_thread_sends_does_not_lock_the_child() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        channel = Channel(ours)
        with channel._lock:
            channel.close_in_child()
            channel.send(Loading("hello"))


def test_programs_that_are_started_do_not_inherit_the_socket() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.set_inheritable(True)
        Channel(ours)
        assert not ours.get_inheritable()
