"""What waits for the next step of a session: in order for each seat, while the seats take turns."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Generic, Protocol, TypeVar

MOST_WAITING = 1000
MOST_WAITING_BYTES = 4 << 20


class Queued(Protocol):
    """Something that waits; `seat` is None for what belongs to no seat."""

    @property
    def seat(self) -> int | None: ...

    @property
    def size_bytes(self) -> int: ...


Q = TypeVar("Q", bound=Queued)


def has_room(waiting: Mapping[int | None, tuple[int, int]], seat: int | None, size_bytes: int) -> bool:
    """Return whether one more item of a seat may wait; `waiting` has the number and the bytes of those of each seat.

    When 1,000 items or 4 MiB wait, each seat with items may still fill an equal part of that, so more may wait in all.
    """
    counts, sizes = sum(count for count, _ in waiting.values()), sum(size for _, size in waiting.values())
    if counts < MOST_WAITING and sizes + size_bytes <= MOST_WAITING_BYTES:
        return True
    seats = sum(count > 0 for each, (count, _) in waiting.items() if each != seat) + 1
    count, size = waiting.get(seat, (0, 0))
    return count < MOST_WAITING // seats and size + size_bytes <= MOST_WAITING_BYTES // seats


class SeatQueue(Generic[Q]):
    """Keep items in their order for each seat; the seats take turns, so that none delays the others. Pure.

    What belongs to no seat takes turns as a seat does.
    """

    def __init__(self) -> None:
        # None is empty. The first one has the next item.
        self._queues: dict[int | None, deque[Q]] = {}
        self._sizes: dict[int | None, int] = {}

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def __bool__(self) -> bool:
        # A step asks several times, and __len__ would count each time.
        return bool(self._queues)

    def __iter__(self) -> Iterator[Q]:
        return itertools.chain.from_iterable(self._queues.values())

    @property
    def first(self) -> Q | None:
        """Return the next item, None if there is none."""
        return next(iter(self._queues.values()))[0] if self._queues else None

    def has_room(self, seat: int | None, size_bytes: int) -> bool:
        """Return whether one more item of a seat may wait."""
        waiting = {each: (len(queue), self._sizes[each]) for each, queue in self._queues.items()}
        return has_room(waiting, seat, size_bytes)

    def append(self, item: Q) -> None:
        self._queues.setdefault(item.seat, deque()).append(item)
        self._sizes[item.seat] = self._sizes.get(item.seat, 0) + item.size_bytes

    def popleft(self) -> Q:
        """Remove and return the next item; the next one is that of another seat, if there is one."""
        seat = next(iter(self._queues))
        queue = self._queues.pop(seat)
        item = queue.popleft()
        self._sizes[seat] -= item.size_bytes
        if queue:
            self._queues[seat] = queue
        return item

    def replace(self, replaced: Callable[[Q], Q | None]) -> None:
        """Put `replaced(item)` in the place of each item, and drop those for which it is None."""
        queues, self._queues, self._sizes = self._queues, {}, {}
        for item in itertools.chain.from_iterable(queues.values()):
            if (other := replaced(item)) is not None:
                self.append(other)
