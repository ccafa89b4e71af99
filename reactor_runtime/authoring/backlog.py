"""What has arrived on an input track and waits to be read: order, capacity, and which frames a reader takes.

Decides and never waits: `buffer.py` holds the lock, the readers and the decoding.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

CAPACITY = 128
MOST_BYTES = 64 << 20

T = TypeVar("T")


class ReadMode(StrEnum):
    """Say which frames a read takes: the newest, dropping those before, or the oldest, keeping the rest."""

    LATEST = "latest"
    FIFO = "fifo"


class BufferClosed(Exception):
    """The input has ended: the client left, or the model closed the buffer."""


class Item(Generic[T]):
    """Hold what arrived: an array, or bytes that become one when somebody wants it.

    Two threads may decode the same item; both get an equal array.
    """

    __slots__ = ("_array", "_decode", "size_bytes")

    def __init__(self, array: T | None = None, decode: Callable[[], T] | None = None, size_bytes: int = 0) -> None:
        assert (array is None) is not (decode is None), "an item is decoded, or can be"
        self.size_bytes = size_bytes
        self._array = array
        self._decode = decode

    @classmethod
    def encoded(cls, data: bytes, decode: Callable[[bytes], T]) -> Item[T]:
        """Make an item whose array is `decode(data)`, called at most once where one thread reads."""
        return cls(decode=lambda: decode(data), size_bytes=len(data))

    @property
    def decoded(self) -> bool:
        return self._array is not None

    def array(self) -> T:
        """Return the array, decoding it first if need be; raises what the decoding raises."""
        decode = self._decode  # looked at first: another thread sets the array before it drops this
        if self._array is None:
            assert decode is not None, "dropped only after the array is there"
            self._array = decode()
        self._decode = None  # with the bytes it holds
        return self._array


@dataclass(frozen=True, slots=True)
class Claim(Generic[T]):
    """Hold what a reader has taken and might have to give back: `items`, of which it wants the last `n`."""

    items: list[Item[T]]
    n: int
    epoch: int

    @property
    def wanted(self) -> list[Item[T]]:
        return self.items[-self.n :]


class Backlog(Generic[T]):
    """Keep at most `capacity` items, and 64 MiB of files, in order of arrival; the oldest goes when one more comes.

    An item may be pushed on hold: it, and whatever comes after, can be taken only once it is shown.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.capacity = capacity
        self.received = 0
        self.closed = False
        self.openings = 0
        self._epoch = 0  # claims from before a clear are void
        self._items: deque[Item[T]] = deque()
        self._shown = 0

    def __len__(self) -> int:
        """Count what can be taken."""
        return self._shown

    def push(self, item: Item[T], *, hold: bool = False) -> bool:
        """Add an item unless closed; False if it was dropped."""
        if self.closed:
            return False
        self.received += 1
        if not hold and self._shown == len(self._items):
            self._shown += 1
        self._items.append(item)
        self._evict()
        return True

    def held(self) -> Item[T] | None:
        """Return the newest item, if it is on hold."""
        return self._items[-1] if self._shown < len(self._items) else None

    def show(self, item: Item[T]) -> None:
        """Let an item be taken, and all before it; one that has gone is no matter."""
        if item in self._items:
            self._shown = max(self._shown, self._items.index(item) + 1)

    def drop(self, item: Item[T]) -> None:
        """Take a bad item out and let those before it be taken."""
        if item in self._items:
            self.show(item)
            self._items.remove(item)
            self._shown -= 1

    def take(self, n: int, mode: ReadMode) -> Claim[T] | None:
        """Take out n items, with LATEST all that came before them as well; None, and nothing changes, if too few."""
        if self._shown < n:
            return None
        count = n if mode is ReadMode.FIFO else self._shown
        self._shown -= count
        return Claim([self._items.popleft() for _ in range(count)], n, self._epoch)

    def holds(self, claim: Claim[T]) -> bool:
        """Tell whether a claim still stands."""
        return claim.epoch == self._epoch

    def put_back(self, claim: Claim[T], *, without: Collection[Item[T]] = ()) -> None:
        """Undo a take, as far as there is room and nothing was cleared since; `without` those found to be bad."""
        if self.holds(claim):
            good = [item for item in claim.items if item not in without]
            self._items.extendleft(reversed(good))
            self._shown += len(good)
            self._evict()

    def clear(self) -> None:
        self._epoch += 1
        self._items.clear()
        self._shown = 0

    def close(self) -> None:
        """Accept nothing more; what is here can still be taken."""
        self.closed = True
        self._shown = len(self._items)

    def reset(self) -> None:
        """Begin anew: open and empty."""
        self.clear()
        self.openings += self.closed
        self.closed = False

    def _evict(self) -> None:
        size_bytes = sum(item.size_bytes for item in self._items)
        while len(self._items) > self.capacity or (size_bytes > MOST_BYTES and len(self._items) > 1):
            size_bytes -= self._items[0].size_bytes
            self._items.popleft()
            self._shown = max(self._shown - 1, 0)
