"""What is shown and said to many: to the controller at once, to the others in slices of time, each in its turn."""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from reactor_runtime.clock import Clock
from reactor_runtime.server.delivery.client import Client
from reactor_runtime.server.encoding.encoded import EncodedFrame, EncodedSound

SLICE_S = 0.001  # about what 15 frames of 200 kB take
CROWD = "crowd"


@dataclass(frozen=True, slots=True)
class Broadcast:
    """A text message for all but a few."""

    text: str
    but: Collection[Client]


@dataclass(frozen=True, slots=True)
class _Replaced:
    """In the place of a frame that has been followed by a newer one of its track."""

    track: str


Item = EncodedFrame | EncodedSound | Broadcast | Callable[[Client], None]


class Fanout:
    """Pass items to every member in the order they came; belongs to the server's loop.

    Who is `first` gets each at once. For the others it takes 1 ms a turn of the loop, so that the controller's next
    frame, its events and everybody's pings go between; who has waited longest is next. A frame that is followed by a
    newer one before a member's turn has come is skipped by it, and counted as `crowd`; nothing else is ever skipped.
    Items are kept until the last member has had its turn. Without clock and `soon` everybody is served at once.
    """

    def __init__(
        self, clock: Clock | None = None, soon: Callable[[Callable[[], None]], object] = lambda turn: turn()
    ) -> None:
        self._clock = clock
        self._soon = soon
        self._items: deque[Item | _Replaced | None] = deque()
        self._end = 0
        self._newest: dict[str, int] = {}
        self._places: OrderedDict[Client, int] = OrderedDict()  # who is furthest behind comes first
        self._first: Client | None = None
        self._serving: Client | None = None
        self._scheduled = False

    def __iter__(self) -> Iterator[Client]:
        return iter(tuple(self._places))

    @property
    def kept(self) -> int:
        """How many items are kept for those who have not had their turn."""
        return len(self._items)

    def __contains__(self, member: Client) -> bool:
        return member in self._places

    def join(self, member: Client, *, first: bool = False) -> None:
        """Have a member from the next item on."""
        if member not in self._places:
            self._places[member] = self._end
            member.join_broadcast(self.catch_up)
        if first:
            self._first = member

    def leave(self, member: Client) -> None:
        """Give a member what came before it leaves, such as the news that it is over, and forget it."""
        self.catch_up(member)
        if self._places.pop(member, None) is not None:
            member.leave_broadcast()
            self._forget()
        if self._first is member:
            self._first = None

    def put(self, item: Item) -> None:
        """Pass something on; the first member has it when this returns."""
        if isinstance(item, EncodedFrame):
            self._replace(item.track)
            self._newest[item.track] = self._end
        self._items.append(item)
        self._end += 1
        if self._first is not None:
            self.catch_up(self._first)
        if not self._scheduled:
            self._turn()

    def drop(self, *kinds: type[EncodedFrame | EncodedSound]) -> None:
        """Take back what not everybody has been given yet."""
        self._items = deque(None if isinstance(item, kinds) else item for item in self._items)

    def catch_up(self, member: Client) -> None:
        """Give a member at once all that it has not been given yet, as before something is said to it alone."""
        if member is self._serving or member not in self._places:
            return
        place, self._places[member] = self._places[member], self._end
        self._places.move_to_end(member)
        self._serving = member
        try:
            for index in range(place - self._end, 0):
                _give(member, self._items[index])
        finally:
            self._serving = None

    def _replace(self, track: str) -> None:
        """Let go of a frame that not everybody has been given."""
        index = self._newest.get(track, -1) - self._end
        if -len(self._items) <= index < 0 and self._items[index] is not None:
            self._items[index] = _Replaced(track)

    def _turn(self) -> None:
        self._scheduled = False
        until = math.inf if self._clock is None else self._clock.now() + SLICE_S
        while (member := self._next()) is not None:
            if self._clock is not None and self._clock.now() >= until:
                self._scheduled = True
                self._soon(self._turn)
                break
            self.catch_up(member)
        self._forget()

    def _next(self) -> Client | None:
        """Give the member that is furthest behind, None if nobody is."""
        for member, place in self._places.items():
            return member if place < self._end else None
        return None

    def _forget(self) -> None:
        """Let go of the items that everybody has been given."""
        furthest_behind = next(iter(self._places.values()), self._end)
        for _ in range(len(self._items) - (self._end - furthest_behind)):
            self._items.popleft()


def _give(member: Client, item: Item | _Replaced | None) -> None:
    match item:
        case EncodedFrame():
            if member.takes(item):
                member.outbox.offer(item)
        case EncodedSound():
            member.outbox.put_sound(item)
        case Broadcast():
            if member not in item.but:
                member.put_text(item.text)
        case _Replaced():
            member.outbox.skip_frame(item.track, CROWD)
        case None:
            return
        case for_each:
            for_each(member)
