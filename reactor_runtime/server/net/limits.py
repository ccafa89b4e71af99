"""Limits: rates, bytes held, and connections of an address. Pure: the time is an argument."""

from __future__ import annotations

from collections.abc import Container, Hashable

from reactor_runtime.network import network_of

MESSAGES_PER_S = 1000.0
MESSAGES_AT_ONCE = 3000.0
# A longer message counts as several.
TEXT_BYTES_A_MESSAGE = 4096
MEDIA_BYTES_A_MESSAGE = 65_536
OVER_S = 10.0
# Pongs included.
PINGS_PER_S = 50.0
PINGS_AT_ONCE = 500.0
# Continuation frames.
PIECES_PER_S = 2000.0
PIECES_AT_ONCE = 20_000.0
LULL_S = 1.0
MOST_SOURCES = 1000


class TokenBucket:
    """Allow `per_s` on average, and up to `at_once` after a pause."""

    def __init__(self, per_s: float, at_once: float) -> None:
        self._per_s = per_s
        self._at_once = self._left = at_once
        self._at: float | None = None
        self._over_since: float | None = None
        self._over_at = 0.0

    def take(self, now: float, cost: float = 1.0) -> bool:
        """Take tokens and return True; take none and return False when fewer are left."""
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
        """Return for how many seconds the rate was exceeded, up to the last excess, without a pause of a second."""
        return 0.0 if self._over_since is None else self._over_at - self._over_since


class Budget:
    """Limit the bytes that are held for all clients together to `most`."""

    def __init__(self, most: int) -> None:
        self.left = most

    def take(self, size_bytes: int) -> bool:
        """Reserve bytes and return True; reserve none and return False when fewer are left."""
        if size_bytes > self.left:
            return False
        self.left -= size_bytes
        return True

    def give_back(self, size_bytes: int) -> None:
        self.left += size_bytes


class ConnectionLimiter:
    """Limit the connections of each address to `most`, except `exempt` ones; an IPv6 network counts as one address."""

    def __init__(self, most: int, exempt: Container[str] = frozenset()) -> None:
        self.most = most
        self._exempt = exempt
        self._connections: dict[str, set[Hashable]] = {}

    def enter(self, address: str, connection: Hashable) -> bool:
        """Count a connection, once; return False, and do not count it, above the limit."""
        if address in self._exempt:
            return True
        counted = self._connections.setdefault(network_of(address), set())
        if connection not in counted and len(counted) >= self.most:
            return False
        counted.add(connection)
        return True

    def is_exempt(self, address: str) -> bool:
        return address in self._exempt

    def leave(self, address: str, connection: Hashable) -> None:
        """Stop counting a connection; do nothing for one that is not counted."""
        network = network_of(address)
        counted = self._connections.get(network)
        if counted is not None:
            counted.discard(connection)
            if not counted:
                del self._connections[network]

    def __len__(self) -> int:
        return sum(map(len, self._connections.values()))


class ConnectionPace:
    """Space the connections of each source: `at_once` of them, then `per_s`."""

    def __init__(self, per_s: float, at_once: int) -> None:
        self._interval_s = 1 / per_s
        self._saved_s = (at_once - 1) / per_s
        self._next: dict[str, float] = {}

    def wait_s(self, source: str, now: float) -> float:
        """Return for how long the next connection of a source has to wait, in seconds."""
        if source not in self._next and len(self._next) >= MOST_SOURCES:
            self._next = {each: at for each, at in self._next.items() if at > now - self._saved_s}
        at = max(self._next.get(source, float("-inf")), now - self._saved_s)
        self._next[source] = at + self._interval_s
        return max(0.0, at - now)
