"""How much a client may send, and how many of one address there may be; sans clock, sans socket."""

from __future__ import annotations

import ipaddress
from collections.abc import Container, Hashable

MESSAGES_PER_S = 1000.0
MESSAGES_AT_ONCE = 3000.0
TEXT_BYTES_A_MESSAGE = 4096  # a long message is read at the price of several short ones
MEDIA_BYTES_A_MESSAGE = 65_536
OVER_S = 10.0
PINGS_PER_S = 50.0  # and pongs: both are dealt with below the messages
PINGS_AT_ONCE = 500.0
PIECES_PER_S = 2000.0  # of messages in several parts
PIECES_AT_ONCE = 20_000.0
LULL_S = 1.0
IPV6_NETWORK_BITS = 64  # what one subscriber gets
LINE_EACH_S = 60.0
MOST_SOURCES = 1000


class TokenBucket:
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


class Budget:
    """Count bytes that are held for all clients together, at most `most` of them."""

    def __init__(self, most: int) -> None:
        self.left = most

    def take(self, size_bytes: int) -> bool:
        """Reserve room for so many bytes; False when there is none."""
        if size_bytes > self.left:
            return False
        self.left -= size_bytes
        return True

    def give_back(self, size_bytes: int) -> None:
        self.left += size_bytes


class ConnectionLimiter:
    """Count who is here by address, an IPv6 network as one; at most `most` of each, except from `exempt` ones."""

    def __init__(self, most: int, exempt: Container[str] = frozenset()) -> None:
        self.most = most
        self._exempt = exempt
        self._here: dict[str, set[Hashable]] = {}

    def enter(self, address: str, who: Hashable) -> bool:
        """Let somebody in, who may be in already; False when there are too many of that address."""
        if address in self._exempt:
            return True
        here = self._here.setdefault(network_of(address), set())
        if who not in here and len(here) >= self.most:
            return False
        here.add(who)
        return True

    def is_exempt(self, address: str) -> bool:
        return address in self._exempt

    def leave(self, address: str, who: Hashable) -> None:
        """Forget somebody; nothing happens for those never let in."""
        network = network_of(address)
        here = self._here.get(network)
        if here is not None:
            here.discard(who)
            if not here:
                del self._here[network]

    def __len__(self) -> int:
        return sum(map(len, self._here.values()))


class ConnectionPace:
    """Say how long each of many has to wait so that a source has no more than so many a second, after a few at once."""

    def __init__(self, per_s: float, at_once: int) -> None:
        self._interval_s = 1 / per_s
        self._saved_s = (at_once - 1) / per_s
        self._next: dict[str, float] = {}

    def wait_s(self, source: str, now: float) -> float:
        """Take the next place of a source; returns how many seconds it is away."""
        if source not in self._next and len(self._next) >= MOST_SOURCES:
            self._next = {each: at for each, at in self._next.items() if at > now - self._saved_s}
        at = max(self._next.get(source, float("-inf")), now - self._saved_s)
        self._next[source] = at + self._interval_s
        return max(0.0, at - now)


class LineLimit:
    """Allow one line of the log for each source and minute; at most 1,000 sources have lines within a minute."""

    def __init__(self) -> None:
        self._sources: dict[str, tuple[float, int]] = {}

    def take(self, source: str, now: float) -> int:
        """Count one event; return how many there were since the last line if a line is due, 0 otherwise."""
        logged_at, count = self._sources.get(source, (float("-inf"), 0))
        if now - logged_at < LINE_EACH_S:
            self._sources[source] = logged_at, count + 1
            return 0
        if source not in self._sources and len(self._sources) >= MOST_SOURCES:
            recent = {each: line for each, line in self._sources.items() if now - line[0] < LINE_EACH_S}
            self._sources = recent
            if len(recent) >= MOST_SOURCES:
                return 0
        self._sources[source] = now, 0
        return count + 1


def network_of(address: str) -> str:
    """Return what counts as one address: an IPv4 address, also one written as IPv6, or an IPv6 network."""
    if ":" not in address:
        return address
    try:
        parsed = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, IPV6_NETWORK_BITS), strict=False))
