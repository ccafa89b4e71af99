"""One controller's time with the model, as the server sees it."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from enum import StrEnum
from typing import Any

from reactor_runtime.clock import Clock
from reactor_runtime.seam import messages as seam
from reactor_runtime.seam.ring import RingReader
from reactor_runtime.server.audience import Audience
from reactor_runtime.server.connection import Connection
from reactor_runtime.server.demand import Demand
from reactor_runtime.server.playout import Playout
from reactor_runtime.server.turn import Turn, TurnEnd, TurnLimits, TurnNotice
from reactor_runtime.wire.messages import Event
from reactor_runtime.wire.protocol import CloseCode

logger = logging.getLogger(__name__)


MOST_EARLY = 100  # a client may speak as soon as it is connected, which is before the engine has begun its session


class SessionPhase(StrEnum):
    """Where a session is between the controller's coming and the model's letting go of it."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"


class Session:
    """Carry events of the controller to the engine, and what the engine answers to those it concerns."""

    def __init__(
        self,
        controller: Connection,
        audience: Audience,
        playout: Playout,
        send: Callable[[seam.ToEngine], None],
        *,
        clock: Clock,
        limits: TurnLimits,
    ) -> None:
        self.id = f"s-{secrets.token_hex(4)}"
        self.over = asyncio.Event()
        self.upload_key = secrets.token_urlsafe(16)
        self.controller = controller
        controller.ids["session"] = self.id
        self.phase = SessionPhase.STARTING
        self.state: dict[str, Any] = {}
        self._audience = audience
        self._playout = playout
        self.send = send
        self.client = controller.id  # as the model knows it, however often it comes back
        self.resume_secret = secrets.token_urlsafe(24) if limits.resume_grace_s else None
        self.turn = Turn(limits, clock, self._announce, self.stop)
        self.end = TurnEnd.LEFT
        self.started_at = 0.0
        self.demand = Demand()
        self._early: list[seam.ClientEvent | seam.Media] = []
        self.untaken: dict[str, asyncio.Event] = {}  # set when the engine has taken the upload of that id

    def start(self) -> None:
        """Ask the engine for a session; `began` follows when it has a fresh state."""
        self.send(seam.StartSession(self.id, self.controller.id, self.controller.joined_at_unix))

    def began(self, started: seam.Started) -> None:
        self.state = started.state
        self.started_at = started.started_at
        if self.phase is SessionPhase.STARTING:
            self.phase = SessionPhase.RUNNING
            for message in self._early:
                self.send(message)
        self._early.clear()

    def stop(self, end: TurnEnd = TurnEnd.LEFT) -> None:
        """Tell the engine that the turn is over; may be called twice, the first reason stands."""
        if self.phase is not SessionPhase.STOPPING:
            self.phase = SessionPhase.STOPPING
            self.end = end
            self.turn.stop()
            self.send(seam.StopSession(self.id))

    def leave(self) -> bool:
        """Keep the session for a controller that has lost its connection; False when it is not to be kept."""
        if self.phase is not SessionPhase.RUNNING or not self.turn.leave():
            return False
        self._audience.leave(self.controller)
        self.send(seam.Hold(self.id, held=True))
        return True

    def is_resumed_by(self, secret: str) -> bool:
        """Tell whether who brings this secret is the controller."""
        if self.phase is not SessionPhase.RUNNING or self.resume_secret is None:
            return False
        return secrets.compare_digest(secret.encode(errors="replace"), self.resume_secret.encode())

    def resume(self, connection: Connection) -> None:
        """Go on with another connection of the controller's; one it may still have is closed."""
        former, self.controller = self.controller, connection
        connection.ids.update({**former.ids, **connection.ids})
        self._audience.leave(former)
        former.close(CloseCode.SESSION_OVER, "the session goes on over another connection")
        self.turn.come_back()
        self.send(seam.Hold(self.id, held=False))

    def send_event(self, event: Event) -> bool:
        """Pass an event on, or keep it until the session has begun; False when too many are kept already."""
        controller = self.controller
        arrived_at = controller.clock.now()
        return self._pass_on(
            seam.ClientEvent(self.id, controller.id, event.id, event.type, event.data_json, arrived_at)
        )

    def send_media(self, track: str, file: bytes) -> bool:
        """Pass a picture or sound on; until the session has begun the newest of its track is kept."""
        self._early = [item for item in self._early if not (isinstance(item, seam.Media) and item.track == track)]
        return self._pass_on(seam.Media(self.id, track, file))

    def _pass_on(self, message: seam.ClientEvent | seam.Media) -> bool:
        if self.phase is not SessionPhase.STARTING:
            self.send(message)
        elif len(self._early) < MOST_EARLY:
            self._early.append(message)
        else:
            return False
        return True

    def receive(self, message: seam.Message, ring: RingReader) -> None:
        """Take what the engine says of this session."""
        match message:
            case seam.Moment():
                self._playout.put(message, ring, self.started_at)
            case seam.Flush():
                self._playout.flush(message.before)
                self._audience.hush()
            case seam.ModelSaid():
                self._playout.put_message(lambda: self._deliver(message))
            case seam.StateChanged():
                self.state.update(message.changes)
                self._audience.tell("reactor.state", message.changes)
            case seam.Taken():
                self.demand.hear(message)
            case seam.UploadTaken():
                self.untaken.pop(message.id).set()
            case seam.Traced():
                if self.controller.figures.trace is not None:
                    self.controller.figures.trace.spans(message, self.controller.ids.get("engine", ""))
            case seam.Answer() | seam.Refusal() if self._is_of_another_connection(message):
                logger.debug("an answer came after its connection had gone session=%s", self.id)
            case seam.Answer():
                self._answer(message)
            case seam.Refusal():
                self.controller.error(
                    message.code,
                    message.message,
                    message_id=message.ticket,
                    fields=message.fields,
                    event=message.event or None,
                )
            case _:
                logger.error(
                    "the engine said something unexpected: %s", type(message).__name__, extra=self.controller.ids
                )

    def _announce(self, notice: TurnNotice, seconds: float | None) -> None:
        data = {"phase": notice, "seconds": seconds}
        if notice is TurnNotice.IDLE:
            self.controller.tell("reactor.session", data)
        else:
            self._audience.tell("reactor.session", data)

    def _is_of_another_connection(self, answer: seam.Answer | seam.Refusal) -> bool:
        """Tell that whoever asked isn't there any more: an id means something on its own connection only."""
        return answer.ticket is not None and answer.client != self.controller.id

    def _answer(self, answer: seam.Answer) -> None:
        if answer.ticket is None:
            if answer.reply is not None:  # nobody asked by id: a message for the one who sent the event
                self.controller.tell(*answer.reply)
            return
        data: dict[str, Any] = {"n": answer.n}
        if answer.reply is not None:
            data["message"] = {"type": answer.reply[0], "data": answer.reply[1]}
        self.controller.tell("reactor.reply", data, answer.ticket)

    def _deliver(self, said: seam.ModelSaid) -> None:
        if said.client is None:
            self._audience.tell(said.type, said.data)
        elif said.client == self.client:
            self.controller.tell(said.type, said.data)
