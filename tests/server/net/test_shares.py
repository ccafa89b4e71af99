"""The time that addresses may use, with the time as an argument."""

from __future__ import annotations

import pytest

from reactor_runtime.server.net.limits import MOST_SOURCES, TokenBucket
from reactor_runtime.server.net.shares import (
    ADDRESS_AT_ONCE_S,
    ADDRESS_PER_S,
    AT_ONCE_S,
    BUSY_WITH_WHOLE_SHARES,
    LONGEST_REST_S,
    MOST_BUSY,
    POOL_PER_S,
    RESUMED_S,
    VIEWER_PER_S,
    Accounts,
    AddressShare,
    BusyAddresses,
    Share,
)


@pytest.fixture
def accounts() -> Accounts:
    return Accounts(exempt={"10.0.0.1"})


def test_an_address_uses_its_share_over_time_and_a_burst_after_a_rest(accounts: Accounts) -> None:
    share = accounts.of("192.0.2.1", 0.0)
    now, spent = 0.0, 0.0
    while now < 60:
        share.spend(now, 0.0005)
        spent += 0.0005
        now += 0.0005 + share.wait_s(now)
    assert spent == pytest.approx(ADDRESS_AT_ONCE_S + 60 * ADDRESS_PER_S, rel=0.1)


@pytest.mark.parametrize("addresses", [16, 200])
def test_many_addresses_together_get_hardly_more_than_five(accounts: Accounts, addresses: int) -> None:
    shares = [accounts.of(f"192.0.2.{number}", 0.0) for number in range(addresses)]
    now, spent = 0.0, 0.0
    while now < 20:
        for share in shares:
            if not share.wait_s(now):
                share.spend(now, 0.002)
                spent += 0.002
                now += 0.002
        now += 0.01
    per_s = BUSY_WITH_WHOLE_SHARES * ADDRESS_PER_S * max(1, addresses / MOST_BUSY)
    assert spent < 2 * ADDRESS_AT_ONCE_S + 20 * per_s * 1.1


def test_a_person_opens_the_page_while_many_addresses_are_busy(accounts: Accounts) -> None:
    for number in range(200):
        accounts.of(f"192.0.2.{number}", 0.0).spend(0.0, 0.5)
    share = accounts.of("198.51.100.1", 0.0)
    for _ in range(82):
        share.spend(0.0, 0.020 / 82)
    assert share.wait_s(0.0) == 0.0


def test_a_share_is_whole_again_after_the_others_have_been_busy(accounts: Accounts) -> None:
    shares = [accounts.of(f"192.0.2.{number}", 0.0) for number in range(16)]
    for share in shares:
        share.spend(0.0, 0.01)
    assert shares[0].left(0.5) == ADDRESS_AT_ONCE_S / 16
    shares[0].spend(100.0, 0.0)
    assert shares[0].left(100.0) == ADDRESS_AT_ONCE_S


def test_many_people_behind_one_address_open_the_page_at_once(accounts: Accounts) -> None:
    share = accounts.of("192.0.2.1", 0.0)
    # A load has 82 requests, and took 17 to 21 ms of CPU.
    for _ in range(48 * 82):
        share.spend(0.0, 0.020 / 82)
    assert share.wait_s(0.0) == 0.0


def test_all_connections_of_an_address_and_of_an_ipv6_network_have_one_share(accounts: Accounts) -> None:
    assert accounts.of("192.0.2.1", 0.0) is accounts.of_peer("192.0.2.1", 1.0)
    assert accounts.of("::ffff:192.0.2.1", 0.0) is accounts.of("192.0.2.1", 0.0)
    assert accounts.of("2001:db8::1", 0.0) is accounts.of("2001:db8::2", 0.0)
    assert accounts.of("2001:db8:0:1::1", 0.0) is not accounts.of("2001:db8::1", 0.0)


def test_an_address_with_a_debt_does_not_change_the_share_of_another(accounts: Accounts) -> None:
    accounts.of("192.0.2.1", 0.0).spend(0.0, 10.0)
    assert accounts.of("192.0.2.2", 0.0).wait_s(0.0) == 0.0


def test_a_proxy_has_no_limit_and_its_clients_have_one(accounts: Accounts) -> None:
    proxy = accounts.of_peer("10.0.0.1", 0.0)
    waits = 0.0
    for tick in range(1000):
        proxy.spend(tick / 100, 0.01)
        waits += proxy.wait_s(tick / 100)
    assert waits == 0.0
    # What a proxy asks for itself counts as one address.
    assert accounts.of("10.0.0.1", 0.0).per_s == ADDRESS_PER_S


def test_a_small_debt_is_looked_at_ten_times_a_second_at_most(accounts: Accounts) -> None:
    share = accounts.of("192.0.2.1", 0.0)
    share.spend(0.0, ADDRESS_AT_ONCE_S, interruptible=True)
    share.spend(0.0, 1e-6)
    assert share.wait_s(0.0) >= RESUMED_S / ADDRESS_PER_S
    assert share.wait_s(0.11) == 0.0


def test_long_work_on_the_loop_counts_more_than_on_a_thread() -> None:
    shares = [AddressShare(BusyAddresses(), TokenBucket(0, 0), 0.0) for _ in range(2)]
    shares[0].spend(0.0, 0.01)
    shares[1].spend(0.0, 0.01, interruptible=True)
    assert shares[0].left(0.0) == pytest.approx(ADDRESS_AT_ONCE_S - 0.01 - 5 * 0.008)
    assert shares[1].left(0.0) == pytest.approx(ADDRESS_AT_ONCE_S - 0.01)
    assert [share.spent_s for share in shares] == [0.01, 0.01]


def test_a_socket_uses_its_own_share_then_that_of_its_address_then_the_pool() -> None:
    pool = TokenBucket(0, POOL_PER_S)
    address = AddressShare(BusyAddresses(), pool, 0.0)
    socket = Share(0.005, address, 0.0)
    served = 0
    while not socket.spend(0.0, 0.001):
        served += 1
    assert served * 0.001 == pytest.approx(AT_ONCE_S + ADDRESS_AT_ONCE_S + POOL_PER_S, abs=0.01)
    assert address.left(0.0) == pytest.approx(0.0, abs=0.002)


def test_long_work_is_not_lent_and_pauses_for_a_second_at_most() -> None:
    pool = TokenBucket(0, POOL_PER_S)
    address = AddressShare(BusyAddresses(), pool, 0.0)
    socket = Share(0.005, address, 0.0)
    assert socket.spend(0.0, 0.05) == LONGEST_REST_S
    assert address.left(0.0) == ADDRESS_AT_ONCE_S
    assert pool.take(0.0, POOL_PER_S)


def test_requests_use_nothing_of_the_pool() -> None:
    pool = TokenBucket(0, POOL_PER_S)
    address = AddressShare(BusyAddresses(), pool, 0.0)
    while not address.spend(0.0, 0.001):
        pass
    assert pool.take(0.0, POOL_PER_S)


def test_the_one_that_used_least_of_its_share_is_first_however_large_the_shares_are() -> None:
    address, socket = AddressShare(BusyAddresses(), TokenBucket(0, 0), 0.0), Share(0.005, TokenBucket(0, 0), 0.0)
    address.spend(0.0, 0.01)
    assert address.left(0.0) > socket.left(0.0)
    assert address.part_left(0.0) < socket.part_left(0.0)


def test_only_addresses_with_a_recent_use_are_kept(accounts: Accounts) -> None:
    for number in range(2 * MOST_SOURCES):
        accounts.of(f"host-{number}", 0.0).spend(0.0, 0.01)
    assert len(accounts) == 2 * MOST_SOURCES
    spent = accounts.of("host-0", 1000.0)
    spent.spend(1000.0, 0.01)
    for number in range(2 * MOST_SOURCES):
        accounts.of(f"other-{number}", 1000.0).spend(1000.0, 0.01)
    assert len(accounts) <= 2 * MOST_SOURCES + 1
    assert accounts.of("host-0", 1000.0) is spent


def test_a_client_that_connects_again_has_what_it_left_of_its_share() -> None:
    address = AddressShare(BusyAddresses(), TokenBucket(0, 0), 0.0)
    spent, now = 0.0, 0.0
    while now < 10.0:
        share = address.of_client(now)
        while share.left(now) > 0.001:
            share.spend(now, 0.001)
            spent += 0.001
        address.take_back(share, now)
        now += 0.1
    assert spent == pytest.approx(AT_ONCE_S + 10 * VIEWER_PER_S, rel=0.1)


def test_a_new_client_gets_the_share_with_the_least_left_at_the_rate_of_a_viewer() -> None:
    address = AddressShare(BusyAddresses(), TokenBucket(0, 0), 0.0)
    shares = [address.of_client(0.0) for _ in range(3)]
    for share, seconds in zip(shares, (0.001, 0.002, 0.0005), strict=True):
        # The rate of a controller.
        share.per_s = 1.0
        share.spend(0.0, seconds)
    for share in shares:
        address.take_back(share, 0.0)
    assert [address.of_client(0.0) for _ in range(3)] == [shares[1], shares[0], shares[2]]
    assert {share.per_s for share in shares} == {VIEWER_PER_S}


def test_a_returned_share_has_what_it_gained_at_its_former_rate() -> None:
    address = AddressShare(BusyAddresses(), TokenBucket(0, 0), 0.0)
    share = address.of_client(0.0)
    share.per_s = 1.0
    share.spend(0.0, 0.05, interruptible=True)
    address.take_back(share, 0.02)
    assert share.left(0.02) == pytest.approx(AT_ONCE_S - 0.03)


def test_clients_at_the_same_time_have_a_share_each_and_one_that_rested_is_whole() -> None:
    address = AddressShare(BusyAddresses(), TokenBucket(0, 0), 0.0)
    shares = [address.of_client(0.0) for _ in range(3)]
    for share in shares:
        share.spend(0.0, 0.001)
        share.spend(0.0, 0.001)
        address.take_back(share, 0.0)
    assert not address.is_whole(0.0)
    assert {address.of_client(0.0) for _ in range(4)} > set(shares)
    assert address.is_whole(10.0)
