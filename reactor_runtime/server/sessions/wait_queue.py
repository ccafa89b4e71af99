"""Who is next: those who wait in line, first come first served."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class WaitQueue(Generic[T]):
    """Keep the controllers that wait; pure, so that no slot can get lost on the way.

    A controller is waiting, or has been taken by `next`, or has left; taking and leaving free its place at once.
    """

    def __init__(self, most_waiting: int) -> None:
        self._most_waiting = most_waiting
        self._waiting: list[T] = []

    @property
    def waiting(self) -> Sequence[T]:
        """Those who wait, the next one first."""
        return self._waiting

    def has_room(self, *, free: int) -> bool:
        """Tell whether one more could join, with so many slots free."""
        return len(self._waiting) < max(self._most_waiting, free)

    def join(self, controller: T, *, free: int) -> bool:
        """Wait in line; False when it is full. Whoever takes one of the free slots has no wait to be refused."""
        if not self.has_room(free=free):
            return False
        self._waiting.append(controller)
        return True

    def leave(self, controller: T) -> bool:
        """Give up one's place; False when one doesn't wait (any more)."""
        if controller not in self._waiting:
            return False
        self._waiting.remove(controller)
        return True

    def next(self) -> T | None:
        """Take who has waited longest out of the line."""
        return self._waiting.pop(0) if self._waiting else None
