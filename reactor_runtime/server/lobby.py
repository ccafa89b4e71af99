"""Where clients come in: who waits in line, who watches, and which hall each is brought to."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from reactor_runtime.server.admission import Line
from reactor_runtime.server.audience import Audience
from reactor_runtime.server.connection import Connection, Role
from reactor_runtime.server.hall import Engine, Hall, Rules
from reactor_runtime.server.playout import Playout
from reactor_runtime.server.session import SessionPhase
from reactor_runtime.server.supervisor import EnginePhase
from reactor_runtime.wire.messages import View
from reactor_runtime.wire.protocol import CloseCode

logger = logging.getLogger(__name__)


class Lobby:
    """Bring one controller after the other to the halls, and let all others watch; belongs to the server's loop."""

    def __init__(
        self, rules: Rules, *, most_waiting: int, most_viewers: int, on_ready: Callable[[Hall, float], None]
    ) -> None:
        self.rules = rules
        self.line: Line[Connection] = Line(most_waiting)
        self.viewers: set[Connection] = set()
        self.halls: list[Hall] = []
        self.draining = False
        self._most_viewers = most_viewers
        self._on_ready = on_ready

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
        self.halls.append(hall)
        return hall

    @property
    def contract(self) -> dict[str, Any] | None:
        """What the engines have said of the model, None before the first has."""
        return next((hall.engine.contract for hall in self.halls if hall.engine.contract is not None), None)

    @property
    def free_halls(self) -> int:
        """How many halls have no session, though they may still load."""
        return sum(hall.session is None and hall.engine.phase is not EnginePhase.FAILED for hall in self.halls)

    def attach(self, connection: Connection, resume: str = "") -> None:
        """Let a client in: to a hall, into the line, or among the viewers; a full house closes its socket.

        A controller that brings the secret of a running session, as `resume`, is back in it.
        """
        for hall in self.halls if resume else ():
            if hall.session is not None and hall.session.is_resumed_by(resume):
                hall.resume(connection)
                return
        if self.draining:
            _send_away(connection)
            return
        if connection.role is Role.VIEWER:
            if len(self.viewers) >= self._most_viewers:
                connection.close(CloseCode.FULL, f"{self._most_viewers} viewers are watching already; try again later")
                return
            self.viewers.add(connection)
        elif not self.line.join(connection, free=self.free_halls):
            connection.close(CloseCode.FULL, f"{len(self.line.waiting)} are waiting already; try again later")
            return
        whose = connection.id, connection.role, connection.address
        logger.info("client attached id=%s role=%s from=%s", *whose, extra=connection.ids)
        if connection.role is Role.CONTROLLER:
            self.seat_next()
        if connection in self.viewers or (connection.watches and connection in self.line.waiting):
            self.halls[0].greet(connection)
        if (phase := loading_phase(self.halls)) is not None:
            connection.tell("reactor.session", phase)

    def detach(self, connection: Connection, *, lost: bool = False) -> None:
        """Take note that a client has gone, whatever it was; one whose connection is `lost` may come back."""
        self.viewers.discard(connection)
        for hall in self.halls:
            hall.audience.leave(connection)
        if self.line.leave(connection):
            self._line_changed()
        elif (its := self.controlled_by(connection)) is not None:
            its.release(lost=lost)

    def controlled_by(self, connection: Connection) -> Hall | None:
        """Find the hall whose session is this controller's."""
        for hall in self.halls:
            if hall.session is not None and hall.session.controller is connection:
                return hall
        return None

    def look(self, connection: Connection, view: View) -> None:
        """Send the client from here on what it asks for."""
        self.halls[0].audience.look(connection, view)

    def everyone(self) -> list[Connection]:
        """List every client, whether it controls, waits or watches."""
        controllers = [hall.session.controller for hall in self.halls if hall.session is not None]
        return [*controllers, *self.line.waiting, *self.viewers]

    def hall_ready(self, hall: Hall, load_s: float) -> None:
        self._on_ready(hall, load_s)
        for connection in self.viewers.difference(hall.audience):
            hall.greet(connection)
        self.seat_next()

    def hall_lost(self, hall: Hall) -> None:  # noqa: ARG002  (the signature halls call)
        """Tell everyone that the model is loading; those who wait go on waiting for it."""
        if (phase := loading_phase(self.halls)) is not None:
            for connection in self.everyone():
                connection.tell("reactor.session", phase)

    def session_began(self, hall: Hall) -> None:
        """Have those who wait see the session, if they have asked to."""
        for connection in self.line.waiting:
            if connection.watches:
                hall.greet(connection)

    def session_over(self, hall: Hall) -> None:  # noqa: ARG002  (the signature halls call)
        self.seat_next()

    def seat_next(self) -> None:
        """Start sessions for those who are next, as far as there are halls for them."""
        for hall in self.halls:
            if hall.session is None and hall.engine.phase is EnginePhase.READY:
                controller = self.line.next()
                if controller is not None:
                    hall.seat(controller)
        self._line_changed()

    def _line_changed(self) -> None:
        """Tell those who wait what changed of their place, and the turns that run whether anybody does."""
        length = len(self.line.waiting)
        for position, connection in enumerate(self.line.waiting, start=1):
            if connection.told_position != (position, length):
                connection.told_position = (position, length)
                connection.tell("reactor.queue", {"position": position, "length": length})
        for hall in self.halls:
            if hall.session is not None and hall.session.phase is SessionPhase.RUNNING:
                hall.session.turn.others_wait(length > 0)


def loading_phase(halls: list[Hall]) -> dict[str, Any] | None:
    """Say how far loading is, as `reactor.session` does; None unless everybody has to wait for it."""
    phases = {hall.engine.phase for hall in halls}
    if EnginePhase.READY in phases or EnginePhase.LOADING not in phases:
        return None
    loading = [hall.engine for hall in halls if hall.engine.phase is EnginePhase.LOADING]
    engine = max(loading, key=lambda engine: engine.loading_s)
    return {"phase": "loading", "detail": engine.detail, "elapsed_s": round(engine.loading_s, 1)}


def close(lobby: Lobby, reason: str, message: str, code: CloseCode) -> None:
    """Tell every client why it is over, and close every socket."""
    phase = {"phase": "failed"} if code is CloseCode.MODEL_FAILED else {"phase": "ended", "reason": reason}
    for connection in lobby.everyone():
        connection.tell("reactor.session", {**phase, "message": message})
        connection.close(code, message)


def drain(lobby: Lobby, timeout_s: float) -> None:
    """Let in nobody any more, send away those who wait, and tell those of each session how long it may last.

    A controller whose connection broke may come back to its session all the same.
    """
    lobby.draining = True
    while (waiting := lobby.line.next()) is not None:
        for hall in lobby.halls:
            hall.audience.leave(waiting)
        _send_away(waiting)
    lobby.seat_next()
    message = f"the server is stopping, in {timeout_s:.0f} s at the latest"
    for hall in lobby.halls:
        hall.audience.tell("reactor.session", {"phase": "stopping", "seconds": timeout_s, "message": message})


def _send_away(connection: Connection) -> None:
    message = "the server is stopping"
    connection.tell("reactor.session", {"phase": "ended", "reason": "server_stopping", "message": message})
    connection.close(CloseCode.SERVER_STOPPING, message)
