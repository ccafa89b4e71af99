from __future__ import annotations

from collections.abc import Callable

import pytest

from reactor_runtime.server.net.limits import TokenBucket
from reactor_runtime.server.net.reading import AT_ONCE_S, POOL_PER_S, TURN_S, Reading, Share
from tests.fakes import FakeClock


class Socket:
    """A socket whose slices take so long, as many as there are."""

    def __init__(self, clock: FakeClock, reading: Reading, slices: int, slice_s: float = 0.26 * TURN_S) -> None:
        self.share = Share(0.005, reading.pool, clock.now())
        self.slices = slices
        self._clock = clock
        self._slice_s = slice_s

    def read_slice(self) -> bool:
        self.slices -= 1
        self._clock.spend(self._slice_s)
        self.share.spend(self._clock.now(), self._slice_s)
        return self.slices > 0


class Turns:
    """A loop whose turns the test makes."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.calls: list[Callable[[], None]] = []
        self.reading = Reading(self.clock.now, self.calls.append)

    def socket(self, slices: int) -> Socket:
        return Socket(self.clock, self.reading, slices)

    def turn(self) -> None:
        calls, self.calls[:] = list(self.calls), []
        for call in calls:
            call()


def test_what_is_little_is_read_at_once() -> None:
    turns = Turns()
    socket = turns.socket(1)
    turns.reading.read(socket)
    assert socket.slices == 0


def test_what_is_much_is_read_for_two_milliseconds_a_turn() -> None:
    turns = Turns()
    socket = turns.socket(10)
    turns.reading.read(socket)
    left = [socket.slices]
    while turns.calls:
        turns.turn()
        left.append(socket.slices)
    assert left[:3] == [6, 2, 0]


def test_a_client_that_sends_little_is_read_before_many_that_send_much() -> None:
    turns = Turns()
    many = [turns.socket(100) for _ in range(20)]
    for socket in many:
        turns.reading.read(socket)
    for _ in many:
        turns.turn()
    light = turns.socket(1)
    turns.reading.read(light)
    assert light.slices == 1
    turns.turn()
    assert light.slices == 0


def test_a_socket_that_is_forgotten_is_read_no_more() -> None:
    turns = Turns()
    socket = turns.socket(100)
    turns.reading.read(socket)
    turns.reading.forget(socket)
    while turns.calls:
        turns.turn()
    assert socket.slices == 96


def test_a_client_within_its_share_never_rests() -> None:
    share = Share(0.005, TokenBucket(0, 0), 0.0)
    assert [share.spend(second / 10, 0.0005) for second in range(1000)] == [0.0] * 1000


def test_a_client_over_its_share_rests_until_it_has_paid() -> None:
    share = Share(0.05, TokenBucket(0, 0), 0.0)
    now, spent, rests = 0.0, 0.0, 0
    while now < 60:
        rest = share.spend(now, 0.001)
        spent += 0.001
        rests += rest > 0
        now += 0.001 + rest
    assert rests > 100
    assert spent <= AT_ONCE_S + 0.05 * 60 + 0.002


def test_a_pool_serves_those_over_their_share() -> None:
    pool = TokenBucket(POOL_PER_S, POOL_PER_S)
    shares = [Share(0.005, pool, 0.0) for _ in range(2)]
    served = sum(share.spend(0.0, 0.001) == 0 for share in shares * 1000)
    assert served * 0.001 == pytest.approx(2 * AT_ONCE_S + POOL_PER_S, abs=0.01)


def test_long_work_counts_more_and_never_from_the_pool() -> None:
    share = Share(0.05, TokenBucket(POOL_PER_S, POOL_PER_S), 0.0)
    rests = [share.spend(0.0, 0.02) for _ in range(2)]
    assert rests[0] > 0
    assert rests[1] > rests[0] or rests[1] == 1.0
