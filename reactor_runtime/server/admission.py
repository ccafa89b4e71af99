"""Who is next: one controller at a time, further ones in line, first come first served."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class Line(Generic[T]):
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

    def has_room(self, *, slot_free: bool) -> bool:
        """Tell whether one more could join."""
        return len(self._waiting) < self._most_waiting or (slot_free and not self._waiting)

    def join(self, controller: T, *, slot_free: bool) -> bool:
        """Wait in line; False when it is full. With a free slot and nobody waiting there is no wait to be refused."""
        if not self.has_room(slot_free=slot_free):
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
