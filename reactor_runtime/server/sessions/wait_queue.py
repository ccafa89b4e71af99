"""The wait queue: controllers that wait for a slot, first come, first served, those that lost theirs first of all."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class WaitQueue(Generic[T]):
    """Keep the controllers that wait, at most `most_waiting`; `join` refuses one more. Pure.

    A controller waits, or has been taken by `next`, or has left; both free its position at once.
    """

    def __init__(self, most_waiting: int) -> None:
        self._most_waiting = most_waiting
        self._waiting: list[T] = []
        self._returned: set[T] = set()

    @property
    def waiting(self) -> Sequence[T]:
        """Return the controllers that wait, in their order."""
        return self._waiting

    def has_room(self, *, free: int) -> bool:
        """Return whether one more controller could join while `free` slots have no session."""
        return len(self._waiting) < max(self._most_waiting, free)

    def join(self, controller: T, *, free: int) -> bool:
        """Append a controller; return False when the queue is full.

        A controller that gets one of the `free` slots bypasses the limit of the queue.
        """
        if not self.has_room(free=free):
            return False
        self._waiting.append(controller)
        return True

    def rejoin(self, controller: T, *, first: bool) -> None:
        """Add a controller that lost its session, however many wait.

        Put it `first`, after those that did so before it, or else last. It may wait already.
        """
        self.leave(controller)
        if first:
            self._waiting.insert(len(self._returned), controller)
            self._returned.add(controller)
        else:
            self._waiting.append(controller)

    def leave(self, controller: T) -> bool:
        """Remove a controller; return False when it does not wait."""
        if controller not in self._waiting:
            return False
        self._waiting.remove(controller)
        self._returned.discard(controller)
        return True

    def next(self) -> T | None:
        """Remove and return the controller that has waited longest; None when the queue is empty."""
        if not self._waiting:
            return None
        controller = self._waiting.pop(0)
        self._returned.discard(controller)
        return controller
