from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactor_runtime.network import network_of
from reactor_runtime.server.net.limits import (
    MESSAGES_AT_ONCE,
    MESSAGES_PER_S,
    MOST_SOURCES,
    OVER_S,
    Budget,
    ConnectionLimiter,
    ConnectionPace,
    TokenBucket,
)


def test_a_pause_allows_a_burst() -> None:
    rate = TokenBucket(10, 5)
    assert [rate.take(0.0) for _ in range(7)] == [True] * 5 + [False] * 2
    assert rate.take(0.1)
    assert not rate.take(0.1)
    assert [rate.take(100.0) for _ in range(6)] == [True] * 5 + [False]


def test_a_refused_message_takes_no_tokens() -> None:
    rate = TokenBucket(1, 10)
    assert not rate.take(0.0, 11)
    assert rate.take(0.0, 10)


def test_time_above_the_rate_is_measured_until_a_pause() -> None:
    rate = TokenBucket(10, 10)
    taken = [rate.take(tenth / 100) for tenth in range(500)]  # 100 a second for 5 s
    assert 0 < taken.count(True) <= 61
    assert rate.over_s == pytest.approx(4.9, abs=0.2)
    assert all(rate.take(4.99 + second) for second in range(2, 20))
    assert not rate.take(23.0, 100)
    assert rate.over_s == 0.0


@given(st.lists(st.floats(0, 0.5), min_size=1, max_size=200))
def test_no_more_tokens_are_taken_than_the_rate_and_a_burst(gaps: list[float]) -> None:
    rate, now, taken = TokenBucket(20, 30), 0.0, 0
    for gap in gaps:
        now += gap
        taken += rate.take(now)
    assert taken <= 30 + 20 * now + 1e-6


def test_the_page_with_a_camera_at_60_fps_stays_far_below_the_rate() -> None:
    rate = TokenBucket(MESSAGES_PER_S, MESSAGES_AT_ONCE)
    a_second = 60 + 4 * 60 + 2 * 60 + 1  # pictures, acknowledgements of four tracks, two sliders in motion, a ping
    assert all(rate.take(n / a_second) for n in range(int(a_second * 2 * OVER_S)))
    assert a_second < MESSAGES_PER_S / 2


def test_a_budget_is_spent_and_given_back() -> None:
    budget = Budget(10)
    assert [budget.take(size) for size in (6, 5, 4)] == [True, False, True]
    budget.give_back(6)
    assert [budget.take(size) for size in (7, 6)] == [False, True]


def test_the_limit_counts_each_address_separately() -> None:
    limiter = ConnectionLimiter(2)
    assert [limiter.enter("192.0.2.1", who) for who in "abc"] == [True, True, False]
    assert limiter.enter("192.0.2.1", "a")
    assert limiter.enter("192.0.2.2", "c")
    limiter.leave("192.0.2.1", "c")  # it was never let in
    assert not limiter.enter("192.0.2.1", "d")
    limiter.leave("192.0.2.1", "a")
    assert limiter.enter("192.0.2.1", "d")


def test_an_ipv6_network_counts_as_one_address() -> None:
    limiter = ConnectionLimiter(1)
    assert limiter.enter("2001:db8::1", "a")
    assert not limiter.enter("2001:db8::2", "b")
    assert limiter.enter("2001:db8:0:1::1", "c")
    assert limiter.enter("fe80::1%eth0", "d")


def test_exempt_addresses_are_not_counted() -> None:
    limiter = ConnectionLimiter(1, exempt={"10.0.0.1"})
    assert all(limiter.enter("10.0.0.1", who) for who in "abc")
    assert len(limiter) == 0


def test_nothing_is_kept_of_connections_that_have_closed() -> None:
    limiter = ConnectionLimiter(5)
    for number in range(100):
        limiter.enter(f"192.0.2.{number}", number)
        limiter.leave(f"192.0.2.{number}", number)
    assert len(limiter) == 0
    assert limiter._connections == {}


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),  # IPv4 at a socket that takes both: not all of IPv4 is one network
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("not:an:address", "not:an:address"),
    ],
)
def test_addresses_map_to_networks(address: str, network: str) -> None:
    assert network_of(address) == network


def test_connections_of_a_source_wait_after_the_first_few() -> None:
    pace = ConnectionPace(10, 3)
    assert [pace.wait_s("a", 100.0) for _ in range(5)] == pytest.approx([0, 0, 0, 0.1, 0.2])
    assert pace.wait_s("b", 100.0) == 0
    assert pace.wait_s("a", 100.1) == pytest.approx(0.2)
    assert [pace.wait_s("a", 200.0) for _ in range(4)] == pytest.approx([0, 0, 0, 0.1])


def test_sources_are_forgotten_when_their_connections_need_not_wait() -> None:
    pace = ConnectionPace(10, 1)
    for source in range(5000):
        assert pace.wait_s(str(source), float(source)) == 0
        assert len(pace._next) <= MOST_SOURCES
    assert pace.wait_s("4999", 4999.0) == pytest.approx(0.1)
