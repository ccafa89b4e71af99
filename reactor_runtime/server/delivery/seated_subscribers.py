"""The clients that receive a session, by seat: each gets the frames of one seat and those for all seats."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from reactor_runtime.network import network_of
from reactor_runtime.server.delivery.client import Client
from reactor_runtime.server.delivery.subscribers import Subscribers
from reactor_runtime.server.encoding.encoded import EncodedFrame, EncodedSound, Snapshot
from reactor_runtime.server.encoding.encodings import DEFAULT
from reactor_runtime.server.encoding.jobs import RungsInUse
from reactor_runtime.server.encoding.track_encoding import TrackEncoding
from reactor_runtime.wire.messages import View


class SeatedSubscribers:
    """Subscribe each client to the seat that it has or watches, `client.seat`; a session has one seat or several.

    `make` makes the subscribers of one seat. `on_join` and `on_leave` are called with each client that is added or
    removed.
    """

    def __init__(
        self,
        make: Callable[[], Subscribers] = Subscribers,
        *,
        on_join: Callable[[Client], object] = lambda _: None,
        on_leave: Callable[[Client], object] = lambda _: None,
    ) -> None:
        self._make = make
        self._on_join = on_join
        self._on_leave = on_leave
        self._seats = [make()]
        self._seat_of: dict[Client, Subscribers] = {}

    def set_seats(self, count: int) -> None:
        """Change the number of seats; the clients of a removed seat are not subscribed any more."""
        while len(self._seats) < count:
            self._seats.append(self._make())
        for client in [client for client in self if self._seats.index(self._seat_of[client]) >= count]:
            self.leave(client)
        del self._seats[count:]

    def __iter__(self) -> Iterator[Client]:
        return iter(tuple(self._seat_of))

    def __contains__(self, client: Client) -> bool:
        return client in self._seat_of

    def join(self, client: Client, *, controls: bool = False, held: bool = True) -> None:
        """Add a client to its seat, before all others there if it `controls`; `held` offers it the latest frames."""
        seat = self._seats[client.seat if client.seat < len(self._seats) else 0]
        if (former := self._seat_of.get(client)) is not None and former is not seat:
            former.leave(client)
            # A frame that waits could follow the welcome of the other seat.
            client.outbox.leave_session()
        self._seat_of[client] = seat
        client.outbox.limit_raw(None if controls else network_of(client.address))
        seat.join(client, controls=controls, held=held)
        self._on_join(client)

    def leave(self, client: Client) -> None:
        """Send a client what was published before, and remove it."""
        seat = self._seat_of.pop(client, None)
        if seat is not None:
            seat.leave(client)
            self._on_leave(client)

    def set_view(self, client: Client, view: View) -> None:
        """Change what a client is sent of its seat."""
        (self._seat_of.get(client) or self._seats[0]).set_view(client, view)

    def rungs_in_use(self, track: str, seat: int | None = None) -> RungsInUse:
        """Return the rungs that clients of a track are on, in one seat or in all; see `Subscribers.rungs_in_use`.

        With several seats, a seat without clients uses none: its pixels are kept for a client that joins.
        """
        if len(self._seats) == 1:
            return self._seats[0].rungs_in_use(track)
        found: dict[TrackEncoding, set[int]] = {}
        for each in self._of(seat):
            for encoding, rungs in each.rungs_in_use(track).items() if each.has_clients else ():
                found.setdefault(encoding, set()).update(rungs)
        return {encoding: sorted(found[encoding]) for encoding in sorted(found, key=lambda each: each is not DEFAULT)}

    def needs_pixels(self, track: str, seat: int | None = None) -> bool:
        """Return whether clients take a track as video."""
        return any(each.needs_pixels(track) for each in self._of(seat))

    @property
    def has_room(self) -> bool:
        """Return whether another frame may be shown; see `Subscribers.has_room`."""
        return self._seats[0].has_room

    def show_frame(self, frame: EncodedFrame) -> None:
        """Keep a frame as the latest of its track and offer it to the clients of its seat."""
        if frame.seat is not None or not frame.applied:
            self._seats[frame.seat or 0].show_frame(frame)
            return
        for number, seat in enumerate(self._seats):
            seat.show_frame(frame.for_seat(number))

    def play_sound(self, sound: EncodedSound) -> None:
        """Offer a piece of sound to the clients of its seat, or to all."""
        for number, seat in enumerate(self._seats):
            if sound.seat in (None, number):
                seat.play_sound(sound.for_seat(number))

    async def snapshot(self, track: str, seat: int = 0) -> Snapshot | None:
        """Return the latest frame of a track in full size; None before the first."""
        return await self._seats[seat if seat < len(self._seats) else 0].snapshot(track)

    def drop_sound(self) -> None:
        """Drop the sound that waits for clients: the model has flushed it."""
        for seat in self._seats:
            seat.drop_sound()

    def send_message(
        self, kind: str, data: Mapping[str, Any], *, but: Collection[Client] = (), seat: int | None = None
    ) -> None:
        """Send a message to all clients, or those of one seat, except those in `but`."""
        for each in self._of(seat):
            each.send_message(kind, data, but=but)

    def send_text(self, text: str) -> None:
        """Send an encoded message to all clients."""
        for seat in self._seats:
            seat.send_text(text)

    def for_each(self, each: Callable[[Client], None]) -> None:
        """Call `each` with every client, after the frames and messages published before."""
        for seat in self._seats:
            seat.for_each(each)

    def clear_frames(self) -> None:
        """Drop the frames and sound of the session before, so that no client of the next one sees them."""
        for seat in self._seats:
            seat.clear_frames()

    def _of(self, seat: int | None) -> list[Subscribers]:
        return self._seats if seat is None else self._seats[seat : seat + 1]
