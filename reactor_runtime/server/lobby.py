"""Where clients come in: who waits in line, who watches, and whose turn it is in which hall."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from reactor_runtime.server.admission import Line
from reactor_runtime.server.audience import Audience
from reactor_runtime.server.connection import Connection, Role
from reactor_runtime.server.gallery import Gallery
from reactor_runtime.server.hall import Engine, Hall, Rules
from reactor_runtime.server.halls import Halls
from reactor_runtime.server.playout import Playout
from reactor_runtime.server.session import SessionPhase
from reactor_runtime.server.turn import TurnEnd
from reactor_runtime.wire.protocol import CloseCode

logger = logging.getLogger(__name__)

STOPPING = "the server is stopping"


class Lobby:
    """Bring one controller after the other to the halls, and let all others watch; belongs to the server's loop."""

    def __init__(
        self, rules: Rules, *, most_waiting: int, most_viewers: int, on_ready: Callable[[Hall, float], None]
    ) -> None:
        self.rules = rules
        self.line: Line[Connection] = Line(most_waiting)
        self.halls = Halls()
        self.gallery = Gallery(self.halls, self.line)
        self.stops_at: float | None = None
        self._most_viewers = most_viewers
        self._on_ready = on_ready

    @property
    def draining(self) -> bool:
        """Tell that nobody is let in any more, because the server is to stop."""
        return self.stops_at is not None

    def open_hall(self, engine: Engine, audience: Audience, playout: Playout) -> Hall:
        """Have one more engine to bring controllers to."""
        hall = Hall(
            len(self.halls) + 1,
            engine=engine,
            audience=audience,
            playout=playout,
            line=self.line,
            usher=self,
            rules=self.rules,
        )
        self.halls.add(hall)
        return hall

    def attach(self, connection: Connection, resume: str = "", session: str = "") -> None:
        """Let a client in: to a hall, into the line, or among the viewers; a full house closes its socket.

        A controller that brings the secret of a running session, as `resume`, is back in it. Who watches is shown the
        `session` of that id while there is one, and else the one that has run longest.
        """
        if (its := self.halls.resumed_by(resume)) is not None:
            its.resume(connection)
            if self.draining:
                connection.tell("reactor.session", _stopping(self))
            return
        if self.draining:
            _send_away(connection)
            return
        viewers = self.gallery.viewers
        if connection.role is Role.VIEWER:
            if len(viewers) >= self._most_viewers:
                connection.close(CloseCode.FULL, f"{self._most_viewers} viewers are watching already; try again later")
                return
            viewers.add(connection)
        elif not self.line.join(connection, free=self.halls.empty):
            connection.close(CloseCode.FULL, f"{len(self.line.waiting)} are waiting already; try again later")
            return
        whose = connection.id, connection.role, connection.address
        logger.info("client attached id=%s role=%s from=%s", *whose, extra=connection.ids)
        if connection.role is Role.CONTROLLER:
            self.seat_next()
        if connection in viewers or (connection.watches and connection in self.line.waiting):
            self.gallery.show(connection, session)
        if (phase := self.halls.loading_phase()) is not None:
            connection.tell("reactor.session", phase)

    def detach(self, connection: Connection, *, lost: bool = False) -> None:
        """Take note that a client has gone, whatever it was; one whose connection is `lost` may come back."""
        self.gallery.viewers.discard(connection)
        self.gallery.part(connection)
        its = self.halls.controlled_by(connection)
        if its is not None:
            its.release(lost=lost)
        if self.line.leave(connection) or its is not None:
            line_changed(self)

    def everyone(self) -> list[Connection]:
        """List every client, whether it controls, waits or watches."""
        controllers = [hall.session.controller for hall in self.halls if hall.session is not None]
        return [*controllers, *self.line.waiting, *self.gallery.viewers]

    def hall_ready(self, hall: Hall, load_s: float) -> None:
        self._on_ready(hall, load_s)
        self.gallery.settle()
        self.seat_next()

    def hall_lost(self) -> None:
        """Tell everyone when there is only loading to wait for; those in line keep their places."""
        if (phase := self.halls.loading_phase()) is not None:
            for connection in self.everyone():
                connection.tell("reactor.session", phase)

    def session_began(self, hall: Hall) -> None:
        self.gallery.session_began(hall)

    def session_over(self, hall: Hall) -> None:
        self.halls.last = hall
        self.gallery.settle()
        self.seat_next()

    def seat_next(self) -> None:
        """Start sessions for those who are next, as far as there are halls for them."""
        for hall in self.halls.free:
            controller = self.line.next()
            if controller is not None:
                self.gallery.part(controller, but=hall)
                hall.seat(controller)
        line_changed(self)


def line_changed(lobby: Lobby) -> None:
    """Tell those who wait what changed of their place, and the turns that run whether anybody waits for them.

    Of several sessions only as many have to end as there are people in line, those first that have run longest.
    """
    length = len(lobby.line.waiting)
    for position, connection in enumerate(lobby.line.waiting, start=1):
        if connection.told_position != (position, length):
            connection.told_position = (position, length)
            connection.tell("reactor.queue", {"position": position, "length": length})
    sessions = [hall.session for hall in lobby.halls if hall.session is not None]
    stopping = sum(session.phase is SessionPhase.STOPPING for session in sessions)
    running = [session for session in sessions if session.phase is SessionPhase.RUNNING]
    for rank, session in enumerate(sorted(running, key=lambda session: session.started_at)):
        session.turn.others_wait(rank < length - stopping)


def close(lobby: Lobby) -> None:
    """Let in nobody any more, tell every client that the server is stopping, and end every session."""
    _close_all(lobby, {"phase": "ended", "reason": TurnEnd.STOPPING}, STOPPING, CloseCode.SERVER_STOPPING)
    for hall in lobby.halls:
        if hall.session is not None:
            hall.session.stop(TurnEnd.STOPPING)


def fail(lobby: Lobby, message: str) -> None:
    """Let in nobody any more, and tell every client why the model can't be served."""
    _close_all(lobby, {"phase": "failed"}, message, CloseCode.MODEL_FAILED)


def _close_all(lobby: Lobby, phase: dict[str, Any], message: str, code: CloseCode) -> None:
    """Empty the line as well: a session that ends from here on is followed by no other."""
    lobby.stops_at = lobby.rules.clock.now()
    everyone = lobby.everyone()
    while lobby.line.next() is not None:
        pass
    for connection in everyone:
        connection.tell("reactor.session", {**phase, "message": message})
        connection.close(code, message)


def drain(lobby: Lobby, timeout_s: float) -> None:
    """Let in nobody any more, send away those who wait, and tell those of each session how long it may last.

    A controller whose connection broke may come back to its session all the same.
    """
    lobby.stops_at = lobby.rules.clock.now() + timeout_s
    while (waiting := lobby.line.next()) is not None:
        lobby.gallery.part(waiting)
        _send_away(waiting)
    line_changed(lobby)
    for hall in lobby.halls:
        hall.tell("reactor.session", _stopping(lobby))


def _stopping(lobby: Lobby) -> dict[str, Any]:
    """Say how long the sessions that run may still last."""
    assert lobby.stops_at is not None, "it drains"
    seconds = round(max(0.0, lobby.stops_at - lobby.rules.clock.now()), 1)
    message = f"the server is stopping, in {seconds:.0f} s at the latest"
    return {"phase": "stopping", "seconds": seconds, "message": message}


def _send_away(connection: Connection) -> None:
    connection.tell("reactor.session", {"phase": "ended", "reason": TurnEnd.STOPPING, "message": STOPPING})
    connection.close(CloseCode.SERVER_STOPPING, STOPPING)
