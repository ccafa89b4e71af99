"""One controller's time with the model, as the server sees it."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from enum import StrEnum
from typing import Any

from reactor_runtime.clock import Clock
from reactor_runtime.ipc import messages as ipc
from reactor_runtime.ipc.ring import RingReader
from reactor_runtime.server.delivery.client import Client
from reactor_runtime.server.delivery.playout import Playout
from reactor_runtime.server.delivery.subscribers import Subscribers
from reactor_runtime.server.sessions.input_demand import InputDemand
from reactor_runtime.server.sessions.turn import Turn, TurnEnd, TurnLimits, TurnNotice
from reactor_runtime.wire.messages import Event
from reactor_runtime.wire.protocol import CloseCode

logger = logging.getLogger(__name__)


MOST_EARLY = 100  # a client may speak as soon as it is connected, which is before the engine has begun its session


class SessionPhase(StrEnum):
    """Where a session is between the controller's coming and the model's letting go of it."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"


class ServedSession:
    """Carry events of the controller to the engine, and what the engine answers to those it concerns."""

    def __init__(
        self,
        controller: Client,
        subscribers: Subscribers,
        playout: Playout,
        send: Callable[[ipc.ToEngine], None],
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
        self._subscribers = subscribers
        self._playout = playout
        self.send = send
        self.client = controller.id  # as the model knows it, however often it comes back
        self.resume_secret = secrets.token_urlsafe(24) if limits.resume_grace_s else None
        self.turn = Turn(limits, clock, self._announce, self.stop)
        self.end = TurnEnd.LEFT
        self.started_at = 0.0
        self.demand = InputDemand()
        self._early: list[ipc.ClientEvent | ipc.ClientMedia] = []
        self.untaken: dict[str, asyncio.Event] = {}  # set when the engine has taken the upload of that id

    def start(self) -> None:
        """Ask the engine for a session; `began` follows when it has a fresh state."""
        self.send(ipc.StartSession(self.id, self.controller.id, self.controller.joined_at_unix))

    def began(self, started: ipc.Started) -> None:
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
            self.send(ipc.StopSession(self.id))

    def leave(self) -> bool:
        """Keep the session for a controller that has lost its connection; False when it is not to be kept."""
        if self.phase is not SessionPhase.RUNNING or not self.turn.leave():
            return False
        self._subscribers.leave(self.controller)
        self.send(ipc.Hold(self.id, held=True))
        return True

    def is_resumed_by(self, secret: str) -> bool:
        """Tell whether who brings this secret is the controller."""
        if self.phase is not SessionPhase.RUNNING or self.resume_secret is None:
            return False
        return secrets.compare_digest(secret.encode(errors="replace"), self.resume_secret.encode())

    def resume(self, client: Client) -> None:
        """Go on with another connection of the controller's; one it may still have is closed."""
        former, self.controller = self.controller, client
        client.ids.update({**former.ids, **client.ids})
        self._subscribers.leave(former)
        former.close(CloseCode.SESSION_OVER, "the session goes on over another connection")
        self.turn.come_back()
        self.send(ipc.Hold(self.id, held=False))

    def send_event(self, event: Event) -> bool:
        """Pass an event on, or keep it until the session has begun; False when too many are kept already."""
        controller = self.controller
        arrived_at = controller.clock.now()
        return self._pass_on(ipc.ClientEvent(self.id, controller.id, event.id, event.type, event.data_json, arrived_at))

    def send_media(self, track: str, file: bytes) -> bool:
        """Pass a picture or sound on; until the session has begun the newest of its track is kept."""
        self._early = [item for item in self._early if not (isinstance(item, ipc.ClientMedia) and item.track == track)]
        return self._pass_on(ipc.ClientMedia(self.id, track, file))

    def _pass_on(self, message: ipc.ClientEvent | ipc.ClientMedia) -> bool:
        if self.phase is not SessionPhase.STARTING:
            self.send(message)
        elif len(self._early) < MOST_EARLY:
            self._early.append(message)
        else:
            return False
        return True

    def receive(self, message: ipc.Message, ring: RingReader) -> None:
        """Take what the engine says of this session."""
        match message:
            case ipc.Bundle():
                self._playout.put_bundle(message, ring, self.started_at)
            case ipc.Flush():
                self._playout.flush(message.before)
                self._subscribers.drop_sound()
            case ipc.MessageSent():
                self._playout.put_message(lambda: self._deliver(message))
            case ipc.StateChanged():
                self.state.update(message.changes)
                self._subscribers.send_message("reactor.state", message.changes)
            case ipc.InputsTaken():
                self.demand.hear(message)
            case ipc.UploadTaken():
                self.untaken.pop(message.id).set()
            case ipc.TraceSpans():
                if self.controller.metrics.trace is not None:
                    self.controller.metrics.trace.spans(message, self.controller.ids.get("engine", ""))
            case ipc.EventApplied() | ipc.EventRefused() if self._is_of_another_connection(message):
                logger.debug("an answer came after its connection had gone session=%s", self.id)
            case ipc.EventApplied():
                self._answer(message)
            case ipc.EventRefused():
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
            self.controller.send_message("reactor.session", data)
        else:
            self._subscribers.send_message("reactor.session", data)

    def _is_of_another_connection(self, answer: ipc.EventApplied | ipc.EventRefused) -> bool:
        """Tell that whoever asked isn't there any more: an id means something on its own connection only."""
        return answer.ticket is not None and answer.client != self.controller.id

    def _answer(self, answer: ipc.EventApplied) -> None:
        if answer.ticket is None:
            if answer.reply is not None:  # nobody asked by id: a message for the one who sent the event
                self.controller.send_message(*answer.reply)
            return
        data: dict[str, Any] = {"n": answer.n}
        if answer.reply is not None:
            data["message"] = {"type": answer.reply[0], "data": answer.reply[1]}
        self.controller.send_message("reactor.reply", data, answer.ticket)

    def _deliver(self, said: ipc.MessageSent) -> None:
        if said.client is None:
            self._subscribers.send_message(said.type, said.data)
        elif said.client == self.client:
            self.controller.send_message(said.type, said.data)
