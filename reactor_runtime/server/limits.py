"""How much a client may send, and how many of one address there may be; sans clock, sans socket."""

from __future__ import annotations

import ipaddress
from collections.abc import Container, Hashable

MESSAGES_PER_S = 1000.0
MESSAGES_AT_ONCE = 3000.0
TEXT_BYTES_A_MESSAGE = 4096  # a long text is read at the price of several short ones
OVER_S = 10.0
PINGS_PER_S = 50.0  # and pongs: both are dealt with below the messages
PINGS_AT_ONCE = 500.0
PIECES_PER_S = 2000.0  # of messages in several parts
PIECES_AT_ONCE = 20_000.0
LULL_S = 1.0
IPV6_NETWORK_BITS = 64  # what one subscriber gets


class Rate:
    """Allow so much a second in the long run, and `at_once` after a rest."""

    def __init__(self, per_s: float, at_once: float) -> None:
        self._per_s = per_s
        self._at_once = self._left = at_once
        self._at: float | None = None
        self._over_since: float | None = None
        self._over_at = 0.0

    def take(self, now: float, cost: float = 1.0) -> bool:
        """Tell whether there is room for what comes now; what comes above the rate takes none."""
        if self._at is not None:
            self._left = min(self._at_once, self._left + (now - self._at) * self._per_s)
        self._at = now
        if cost <= self._left:
            self._left -= cost
            return True
        if self._over_since is None or now - self._over_at > LULL_S:
            self._over_since = now
        self._over_at = now
        return False

    @property
    def over_s(self) -> float:
        """How long the rate has been exceeded without a second's lull, in seconds, as of the last time it was."""
        return 0.0 if self._over_since is None else self._over_at - self._over_since


class Crowd:
    """Count who is here by address, an IPv6 network as one; at most `most` of each, except from `exempt` ones."""

    def __init__(self, most: int, exempt: Container[str] = frozenset()) -> None:
        self._most = most
        self._exempt = exempt
        self._here: dict[str, set[Hashable]] = {}

    def enter(self, address: str, who: Hashable) -> bool:
        """Let somebody in, who may be in already; False when there are too many of that address."""
        if address in self._exempt:
            return True
        here = self._here.setdefault(_network(address), set())
        if who not in here and len(here) >= self._most:
            return False
        here.add(who)
        return True

    def leave(self, address: str, who: Hashable) -> None:
        """Forget somebody; nothing happens for those never let in."""
        network = _network(address)
        here = self._here.get(network)
        if here is not None:
            here.discard(who)
            if not here:
                del self._here[network]

    def __len__(self) -> int:
        return sum(map(len, self._here.values()))


def _network(address: str) -> str:
    if ":" not in address:
        return address
    try:
        return str(ipaddress.ip_network((address.partition("%")[0], IPV6_NETWORK_BITS), strict=False))
    except ValueError:
        return address
