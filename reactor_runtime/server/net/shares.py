"""The time of the event loop that an address may use, for all that it sends: handshakes, requests, messages. Pure."""

from __future__ import annotations

from collections.abc import Container
from typing import Protocol

from reactor_runtime.network import network_of
from reactor_runtime.server.net.limits import MOST_SOURCES, TokenBucket

ADDRESS_PER_S = 0.05
# Enough for several people behind one address who open the page.
ADDRESS_AT_ONCE_S = 1.0
# So many addresses at once that use more than this of a second have whole shares; more divide the same time.
BUSY_S, BUSY_WITH_WHOLE_SHARES = 0.005, 5
# With more, a share would be too small for the page.
MOST_BUSY = 32
AT_ONCE_S = 0.1
# Of a client that may not send to a model.
VIEWER_PER_S = 0.005
POOL_PER_S = 0.1
# More than a thread can spend, even if long work counts more.
PROXY_PER_S = 10.0
TURN_S = 0.002
LONG_WORK = 5.0
LONGEST_REST_S = 1.0
# So much of its responses an address may leave unread. With more its requests wait, and are tried again later.
MOST_UNREAD_BYTES = 64 << 20
UNREAD_RETRY_S = 0.1
# An address is read again when it has so much time again: it is looked at ten times a second, however small its debt.
RESUMED_S = 0.005


class Lender(Protocol):
    """Lend time beyond a share."""

    def take(self, now: float, cost: float) -> bool:
        """Take time and return True; take none and return False when less is left."""


class Share:
    """Limit the time spent for an address, or for one of its clients, to `per_s`, and to more if it is lent.

    Work that can't be interrupted delays all clients: time above 2 ms counts five times more, and is never lent. Time
    is CPU time of the thread, so that a busy machine does not count.
    """

    def __init__(self, per_s: float, lender: Lender, now: float, at_once_s: float = AT_ONCE_S) -> None:
        self.per_s = per_s
        # Below 0 it is a debt.
        self.left_s = self._at_once_s = at_once_s
        # All time so far, without the extra charge for long work.
        self.spent_s = 0.0
        self._lender = lender
        self._at = now

    def spend(self, now: float, seconds: float, *, interruptible: bool = False) -> float:
        """Charge for work; return for how long to pause reading, usually 0."""
        self.spent_s += seconds
        long_s = 0.0 if interruptible else max(0.0, seconds - TURN_S)
        self.left_s = self.left(now) - seconds - LONG_WORK * long_s
        if self.left_s >= 0:
            return 0.0
        if not long_s and self._lender.take(now, -self.left_s):
            self.left_s = 0.0
            return 0.0
        return min(LONGEST_REST_S, -self.left_s / self.per_s)

    def wait_s(self, now: float) -> float:
        """Return for how long nothing of the address may be read, 0 unless it has a debt."""
        left_s = self.left(now)
        return 0.0 if left_s >= 0 else min(LONGEST_REST_S, (RESUMED_S - left_s) / self.per_s)

    def part_left(self, now: float) -> float:
        """Return the part of the share that is left: 1 is all of it, below 0 is a debt."""
        return self.left(now) / self._at_once_s

    def left(self, now: float) -> float:
        """Return how many seconds are left."""
        self.left_s = min(self._at_once_s, self.left_s + (now - self._at) * self.per_s)
        self._at = now
        return self.left_s


class BusyAddresses:
    """Count the addresses that are busy: in this second, or in the one before, they used more than 5 ms of the loop."""

    def __init__(self) -> None:
        self._began = 0.0
        self._before = self._count = 0
        self._spent_s: dict[AddressShare, float] = {}

    @property
    def size(self) -> int:
        """Return the number of busy addresses, from 1 to 32."""
        return max(1, min(MOST_BUSY, max(self._before, self._count)))

    def spend(self, share: AddressShare, now: float, seconds: float) -> None:
        """Count the time that an address has used."""
        if now - self._began >= 1.0:
            self._before = self._count if now - self._began < 2.0 else 0
            self._began, self._count, self._spent_s = now, 0, {}
        before_s = self._spent_s.get(share, 0.0)
        self._spent_s[share] = before_s + seconds
        self._count += before_s <= BUSY_S < before_s + seconds


class AddressShare(Share):
    """Limit the time for the requests and handshakes of an address; its WebSockets borrow from it beyond their own.

    While more than five addresses are `busy` they divide the time of five, and what one may use at once is divided by
    their number: somebody with 16 addresses gets no more than with five.
    `unread_bytes` of its responses wait until its sockets take them.
    """

    def __init__(self, busy: BusyAddresses, pool: TokenBucket, now: float, per_s: float = ADDRESS_PER_S) -> None:
        super().__init__(per_s, TokenBucket(0, 0), now, ADDRESS_AT_ONCE_S)
        self.unread_bytes = 0
        self._busy = busy
        self._pool = pool
        # The shares of clients that have gone, which are not whole again.
        self._returned: list[Share] = []

    def spend(self, now: float, seconds: float, *, interruptible: bool = False) -> float:
        self._busy.spend(self, now, seconds)
        return super().spend(now, seconds, interruptible=interruptible)

    def left(self, now: float) -> float:
        count = self._busy.size
        per_s = self.per_s * min(1.0, BUSY_WITH_WHOLE_SHARES / count)
        self.left_s = min(self._at_once_s / count, self.left_s + (now - self._at) * per_s)
        self._at = now
        return self.left_s

    def wait_s(self, now: float) -> float:
        """Return for how long nothing may be read: while the address has a debt, or leaves too much unread."""
        return max(super().wait_s(now), UNREAD_RETRY_S if self.unread_bytes > MOST_UNREAD_BYTES else 0.0)

    def take(self, now: float, cost: float) -> bool:
        """Lend a WebSocket time from this share, or else from the pool of all addresses."""
        if cost > self.left(now):
            return self._pool.take(now, cost)
        self.left_s -= cost
        return True

    def of_client(self, now: float) -> Share:
        """Return the share of a new client: that of one that has gone, with the least left, if there is one.

        Otherwise a client that connects again and again would have a whole share each time.
        """
        self._forget_whole(now)
        if not self._returned:
            return Share(VIEWER_PER_S, self, now)
        share = min(self._returned, key=lambda each: each.left_s)
        self._returned.remove(share)
        return share

    def take_back(self, share: Share, now: float) -> None:
        """Keep the share of a client that has gone until it is whole again."""
        share.left(now)
        share.per_s = VIEWER_PER_S
        self._returned.append(share)
        self._forget_whole(now)

    def is_whole(self, now: float) -> bool:
        """Return whether a new share would be the same."""
        self._forget_whole(now)
        return not self._returned and not self.unread_bytes and self.left(now) >= ADDRESS_AT_ONCE_S

    def _forget_whole(self, now: float) -> None:
        self._returned = [each for each in self._returned if each.part_left(now) < 1]


class Accounts:
    """Keep the shares of all addresses. An IPv6 network is one address; the `exempt` ones, proxies, have no limit."""

    def __init__(self, exempt: Container[str] = frozenset()) -> None:
        self._exempt = exempt
        self._busy = BusyAddresses()
        self._pool = TokenBucket(POOL_PER_S, POOL_PER_S)
        self._shares: dict[str, AddressShare] = {}
        self._most = MOST_SOURCES

    def of_peer(self, address: str, now: float) -> AddressShare:
        """Return the share of the other end of a connection."""
        exempt = address in self._exempt
        return AddressShare(BusyAddresses(), self._pool, now, PROXY_PER_S) if exempt else self.of(address, now)

    def of(self, address: str, now: float) -> AddressShare:
        """Return the share of a client."""
        network = network_of(address)
        share = self._shares.get(network)
        if share is None:
            if len(self._shares) >= self._most:
                # A share that is whole again need not be kept: a new one is the same.
                self._shares = {each: old for each, old in self._shares.items() if not old.is_whole(now)}
                self._most = max(MOST_SOURCES, 2 * len(self._shares))
            share = self._shares[network] = AddressShare(self._busy, self._pool, now)
        return share

    def __len__(self) -> int:
        return len(self._shares)
