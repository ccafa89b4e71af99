"""Assigns each client that watches to one session: viewers, and controllers that watch while they wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Generic

from reactor_runtime.network import network_of
from reactor_runtime.server.delivery.client import Client, Role
from reactor_runtime.server.sessions.slot import S
from reactor_runtime.server.sessions.slot_pool import SlotPool
from reactor_runtime.server.sessions.wait_queue import WaitQueue
from reactor_runtime.wire.messages import View


class ViewerAssignment(Generic[S]):
    """Subscribe clients that watch to a slot, and to another one when its session ends; use on the server's loop."""

    def __init__(self, slots: SlotPool[S], wait_queue: WaitQueue[Client]) -> None:
        # In the order of their arrival.
        self._viewers: dict[Client, None] = {}
        self._slots = slots
        self._wait_queue = wait_queue

    @property
    def viewers(self) -> Collection[Client]:
        """Return the viewers, in the order of their arrival."""
        return self._viewers.keys()

    def join(self, viewer: Client, most: int) -> Client | None:
        """Add a viewer; return the viewer to close for lack of places: None, another one, or this one.

        If all places are taken and another address has more than half of them, its newest viewer loses its place.
        """
        displaced = None
        if len(self._viewers) >= most:
            displaced = self._newest_of_majority(most, network_of(viewer.address))
            if displaced is None:
                return viewer
            del self._viewers[displaced]
        self._viewers[viewer] = None
        return displaced

    def leave(self, client: Client) -> None:
        """Remove a client that has gone."""
        self._viewers.pop(client, None)
        self.unsubscribe(client)

    def assign(self, client: Client, session_id: str = "") -> None:
        """Subscribe a client to the session of this id, or where there is none to the default slot."""
        if (slot := self._slots.watched(session_id)) is not None:
            self._slots.bind(client, slot)
            slot.subscribe(client)

    def set_view(self, client: Client, view: View) -> None:
        """Change the tracks and rates that a client is sent from here on, and the seat that a viewer watches."""
        seat = view.seat
        # A client sends its view after each welcome, also where the session has fewer seats.
        if seat is not None and seat != client.wanted_seat and client.role is Role.VIEWER:
            client.wanted_seat = seat
            self._watch_seat(client, seat)
        if (slot := self._slots.watched_by(client) or self._slots.default) is not None:
            slot.subscribers.set_view(client, view)
        else:
            client.outbox.set_view(view)

    def _watch_seat(self, client: Client, seat: int) -> None:
        """Show a viewer another seat of its session, from the welcome on."""
        slot = self._slots.watched_by(client)
        is_new, client.seat = seat != client.seat, seat
        if is_new and slot is not None:
            self.unsubscribe(client)
            slot.subscribe(client)

    def unsubscribe(self, client: Client, *, but: S | None = None) -> None:
        """Unsubscribe a client from its slot, unless that is `but`, and drop the media that waits for it."""
        slot = self._slots.watched_by(client)
        if slot is not None and slot is not but:
            slot.subscribers.leave(client)
            client.outbox.leave_session()

    def reassign(self) -> None:
        """Subscribe clients whose slot has no session to a slot that has one, and unassigned viewers to the default."""
        watched = {client: self._slots.watched_by(client) for client in self._watching()}
        idle = [client for client, slot in watched.items() if slot is None or not slot.has_started]
        default = self._slots.default if idle else None
        if default is None:
            return
        for client in idle:
            if default.has_started or (watched[client] is None and client in self._viewers):
                self.unsubscribe(client)
                self._slots.bind(client, default)
                default.subscribe(client)

    def on_session_started(self, slot: S) -> None:
        """Subscribe clients that watch no session to the one that has started."""
        for client in self._watching():
            watched = self._slots.watched_by(client)
            if watched is not None and watched is not slot and watched.has_started:
                continue
            self.unsubscribe(client, but=slot)
            self._slots.bind(client, slot)
            if watched is None or client.waits or client.role is Role.CONTROLLER:
                slot.subscribe(client)
            elif watched is not slot:
                slot.subscribers.join(client)

    def _newest_of_majority(self, most: int, new_address: str) -> Client | None:
        """Return the newest viewer of the address that has more than half of `most` places; None if none has.

        That address has at least two places more than `new_address`: otherwise the two would displace each other in
        turns.
        """
        counts = Counter(network_of(each.address) for each in self._viewers)
        for address, count in counts.most_common(1):
            if 2 * count > most and count > counts[new_address] + 1:
                return next(each for each in reversed(self._viewers) if network_of(each.address) == address)
        return None

    def _watching(self) -> list[Client]:
        return [*self._viewers, *(client for client in self._wait_queue.waiting if client.watches)]
