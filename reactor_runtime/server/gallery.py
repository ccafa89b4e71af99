"""Those who watch, viewers and whoever watches in line: each sees one session, as long as there is any."""

from __future__ import annotations

from reactor_runtime.server.admission import Line
from reactor_runtime.server.connection import Connection, Role
from reactor_runtime.server.hall import Hall
from reactor_runtime.server.halls import Halls
from reactor_runtime.wire.messages import View


class Gallery:
    """Bring those who watch to the halls, and on to another when there is nothing more to see; of the server's loop."""

    def __init__(self, halls: Halls, line: Line[Connection]) -> None:
        self.viewers: set[Connection] = set()
        self._halls = halls
        self._line = line

    def show(self, connection: Connection, session: str = "") -> None:
        """Show the session of this id while there is one, and else the one that has run longest."""
        (self._halls.showing(session) or self._halls.first).greet(connection)

    def look(self, connection: Connection, view: View) -> None:
        """Send the client from here on what it asks for."""
        (self._halls.watched_by(connection) or self._halls.first).audience.look(connection, view)

    def part(self, connection: Connection, *, but: Hall | None = None) -> None:
        """Have a client see nothing more of any hall but one."""
        for hall in self._halls:
            if hall is not but and connection in hall.audience:
                hall.audience.leave(connection)
                connection.outbox.drop_media()
                for way in connection.outbox.ways.values():
                    way.begin_anew()

    def settle(self) -> None:
        """Bring those who see no session to one that is on, and new viewers at least to where one will be."""
        first = self._halls.first
        for connection in self._watching():
            watched = self._halls.watched_by(connection)
            idle = first.is_on and (watched is None or not watched.is_on)
            if idle or (watched is None and connection in self.viewers):
                self.part(connection)
                first.greet(connection)

    def session_began(self, hall: Hall) -> None:
        """Show a session that begins to those who see no other."""
        for connection in self._watching():
            watched = self._halls.watched_by(connection)
            if watched is not None and watched is not hall and watched.is_on:
                continue
            self.part(connection, but=hall)
            if watched is None or connection.role is Role.CONTROLLER:
                hall.greet(connection)
            elif watched is not hall:
                hall.audience.join(connection)

    def _watching(self) -> list[Connection]:
        return [*self.viewers, *(connection for connection in self._line.waiting if connection.watches)]
