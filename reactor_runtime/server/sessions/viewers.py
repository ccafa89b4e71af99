"""Those who watch, viewers and whoever watches in line: each sees one session, as long as there is any."""

from __future__ import annotations

from reactor_runtime.server.delivery.client import Client, Role
from reactor_runtime.server.sessions.slot import Slot
from reactor_runtime.server.sessions.slot_pool import SlotPool
from reactor_runtime.server.sessions.wait_queue import WaitQueue
from reactor_runtime.wire.messages import View


class ViewerAssignment:
    """Bring those who watch to the halls, and on to another when there is nothing more to see; of the server's loop."""

    def __init__(self, slots: SlotPool, line: WaitQueue[Client]) -> None:
        self.viewers: set[Client] = set()
        self._slots = slots
        self._line = line

    def show(self, client: Client, session: str = "") -> None:
        """Show the session of this id while there is one, and else the one that has run longest."""
        (self._slots.showing(session) or self._slots.first).send_welcome(client)

    def set_view(self, client: Client, view: View) -> None:
        """Send the client from here on what it asks for."""
        (self._slots.watched_by(client) or self._slots.first).subscribers.set_view(client, view)

    def part(self, client: Client, *, but: Slot | None = None) -> None:
        """Have a client see nothing more of any hall but one."""
        for slot in self._slots:
            if slot is not but and client in slot.subscribers:
                slot.subscribers.leave(client)
                client.outbox.leave_session()

    def settle(self) -> None:
        """Bring those who see no session to one that is on, and new viewers at least to where one will be."""
        first = self._slots.first
        for client in self._watching():
            watched = self._slots.watched_by(client)
            idle = first.is_on and (watched is None or not watched.is_on)
            if idle or (watched is None and client in self.viewers):
                self.part(client)
                first.send_welcome(client)

    def session_began(self, slot: Slot) -> None:
        """Show a session that begins to those who see no other."""
        for client in self._watching():
            watched = self._slots.watched_by(client)
            if watched is not None and watched is not slot and watched.is_on:
                continue
            self.part(client, but=slot)
            if watched is None or client.role is Role.CONTROLLER:
                slot.send_welcome(client)
            elif watched is not slot:
                slot.subscribers.join(client)

    def _watching(self) -> list[Client]:
        return [*self.viewers, *(client for client in self._line.waiting if client.watches)]
