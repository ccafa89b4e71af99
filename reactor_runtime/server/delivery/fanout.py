"""Broadcast of frames, sound and messages: to the controller at once, to other clients in slices of time."""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from reactor_runtime.clock import Clock
from reactor_runtime.server.delivery.client import Client
from reactor_runtime.server.encoding.encoded import EncodedFrame, EncodedSound, VideoPiece
from reactor_runtime.wire.media_header import MediaHeader

# About the time to send 15 frames of 200 kB.
SLICE_S = 0.001
VIEWERS = "viewers"


@dataclass(frozen=True, slots=True)
class Broadcast:
    """A text message for all members except those in `but`."""

    text: str
    but: Collection[Client]


@dataclass(frozen=True, slots=True)
class CohortPiece:
    """A piece of a video stream for the clients that share it."""

    piece: VideoPiece
    to: Collection[Client]


@dataclass(frozen=True, slots=True)
class _Replaced:
    """Placeholder of a frame that a newer frame of its track replaced."""

    header: MediaHeader


Item = EncodedFrame | EncodedSound | CohortPiece | Broadcast | Callable[[Client], None]


class Fanout:
    """Pass items to every member in the order of publication; belongs to the server's loop.

    The `first` member gets each item at once. The others share 1 ms of each turn of the loop, so that the controller's
    next frame, its events and all pings are handled in between; the member furthest behind comes next. A member skips a
    frame that a newer one replaced before its turn, counted as `viewers`; no other item is skipped. Items are kept
    until the last member has them. Without clock and `soon` all members are served at once.
    """

    def __init__(
        self, clock: Clock | None = None, soon: Callable[[Callable[[], None]], object] = lambda turn: turn()
    ) -> None:
        self._clock = clock
        self._soon = soon
        self._items: deque[Item | _Replaced | None] = deque()
        # Items are numbered from 0; `_items` has those from `_start` to before `_end`.
        self._start = self._end = 0
        self._newest: dict[str, int] = {}
        # The member furthest behind comes first.
        self._places: OrderedDict[Client, int] = OrderedDict()
        # Gets each item at once.
        self.first: Client | None = None
        self._serving: Client | None = None
        self._is_scheduled = False

    def __iter__(self) -> Iterator[Client]:
        return iter(tuple(self._places))

    @property
    def has_members(self) -> bool:
        return bool(self._places)

    @property
    def kept_items(self) -> int:
        """Return the number of items kept for members that have not had their turn."""
        return len(self._items)

    def __contains__(self, member: Client) -> bool:
        return member in self._places

    def join(self, member: Client, *, first: bool = False) -> None:
        """Add a member from the next item on."""
        if member not in self._places:
            self._places[member] = self._end
            member.join_broadcast(self.catch_up)
        if first:
            self.first = member

    def leave(self, member: Client) -> None:
        """Pass a member what was published before, such as the end of the session, and remove it."""
        self.catch_up(member)
        if self._places.pop(member, None) is not None:
            member.leave_broadcast()
            self._drop_delivered()
        if self.first is member:
            self.first = None

    def publish(self, item: Item) -> None:
        """Add an item; the first member has it when this returns."""
        if isinstance(item, EncodedFrame):
            self._replace_frame(item.track)
            self._newest[item.track] = self._end
        self._items.append(item)
        self._end += 1
        if self.first is not None:
            self.catch_up(self.first)
        if not self._is_scheduled:
            self._serve_slice()

    def drop_items(self, *kinds: type[EncodedFrame | EncodedSound | CohortPiece]) -> None:
        """Drop the items of these kinds for all members that have not had them yet."""
        self._items = deque(None if isinstance(item, kinds) else item for item in self._items)

    def catch_up(self, member: Client) -> None:
        """Pass a member at once everything that it has not had yet, as is due before a message to it alone."""
        if member is self._serving or member not in self._places:
            return
        place, self._places[member] = self._places[member], self._end
        self._places.move_to_end(member)
        self._serving = member
        try:
            for number in range(place, self._end):
                _pass_on(member, self._items[number - self._start])
        finally:
            self._serving = None

    def _replace_frame(self, track: str) -> None:
        """Release the track's newest frame where a member has not had it."""
        index = self._newest.get(track, -1) - self._start
        if index >= 0 and isinstance(frame := self._items[index], EncodedFrame):
            self._items[index] = _Replaced(frame.header)

    def _serve_slice(self) -> None:
        self._is_scheduled = False
        until = math.inf if self._clock is None else self._clock.now() + SLICE_S
        while (member := self._furthest_behind()) is not None:
            if self._clock is not None and self._clock.now() >= until:
                self._is_scheduled = True
                self._soon(self._serve_slice)
                break
            self.catch_up(member)
        self._drop_delivered()

    def _furthest_behind(self) -> Client | None:
        """Return the member with the oldest next item, None if all have everything."""
        for member, place in self._places.items():
            return member if place < self._end else None
        return None

    def _drop_delivered(self) -> None:
        """Release the items that all members have had."""
        oldest_place = next(iter(self._places.values()), self._end)
        while self._start < oldest_place:
            self._items.popleft()
            self._start += 1


def _pass_on(member: Client, item: Item | _Replaced | None) -> None:
    match item:
        case EncodedFrame():
            member.outbox.offer_frame(item)
        case EncodedSound():
            member.outbox.queue_sound(item)
        case CohortPiece():
            if member in item.to:
                member.outbox.put_piece(item.piece)
        case Broadcast():
            if member not in item.but:
                member.send_encoded(item.text)
        case _Replaced():
            member.outbox.skip_frame(item.header, VIEWERS)
        case None:
            return
        case for_each:
            for_each(member)
