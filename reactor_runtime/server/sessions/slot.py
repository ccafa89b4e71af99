"""One engine and everyone around it: its session, who sees that, and what they are told of its beginning and end."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from reactor_runtime import errors
from reactor_runtime.clock import Clock
from reactor_runtime.error_codes import ErrorCode
from reactor_runtime.ipc import messages as ipc
from reactor_runtime.ipc.ring import RingReader
from reactor_runtime.server.delivery.client import Client
from reactor_runtime.server.delivery.playout import Playout
from reactor_runtime.server.delivery.subscribers import Subscribers
from reactor_runtime.server.sessions.session import ServedSession, SessionPhase
from reactor_runtime.server.sessions.turn import TurnEnd, TurnLimits
from reactor_runtime.server.sessions.wait_queue import WaitQueue
from reactor_runtime.server.sessions.welcome import WelcomeSender
from reactor_runtime.server.telemetry.metrics import Metrics
from reactor_runtime.server.workers.restarts import Restarts
from reactor_runtime.server.workers.supervisor import EnginePhase
from reactor_runtime.wire.protocol import CloseCode

logger = logging.getLogger(__name__)

ENDINGS = {
    TurnEnd.LEFT: "the controller has gone",
    TurnEnd.TIME: "the turn is over: others wait",
    TurnEnd.IDLE: "the controller gave no sign of being there",
    TurnEnd.STOPPING: "the server is stopping",
}


class SlotEngine(Protocol):
    """What a hall and its clients need to know of the engine, and how to talk to it."""

    phase: EnginePhase
    detail: str
    contract: dict[str, Any] | None
    restarts: Restarts

    @property
    def loading_s(self) -> float: ...

    @property
    def busy(self) -> bool: ...

    def send(self, message: ipc.ToEngine) -> None: ...


class SlotEvents(Protocol):
    """Who brings clients to the halls, and hears what becomes of each hall."""

    def slot_ready(self, slot: Slot, load_s: float) -> None: ...

    def slot_lost(self) -> None: ...

    def session_began(self, slot: Slot) -> None: ...

    def session_over(self, slot: Slot) -> None: ...

    def assign_next(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotSettings:
    """What is the same in every hall of a server."""

    name: str
    clock: Clock
    limits: TurnLimits
    expose_errors: bool
    is_named: bool = True
    engines: int = 1
    metrics: Metrics = field(default_factory=Metrics)

    def name_of(self, contract: Mapping[str, Any] | None) -> str:
        """Return the model's name: that of the manifest, or one that only its class declares."""
        declared = None if contract is None else contract.get("name")
        return self.name if self.is_named or not declared else str(declared)

    def ids(self, number: int) -> dict[str, str]:
        """Give the fields of log lines that say which engine they are of: none where there is one."""
        return {"engine": str(number)} if self.engines > 1 else {}


class Slot:
    """Give one engine to one controller after the other, and show those who watch what it makes.

    Who gets it, and who watches, is the usher's to say. Belongs to the server's loop.
    """

    def __init__(
        self,
        number: int,
        *,
        engine: SlotEngine,
        subscribers: Subscribers,
        playout: Playout,
        line: WaitQueue[Client],
        events: SlotEvents,
        rules: SlotSettings,
    ) -> None:
        self.number = number
        self.ids = rules.ids(number)
        self.engine = engine
        self.subscribers = subscribers
        self.session: ServedSession | None = None
        self.failed_in_a_row = 0
        self.losses = 0
        self._begun = False
        self._playout = playout
        self._line = line
        self._events = events
        self._rules = rules
        self._welcome_sender = WelcomeSender(rules.name_of, engine, subscribers, rules.limits)

    @property
    def is_on(self) -> bool:
        """Tell whether there is a session to be seen."""
        return self._begun and self.engine.phase is EnginePhase.READY

    def start_session(self, controller: Client) -> None:
        """Start a session for a controller; the engine must be ready, and without one."""
        self.session = ServedSession(
            controller,
            self.subscribers,
            self._playout,
            self.engine.send,
            clock=self._rules.clock,
            limits=self._rules.limits,
        )
        controller.ids.update(self.ids)
        self.session.start()

    def send_welcome(self, client: Client) -> None:
        """Let a client see what is going on here, once there is something to tell of the model.

        A session that hasn't begun is announced when it does: what is on screen until then isn't its own.
        """
        self._welcome_sender.send_welcome(client, self.session if self._begun else None)

    def resume(self, client: Client) -> None:
        """Let the controller go on over another connection."""
        session = self.session
        assert session is not None, "somebody has shown its secret"
        session.resume(client)
        whose = session.id, client.id, client.address
        logger.info("session resumed id=%s client=%s from=%s", *whose, extra=client.ids)
        self.send_welcome(client)
        self.subscribers.send_message("reactor.session", {"phase": "resumed", "session": session.id})

    def release(self, *, lost: bool) -> None:
        """End the session of a controller that has gone; one whose connection is `lost` may come back."""
        session = self.session
        if session is not None and not (lost and session.leave()):
            session.stop()

    def engine_ready(self, load_s: float) -> None:
        self._events.slot_ready(self, load_s)

    def engine_said(self, message: ipc.Message, ring: RingReader) -> None:
        session = self.session
        if isinstance(message, ipc.Bundle) and (session is None or message.session != session.id):
            self._playout.reject_bundle(message, ring)
        elif session is None or message.session != session.id:  # type: ignore[union-attr]  # all others name theirs
            logger.debug("the engine spoke of a session that is over: %s", type(message).__name__)
        elif isinstance(message, ipc.Started):
            self._session_started(session, message)
        elif isinstance(message, ipc.Ended):
            self._session_ended(session, message)
        elif isinstance(message, ipc.Suspicion):
            finding = errors.from_json(message.error)
            logger.warning("%s", finding, extra=session.controller.ids)
            if self._rules.expose_errors:
                self.send_message(
                    "reactor.session", {"phase": "warning", "message": f"{_with_line(finding)}: {finding.hint}"}
                )
        else:
            session.receive(message, ring)

    def engine_lost(self, how: str) -> None:
        """End the session that died with the engine's process."""
        self._playout.clear()
        self.losses += 1
        if self.session is not None:
            self.failed_in_a_row += 1
            self._end(self.session, "model_died", f"the model's process {how}")
        self._events.slot_lost()

    def close(self) -> None:
        """End the session that the model has not let go of before the server's end."""
        if self.session is not None:
            self._end(self.session, TurnEnd.STOPPING, ENDINGS[TurnEnd.STOPPING])

    def send_message(self, kind: str, data: dict[str, Any]) -> None:
        """Tell those who see the session, and its controller, who doesn't before it has begun."""
        self.subscribers.send_message(kind, data, but=self._line.waiting)
        if self.session is not None and self.session.controller not in self.subscribers:
            self.session.controller.send_message(kind, data)

    def tell_statistics(self, now: float) -> None:
        """Tell everyone who sees the session the figures of the model and its own, and the controller what it takes."""
        shared = {"queue": len(self._playout), **self._playout.times.medians_ms()}
        controller = None if self.session is None else self.session.controller
        inputs = {} if self.session is None else self.session.demand.metrics()

        def send_message(each: Client) -> None:
            taken = {"inputs": inputs} if each is controller and inputs else {}
            each.send_message("reactor.stats", {**shared, **each.statistics(now), **taken})

        self.subscribers.for_each(send_message)

    def _session_started(self, session: ServedSession, started: ipc.Started) -> None:
        session.began(started)
        if session.phase is not SessionPhase.RUNNING:
            return
        self._begun = True
        controller = session.controller
        logger.info("session started id=%s client=%s", session.id, controller.id, extra=controller.ids)
        self._playout.flush(before=sys.maxsize)  # the black end of the session before may still be on its way
        self.subscribers.clear_frames()
        self.send_welcome(controller)
        self._events.session_began(self)
        waiting = self._line.waiting
        self.subscribers.send_message("reactor.session", {"phase": "started", "session": session.id}, but=waiting)
        self.subscribers.send_message("reactor.state", session.state, but=(controller, *waiting))
        session.turn.begin()
        self._events.assign_next()

    def _session_ended(self, session: ServedSession, ended: ipc.Ended) -> None:
        if ended.error is None:
            self.failed_in_a_row = 0
            if session.phase is SessionPhase.STOPPING:
                self._end(session, session.end, ENDINGS[session.end])
            else:
                self._end(session, "finished", "the model has finished this session")
            return
        self.failed_in_a_row += 1
        error = errors.from_json(ended.error)
        message = _with_line(error) if self._rules.expose_errors else "the model failed in this session"
        self._end(session, "model_error", message)

    def _end(self, session: ServedSession, reason: str, message: str) -> None:
        logger.info("session ended id=%s reason=%s", session.id, reason, extra=session.controller.ids)
        self._rules.metrics.forget(session.id)
        self._rules.metrics.sessions.add(reason)
        session.turn.stop()
        session.over.set()
        failed = reason not in ("finished", *TurnEnd)
        if failed:
            self._rules.metrics.errors.add(ErrorCode.MODEL_ERROR)
            self.send_message("reactor.error", {"code": ErrorCode.MODEL_ERROR, "message": message})
        self.send_message("reactor.session", {"phase": "ended", "reason": reason, "message": message})
        self.session = None
        self._begun = False
        self.subscribers.leave(session.controller)
        session.controller.close(CloseCode.MODEL_FAILED if failed else CloseCode.SESSION_OVER, message)
        self._events.session_over(self)


def _with_line(error: errors.ReactorError) -> str:
    """Return the message of an error with the author's file and line."""
    return (
        error.message if error.where is None else f"{error.message} ({Path(error.where.file).name}:{error.where.line})"
    )
