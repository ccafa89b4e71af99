"""The wait queue: controllers that wait for a slot, in an order that no address can fill alone."""

from __future__ import annotations

import bisect
import itertools
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)
_RETURNED = -1


class WaitQueue(Generic[T]):
    """Keep the controllers that wait, usually at most `most_waiting`. Pure.

    Controllers that lost their session are first. The others wait in rounds, with one controller of each address in a
    round. A controller joins the first round that is after the last waiting controller of its address, and as many
    rounds after the present one as its address has sessions. So an address with many early controllers gets only every
    second turn while another address waits. The position of a controller that is taken or leaves is free at once.
    """

    def __init__(self, most_waiting: int, address_of: Callable[[T], str] = lambda _: "") -> None:
        self._most_waiting = most_waiting
        self._address_of = address_of
        self._arrivals = itertools.count()
        # Sorted by round and arrival; `_waiting` has the controllers in the same order.
        self._order: list[tuple[int, int]] = []
        self._waiting: list[T] = []
        self._places: dict[T, tuple[int, int]] = {}
        # The rounds of the controllers of an address that wait, in their order.
        self._rounds: dict[str, list[int]] = {}
        self._round = 0
        # The addresses that have had a turn in the present round.
        self._served: set[str] = set()
        # The address that has the turn of each seat of a slot: another address may resume its session.
        self._turns: dict[int, dict[int, str]] = {}
        self._turn_counts: Counter[str] = Counter()

    @property
    def waiting(self) -> Sequence[T]:
        """Return the controllers that wait, in their order."""
        return self._waiting

    def has_room(self, *, free: int) -> bool:
        """Return whether one more controller could join while `free` slots have no session."""
        return len(self._waiting) < max(self._most_waiting, free)

    def admits_another_address(self, *, free: int) -> bool:
        """Return whether a controller of an address without others could join."""
        return self.has_room(free=free) or (bool(self._order) and self._order[-1][0] > self._round)

    def join(self, controller: T, *, free: int) -> T | None:
        """Add a controller; return the controller to close for lack of places: None, the last one, or this one.

        A controller that gets one of the `free` slots bypasses the limit of the queue.
        """
        round = self._round_of(self._address_of(controller))
        last = None
        if not self.has_room(free=free):
            if not self._order or round >= self._order[-1][0]:
                return controller
            last = self._waiting[-1]
            self.leave(last)
        self._insert(controller, round)
        return last

    def rejoin(self, controller: T, *, first: bool) -> None:
        """Add a controller that lost its session, however many wait.

        With `first`, put it before all others but those that rejoined first earlier; else last in its round. It may
        wait already.
        """
        self.leave(controller)
        self._insert(controller, _RETURNED if first else self._round_of(self._address_of(controller)))

    def leave(self, controller: T) -> bool:
        """Remove a controller; return False when it does not wait."""
        place = self._places.pop(controller, None)
        if place is None:
            return False
        index = bisect.bisect_left(self._order, place)
        del self._order[index], self._waiting[index]
        rounds = self._rounds[self._address_of(controller)]
        rounds.remove(place[0])
        if not rounds:
            del self._rounds[self._address_of(controller)]
        return True

    def take(self, controller: T, slot: int, seat: int = 0) -> None:
        """Remove a controller, which gets the turn of a seat."""
        round = self._places[controller][0]
        self.leave(controller)
        if round > self._round:
            self._round = round
            self._served.clear()
        address = self._address_of(controller)
        if round == self._round:
            self._served.add(address)
        self.end_turn(slot, seat)
        self._turns.setdefault(slot, {})[seat] = address
        self._turn_counts[address] += 1

    def end_turn(self, slot: int, seat: int | None = None) -> None:
        """Stop counting the controller that has the turn of a seat, or those of all seats; may be called twice."""
        turns = self._turns.get(slot, {})
        addresses = [turns.pop(each) for each in tuple(turns) if seat in (None, each)]
        if not turns:
            self._turns.pop(slot, None)
        for address in addresses:
            self._turn_counts[address] -= 1
            if not self._turn_counts[address]:
                del self._turn_counts[address]

    def _round_of(self, address: str) -> int:
        """Return the round in which the next controller of an address waits."""
        last = self._rounds.get(address, (_RETURNED,))[-1]
        after_turn = self._round + (address in self._served)
        return max(last + 1, after_turn, self._round + self._turn_counts[address])

    def _insert(self, controller: T, round: int) -> None:
        place = round, next(self._arrivals)
        index = bisect.bisect(self._order, place)
        self._order.insert(index, place)
        self._waiting.insert(index, controller)
        self._places[controller] = place
        bisect.insort(self._rounds.setdefault(self._address_of(controller), []), round)
