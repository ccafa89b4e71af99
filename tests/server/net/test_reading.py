from __future__ import annotations

from collections.abc import Callable

import pytest

from reactor_runtime.server.net.limits import TokenBucket
from reactor_runtime.server.net.reading import Reading
from reactor_runtime.server.net.shares import AT_ONCE_S, POOL_PER_S, TURN_S, Share
from tests.fakes import FakeClock


class Socket:
    """A socket with a number of slices, each of which takes `slice_s`."""

    def __init__(self, clock: FakeClock, slices: int, slice_s: float = 0.26 * TURN_S) -> None:
        self.share = Share(0.005, TokenBucket(POOL_PER_S, POOL_PER_S), clock.now())
        self.slices = slices
        self.aborted = False
        self._clock = clock
        self._slice_s = slice_s

    def read_slice(self) -> bool:
        self.slices -= 1
        self._clock.spend(self._slice_s)
        self.share.spend(self._clock.now(), self._slice_s)
        return self.slices > 0

    def abort(self) -> None:
        self.aborted = True


class Failing(Socket):
    def read_slice(self) -> bool:
        raise RuntimeError("a fault of ours")


class Iterations:
    """A loop whose iterations the test makes."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.calls: list[Callable[[], None]] = []
        self.reading = Reading(self.clock.now, self.calls.append)

    def socket(self, slices: int) -> Socket:
        return Socket(self.clock, slices)

    def iterate(self) -> None:
        calls, self.calls[:] = list(self.calls), []
        for call in calls:
            call()


def test_few_bytes_are_read_at_once() -> None:
    loop = Iterations()
    socket = loop.socket(1)
    loop.reading.read(socket)
    assert socket.slices == 0


def test_many_bytes_are_read_for_two_milliseconds_in_each_iteration() -> None:
    loop = Iterations()
    socket = loop.socket(10)
    loop.reading.read(socket)
    left = [socket.slices]
    while loop.calls:
        loop.iterate()
        left.append(socket.slices)
    assert left[:3] == [6, 2, 0]


def test_a_client_that_sends_little_is_read_before_many_that_send_much() -> None:
    loop = Iterations()
    many = [loop.socket(100) for _ in range(20)]
    for socket in many:
        loop.reading.read(socket)
    for _ in many:
        loop.iterate()
    light = loop.socket(1)
    loop.reading.read(light)
    assert light.slices == 1
    loop.iterate()
    assert light.slices == 0


def test_one_call_is_scheduled_for_all_sockets_that_wait() -> None:
    loop = Iterations()
    for _ in range(20):
        loop.reading.read(loop.socket(100))
        assert len(loop.calls) == 1
    loop.iterate()
    assert len(loop.calls) == 1


def test_a_forgotten_socket_is_not_read() -> None:
    loop = Iterations()
    socket = loop.socket(100)
    loop.reading.read(socket)
    loop.reading.forget(socket)
    while loop.calls:
        loop.iterate()
    assert socket.slices == 96


def test_a_socket_whose_reading_fails_is_aborted_and_the_others_are_read(caplog: pytest.LogCaptureFixture) -> None:
    loop = Iterations()
    before, after = loop.socket(100), loop.socket(1)
    loop.reading.read(before)
    failing = Failing(loop.clock, 1)
    loop.reading.read(failing)
    loop.reading.read(after)
    while loop.calls:
        loop.iterate()
    assert (failing.aborted, before.slices, after.slices) == (True, 0, 0)
    (record,) = caplog.records
    assert record.message == "reading a connection failed"
    caplog.clear()


def test_a_client_within_its_share_is_not_paused() -> None:
    share = Share(0.005, TokenBucket(0, 0), 0.0)
    assert [share.spend(second / 10, 0.0005) for second in range(1000)] == [0.0] * 1000


def test_a_client_above_its_share_is_paused_until_the_time_is_made_up() -> None:
    share = Share(0.05, TokenBucket(0, 0), 0.0)
    now, spent, rests = 0.0, 0.0, 0
    while now < 60:
        rest = share.spend(now, 0.001)
        spent += 0.001
        rests += rest > 0
        now += 0.001 + rest
    assert rests > 100
    assert spent <= AT_ONCE_S + 0.05 * 60 + 0.002


def test_a_client_above_its_share_takes_time_from_the_pool() -> None:
    pool = TokenBucket(POOL_PER_S, POOL_PER_S)
    shares = [Share(0.005, pool, 0.0) for _ in range(2)]
    served = sum(share.spend(0.0, 0.001) == 0 for share in shares * 1000)
    assert served * 0.001 == pytest.approx(2 * AT_ONCE_S + POOL_PER_S, abs=0.01)


def test_long_work_counts_more_and_never_from_the_pool() -> None:
    share = Share(0.05, TokenBucket(POOL_PER_S, POOL_PER_S), 0.0)
    rests = [share.spend(0.0, 0.02) for _ in range(2)]
    assert rests[0] > 0
    assert rests[1] > rests[0] or rests[1] == 1.0
