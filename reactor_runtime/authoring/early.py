"""What a client sends while `@connected` still runs: it survives the reset() that opens the input there."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

from reactor_runtime.authoring.backlog import Item

T = TypeVar("T")


class Early(Generic[T]):
    """Keep the newest items between `begin` and `end`.

    `add` and `items` belong under the buffer's lock; `begin` and `end` come when nothing is pushed.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._items: deque[Item[T]] | None = None

    def begin(self) -> None:
        self._items = deque(maxlen=self._capacity)

    def end(self) -> None:
        self._items = None

    def add(self, item: Item[T]) -> None:
        if self._items is not None:
            self._items.append(item)

    def items(self) -> tuple[Item[T], ...]:
        return tuple(self._items or ())
