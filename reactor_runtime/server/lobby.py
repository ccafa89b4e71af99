"""Where clients and engine meet: who is attached, whose session it is, what everyone is told meanwhile."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from reactor_runtime import errors
from reactor_runtime.clock import Clock
from reactor_runtime.seam import messages as seam
from reactor_runtime.seam.ring import RingReader
from reactor_runtime.server.admission import Line
from reactor_runtime.server.audience import Audience
from reactor_runtime.server.connection import Connection, Role
from reactor_runtime.server.figures import Figures
from reactor_runtime.server.greeting import Greeter
from reactor_runtime.server.playout import Playout
from reactor_runtime.server.session import Session, SessionPhase
from reactor_runtime.server.supervisor import EnginePhase
from reactor_runtime.server.turn import TurnEnd, TurnLimits
from reactor_runtime.wire.protocol import CloseCode, ErrorCode

logger = logging.getLogger(__name__)

FAILED_SESSIONS = 3
ENDINGS = {
    TurnEnd.LEFT: "the controller has gone",
    TurnEnd.TIME: "the turn is over: others wait",
    TurnEnd.IDLE: "the controller gave no sign of being there",
}


class Engine(Protocol):
    """What the lobby needs to know of the engine, and how it talks to it."""

    phase: EnginePhase
    detail: str
    contract: dict[str, Any] | None

    @property
    def loading_s(self) -> float: ...

    @property
    def busy(self) -> bool: ...

    def send(self, message: seam.ToEngine) -> None: ...


class Lobby:
    """Give the model to one controller after the other, and let all others watch; belongs to the server's loop."""

    def __init__(
        self,
        name: str,
        *,
        engine: Engine,
        audience: Audience,
        playout: Playout,
        clock: Clock,
        limits: TurnLimits,
        most_waiting: int,
        most_viewers: int,
        expose_errors: bool,
        on_ready: Callable[[float], None],
        figures: Figures | None = None,
    ) -> None:
        self.name = name
        self.line: Line[Connection] = Line(most_waiting)
        self.viewers: set[Connection] = set()
        self.session: Session | None = None
        self.failed_in_a_row = 0
        self.figures = figures or Figures()
        self.draining = False
        self._engine = engine
        self.audience = audience
        self._greeter = Greeter(name, engine, audience, limits)
        self._playout = playout
        self._new_session = partial(
            Session, audience=audience, playout=playout, send=engine.send, clock=clock, limits=limits
        )
        self._most_viewers = most_viewers
        self._expose_errors = expose_errors
        self._on_ready = on_ready

    def attach(self, connection: Connection, resume: str = "") -> None:
        """Let a client in: to the model, into the line, or among the viewers; a full house closes its socket.

        A controller that brings the secret of the running session, as `resume`, is back in it.
        """
        if resume and self.session is not None and self.session.is_resumed_by(resume):
            self._resume(self.session, connection)
            return
        if self.draining:
            _send_away(connection)
            return
        if connection.role is Role.VIEWER:
            if len(self.viewers) >= self._most_viewers:
                connection.close(CloseCode.FULL, f"{self._most_viewers} viewers are watching already; try again later")
                return
            self.viewers.add(connection)
        elif not self.line.join(connection, slot_free=self.session is None):
            connection.close(CloseCode.FULL, f"{len(self.line.waiting)} are waiting already; try again later")
            return
        whose = connection.id, connection.role, connection.address
        logger.info("client attached id=%s role=%s from=%s", *whose, extra=connection.ids)
        if connection.role is Role.VIEWER:
            self._greeter.greet(connection, self.session)
        else:
            self._seat_next()
            if connection.watches and connection in self.line.waiting:
                self._greeter.greet(connection, self.session)
        if self._engine.phase is EnginePhase.LOADING:
            connection.tell("reactor.session", loading_phase(self._engine))

    def detach(self, connection: Connection, *, lost: bool = False) -> None:
        """Take note that a client has gone, whatever it was; one whose connection is `lost` may come back."""
        self.viewers.discard(connection)
        self.audience.leave(connection)
        if self.line.leave(connection):
            line_changed(self.line, self.session)
        elif (session := self.session) is not None and session.controller is connection:
            if lost and session.leave():
                return
            session.stop()

    def engine_ready(self, load_s: float) -> None:
        self._on_ready(load_s)
        for connection in self.viewers.difference(self.audience):
            self._greeter.greet(connection, None)
        self._seat_next()

    def engine_said(self, message: seam.Message, ring: RingReader) -> None:
        session = self.session
        if isinstance(message, seam.Moment) and (session is None or message.session != session.id):
            self._engine.send(seam.Credit(message.session, message.number, 0.0))
        elif session is None or message.session != session.id:  # type: ignore[union-attr]  # all others name theirs
            logger.debug("the engine spoke of a session that is over: %s", type(message).__name__)
        elif isinstance(message, seam.Started):
            self._session_started(session, message)
        elif isinstance(message, seam.Ended):
            self._session_ended(session, message)
        else:
            session.receive(message, ring)

    def engine_lost(self, how: str) -> None:
        """End the session that died with the engine's process; those who wait go on waiting for the next."""
        self._playout.clear()
        self.figures.restarts += 1
        session = self.session
        if session is not None:
            self.failed_in_a_row += 1
            self._end(session, "model_died", f"the model's process {how}; it is started again")
        for connection in self.everyone():
            connection.tell("reactor.session", loading_phase(self._engine))

    def close(self, reason: str, message: str, code: CloseCode) -> None:
        """Tell every client why it is over, and close every socket."""
        phase = {"phase": "failed"} if code is CloseCode.MODEL_FAILED else {"phase": "ended", "reason": reason}
        for connection in self.everyone():
            connection.tell("reactor.session", {**phase, "message": message})
            connection.close(code, message)

    def everyone(self) -> list[Connection]:
        """List every client, whether it controls, waits or watches."""
        controller = [] if self.session is None else [self.session.controller]
        return [*controller, *self.line.waiting, *self.viewers]

    def tell_statistics(self, now: float) -> None:
        """Tell everyone who sees the session the figures of the model and its own."""
        shared = {"queue": len(self._playout), **self._playout.times.medians_ms()}
        for connection in self.audience:
            connection.tell("reactor.stats", {**shared, **connection.statistics(now)})

    def _seat_next(self) -> None:
        """Start a session for whoever is next, if the model is free."""
        if self.session is None and self._engine.phase is EnginePhase.READY:
            controller = self.line.next()
            if controller is not None:
                self.session = self._new_session(controller)
                self.session.start()
        line_changed(self.line, self.session)

    def _session_started(self, session: Session, started: seam.Started) -> None:
        session.began(started)
        if session.phase is not SessionPhase.RUNNING:
            return
        controller = session.controller
        logger.info("session started id=%s client=%s", session.id, controller.id, extra=controller.ids)
        self._playout.flush(before=sys.maxsize)  # the black end of the session before may still be on its way
        self.audience.clear_screen()
        self._greeter.greet(session.controller, session)
        for connection in self.line.waiting:
            if connection.watches:
                self._greeter.greet(connection, session)
        self.audience.tell("reactor.session", {"phase": "started", "session": session.id}, but=self.line.waiting)
        for viewer in self.viewers:
            viewer.tell("reactor.state", session.state)
        session.turn.begin(others_wait=bool(self.line.waiting))

    def _resume(self, session: Session, connection: Connection) -> None:
        logger.info("session resumed id=%s client=%s from=%s", session.id, connection.id, connection.address)
        session.resume(connection)
        self._greeter.greet(connection, session)
        self.audience.tell("reactor.session", {"phase": "resumed", "session": session.id})

    def _session_ended(self, session: Session, ended: seam.Ended) -> None:
        if ended.error is None:
            self.failed_in_a_row = 0
            if session.phase is SessionPhase.STOPPING:
                self._end(session, session.end, ENDINGS[session.end])
            else:
                self._end(session, "finished", "the model has finished this session")
            return
        self.failed_in_a_row += 1
        error = errors.from_json(ended.error)
        self._end(session, "model_error", error.message if self._expose_errors else "the model failed in this session")

    def _end(self, session: Session, reason: str, message: str) -> None:
        logger.info("session ended id=%s reason=%s", session.id, reason, extra=session.controller.ids)
        self.session = None
        self.figures.sessions.add(reason)
        session.turn.stop()
        session.over.set()
        controller = session.controller
        failed = reason not in ("finished", *TurnEnd)
        if failed:
            self.figures.errors.add(ErrorCode.MODEL_ERROR)
            self.audience.tell(
                "reactor.error", {"code": ErrorCode.MODEL_ERROR, "message": message}, but=self.line.waiting
            )
        self.audience.tell(
            "reactor.session", {"phase": "ended", "reason": reason, "message": message}, but=self.line.waiting
        )
        self.audience.leave(controller)
        controller.close(CloseCode.MODEL_FAILED if failed else CloseCode.SESSION_OVER, message)
        self._seat_next()


def loading_phase(engine: Engine) -> dict[str, Any]:
    """Say how far loading is, as `reactor.session` does."""
    return {"phase": "loading", "detail": engine.detail, "elapsed_s": round(engine.loading_s, 1)}


def drain(lobby: Lobby, timeout_s: float) -> None:
    """Let in nobody any more, send away those who wait, and tell those of the session how long it may last.

    A controller of that session whose connection broke may come back to it all the same.
    """
    lobby.draining = True
    while (waiting := lobby.line.next()) is not None:
        lobby.audience.leave(waiting)
        _send_away(waiting)
    line_changed(lobby.line, lobby.session)
    message = f"the server is stopping, in {timeout_s:.0f} s at the latest"
    lobby.audience.tell("reactor.session", {"phase": "stopping", "seconds": timeout_s, "message": message})


def _send_away(connection: Connection) -> None:
    message = "the server is stopping"
    connection.tell("reactor.session", {"phase": "ended", "reason": "server_stopping", "message": message})
    connection.close(CloseCode.SERVER_STOPPING, message)


def line_changed(line: Line[Connection], session: Session | None) -> None:
    """Tell those who wait what changed of their place, and the turn that runs whether anybody does."""
    length = len(line.waiting)
    for position, connection in enumerate(line.waiting, start=1):
        if connection.told_position != (position, length):
            connection.told_position = (position, length)
            connection.tell("reactor.queue", {"position": position, "length": length})
    if session is not None:
        session.turn.others_wait(length > 0)
