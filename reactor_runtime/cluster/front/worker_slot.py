"""A slot whose model runs in a worker: what the front knows of the worker, and how clients get there.

A client that follows redirects is sent to the worker with a ticket. Others are relayed.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from reactor_runtime.clock import Timer
from reactor_runtime.cluster.messages import SessionStatus, ToWorker, Waiting, WorkerStatus
from reactor_runtime.cluster.relay import Relay, RelayEnd
from reactor_runtime.cluster.tickets import TICKET_S, IssuedTicket
from reactor_runtime.server.delivery.client import Client, Role
from reactor_runtime.server.encoding.encoded import Snapshot
from reactor_runtime.server.sessions.session import SessionPhase
from reactor_runtime.server.sessions.slot import SlotCallbacks, SlotSettings
from reactor_runtime.server.sessions.turn import TurnEnd
from reactor_runtime.server.sessions.welcome import welcome_message
from reactor_runtime.server.workers.engine import EnginePhase
from reactor_runtime.wire.messages import View
from reactor_runtime.wire.protocol import CloseCode

logger = logging.getLogger(__name__)

GO_ON = "go on at the worker"
NO_CONTACT = "there is no contact with the worker"
FAILURES = ("model_error", "model_died", "lost")


class WorkerEngine:
    """The status of the model in a worker, as the worker reported it last."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.phase = EnginePhase.LOADING
        self.detail = ""
        self.progress: float | None = None
        self.contract: dict[str, Any] | None = None
        self.failed_loads = 0
        self._now = now
        self._loading_since = now()

    @property
    def loading_s(self) -> float:
        return self._now() - self._loading_since if self.phase is EnginePhase.LOADING else 0.0

    def update(self, status: WorkerStatus) -> None:
        self.phase = EnginePhase(status.phase)
        self.detail = status.detail
        self.progress = status.progress
        self.failed_loads = status.failed_loads
        self._loading_since = self._now() - status.loading_s

    def wait(self, detail: str) -> None:
        """Serve no session until the next status."""
        if self.phase is not EnginePhase.LOADING:
            self._loading_since = self._now()
        self.phase, self.detail, self.progress = EnginePhase.LOADING, detail, None


class WorkerTurn:
    """Limit the turn of a session in its worker, which keeps the time."""

    def __init__(self, send_waiting: Callable[[int], None]) -> None:
        self._send_waiting = send_waiting
        self._limited = False

    def set_others_waiting(self, waiting: bool) -> None:
        if waiting is not self._limited:
            self._limited = waiting
            self._send_waiting(int(waiting))


class WorkerSession:
    """A session in a worker; until the worker has reported it, the ticket of its controller stands for it.

    `controller` is a client of the front: one that is relayed, or is about to go to the worker.
    """

    def __init__(self, id: str, controller: Client | None, turn: WorkerTurn, ticket: str) -> None:
        self.id = id
        self.controller = controller
        self.phase = SessionPhase.STARTING
        self.started_at = 0.0
        self.over = asyncio.Event()
        self.turn = turn
        self.ticket = ticket
        self.relay: Relay | None = None
        self._resume_secret = ""

    def is_resumed_by(self, secret: str) -> bool:
        return bool(self._resume_secret) and secrets.compare_digest(
            secret.encode(errors="replace"), self._resume_secret.encode()
        )

    def stop(self, end: TurnEnd = TurnEnd.LEFT) -> None:
        """Do nothing: the worker ends its session itself when it is stopped."""

    def update(self, status: SessionStatus) -> None:
        self.id = status.id
        self.ticket = status.ticket or self.ticket
        self.phase = SessionPhase(status.phase)
        self._resume_secret = status.resume


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetCallbacks:
    """Hold the callbacks of the fleet that its slots call.

    `issue` returns a ticket for a client that controls, or that watches a session. `send` sends a message to the
    worker. `on_session_lost` gets the ticket of a session that its worker lost, the controller if that is relayed, and
    the reason.
    """

    issue: Callable[[Role, str, str], IssuedTicket]
    send: Callable[[ToWorker], None]
    on_session_lost: Callable[[str, Client | None, str], None]
    on_viewer_lost: Callable[[], None]


class WorkerSlot:
    """Assign clients to a worker, and follow the sessions that it reports; use on the front's loop.

    From its redirect until the worker reports the session, or the ticket expires, a controller holds the slot.
    """

    def __init__(
        self,
        number: int,
        worker: str,
        *,
        settings: SlotSettings,
        callbacks: SlotCallbacks[WorkerSlot],
        fleet: FleetCallbacks,
        relays_all: bool = False,
    ) -> None:
        self.number = number
        self.worker = worker
        self.url = ""
        self.node = ""
        self.ids: Mapping[str, str] = {"worker": worker}
        self.engine = WorkerEngine(settings.clock.now)
        self.session: WorkerSession | None = None
        self.status: WorkerStatus | None = None
        self.failed_in_a_row = 0
        self.losses = 0
        self.idle_since = settings.clock.now()
        self.subscribers = WorkerViewers(self._watch)
        self._settings = settings
        self._callbacks = callbacks
        self._fleet = fleet
        self._relays_all = relays_all
        self._expiry: Timer | None = None

    @property
    def model_name(self) -> str:
        return self._settings.name_of(self.engine.contract)

    @property
    def has_started(self) -> bool:
        session = self.session
        return session is not None and session.phase is SessionPhase.RUNNING

    def start_session(self, controller: Client) -> None:
        self.subscribers.leave(controller)
        ticket = self._fleet.issue(Role.CONTROLLER, "", controller.address)
        session = self.session = WorkerSession(ticket.id, controller, WorkerTurn(self._send_waiting), ticket.id)
        self._expiry = self._settings.clock.call_at(
            self._settings.clock.now() + TICKET_S, lambda: self._reservation_expired(session)
        )
        logger.info("session assigned worker=%s client=%s", self.worker, controller.id, extra=controller.ids)
        self._connect(session, controller, ticket)

    def resume_session(self, client: Client) -> None:
        session = self.session
        assert session is not None, "the client has shown the secret of a session"
        if session.relay is not None:
            session.relay.close(lost=True)
        if session.controller is not None:
            session.controller.close(CloseCode.SESSION_OVER, "the session goes on over another connection")
        session.controller = client
        self._connect(session, client, self._fleet.issue(Role.CONTROLLER, session.id, client.address))

    def subscribe(self, client: Client) -> None:
        self.subscribers.leave(client)
        self._watch(client)

    def detach_controller(self, *, lost: bool) -> None:
        session = self.session
        if session is not None and session.relay is not None:
            session.relay.close(lost=lost)
            session.relay = session.controller = None

    def close_session(self) -> None:
        if self.session is not None:
            self._end_session(self.session)

    def send_message(self, kind: str, data: dict[str, Any]) -> None:
        for client in self.subscribers.clients:
            client.send_message(kind, data)
        if self.session is not None and self.session.controller is not None:
            self.session.controller.send_message(kind, data)

    def send_progress(self) -> None:
        """Do nothing: the worker sends its clients the progress."""

    def send_statistics(self, now: float) -> None:
        """Do nothing: the worker sends its clients statistics."""

    def on_status(self, status: WorkerStatus) -> None:
        """Follow the worker's model and its session."""
        before = self.engine.phase
        self.status = status
        self.engine.update(status)
        self._follow(status.session)
        if before is not EnginePhase.READY and self.engine.phase is EnginePhase.READY:
            self._callbacks.on_ready(self, status.loading_s)
        elif before is EnginePhase.READY and self.engine.phase is not EnginePhase.READY:
            self.losses += 1
            self._callbacks.on_lost()

    def on_no_contact(self, reason: str) -> None:
        """Start no session until the worker sends its status again."""
        self.engine.wait(f"{NO_CONTACT}: {reason}")
        self._callbacks.on_lost()

    def lose(self, reason: str) -> None:
        """End the session of a worker that has gone, and close the connections to it."""
        self.engine.wait(reason)
        session = self.session
        if session is not None:
            self._lose_session(session, reason)
        self.subscribers.close()

    def _connect(self, session: WorkerSession, controller: Client, ticket: IssuedTicket) -> None:
        """Send a controller to the worker, or relay it."""
        if self._is_sent_away(controller):
            session.controller = None
            self._redirect(controller, ticket)
        else:
            url = self._socket_url(ticket)
            session.relay = Relay(controller, url, lambda end: self._on_relay_end(session, controller, end))

    def _is_sent_away(self, client: Client) -> bool:
        return client.follows_redirects and not self._relays_all

    def _redirect(self, client: Client, ticket: IssuedTicket) -> None:
        client.send_message("reactor.redirect", {"url": self.url, "ticket": ticket.text})
        client.close(CloseCode.SESSION_OVER, GO_ON)

    def _socket_url(self, ticket: IssuedTicket) -> str:
        return f"{self.url.replace('http', 'ws', 1)}/ws?ticket={ticket.text}"

    def _watch(self, client: Client) -> None:
        """Send a viewer to the worker, relay it, or let it wait for a session to be sent to."""
        session = self.session
        if not (self._is_sent_away(client) and client.role is Role.VIEWER):
            ticket = self._fleet.issue(Role.VIEWER, "", client.address)
            relay = Relay(client, self._socket_url(ticket), lambda end: self._on_viewer_end(client, end))
            if client.outbox.view != View():
                relay.set_view(client.outbox.view)
            self.subscribers.add(client, relay)
        elif session is not None and self.has_started:
            self._redirect(client, self._fleet.issue(Role.VIEWER, session.id, client.address))
        elif self.engine.contract is not None:
            self.subscribers.add(client, None)
            limits = self._settings.options.limits
            client.send_message(
                "reactor.welcome",
                welcome_message(None, self.engine.contract, model=self.model_name, controls=False, limits=limits),
            )

    def _follow(self, report: SessionStatus | None) -> None:
        session = self.session
        was_reported = session is not None and session.phase is not SessionPhase.STARTING
        if session is not None and was_reported and (report is None or report.id != session.id):
            self._end_session(session)
        if report is None:
            return
        session = self.session
        if session is not None and not was_reported and session.ticket != report.ticket:
            # A ticket of a front before this one was used in the meantime.
            self._lose_session(session, "another client has the worker")
        if self.session is None:
            self.session = WorkerSession(report.id, None, WorkerTurn(self._send_waiting), report.ticket)
        self._update(self.session, report)

    def _update(self, session: WorkerSession, report: SessionStatus) -> None:
        had_started = self.has_started
        session.update(report)
        if self.has_started and not had_started:
            session.started_at = self._settings.clock.now()
            self._cancel_expiry()
            for client in self.subscribers.take_idle():
                self._watch(client)
            self._callbacks.on_session_visible(self)
            self._callbacks.on_session_started()

    def _send_waiting(self, count: int) -> None:
        self._fleet.send(Waiting(count))

    def _reservation_expired(self, session: WorkerSession) -> None:
        if self.session is session and session.phase is SessionPhase.STARTING and session.relay is None:
            logger.info("the client has not come to its worker worker=%s ticket=%s", self.worker, session.ticket)
            self._end_session(session)

    def _on_relay_end(self, session: WorkerSession, controller: Client, end: RelayEnd) -> None:
        session.relay = session.controller = None
        if not end.is_lost:
            controller.close(CloseCode(end.code), end.reason)
            return
        # The next status says whether the worker serves.
        self.engine.wait(NO_CONTACT)
        session.controller = controller
        self._lose_session(session, end.reason or "the connection to the worker broke")

    def _on_viewer_end(self, client: Client, end: RelayEnd) -> None:
        self.subscribers.leave(client)
        if end.is_lost:
            self._fleet.on_viewer_lost()
        else:
            client.close(CloseCode(end.code), end.reason)

    def _lose_session(self, session: WorkerSession, reason: str) -> None:
        controller = session.controller
        if session.relay is not None:
            session.relay.close()
        session.controller = session.relay = None
        self._end_session(session)
        self._fleet.on_session_lost(session.ticket, controller, reason)

    def _end_session(self, session: WorkerSession) -> None:
        id, reason = ("", "") if self.status is None else self.status.ended
        reason = reason if id == session.id else "lost"
        logger.info("session over id=%s worker=%s reason=%s", session.id, self.worker, reason)
        self.failed_in_a_row = self.failed_in_a_row + 1 if reason in FAILURES else 0
        self._settings.metrics.sessions.add(reason)
        self._cancel_expiry()
        session.over.set()
        self.session = None
        self.idle_since = self._settings.clock.now()
        self._callbacks.on_session_ended(self)

    def _cancel_expiry(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None


class WorkerViewers:
    """The clients of the front that see the session of a worker: relayed ones, and those that wait for a redirect."""

    def __init__(self, watch: Callable[[Client], None]) -> None:
        self._watch = watch
        self._relays: dict[Client, Relay | None] = {}

    def __contains__(self, client: Client) -> bool:
        return client in self._relays

    @property
    def clients(self) -> list[Client]:
        return list(self._relays)

    def add(self, client: Client, relay: Relay | None) -> None:
        self._relays[client] = relay

    def join(self, client: Client) -> None:
        if client not in self._relays:
            self._watch(client)

    def leave(self, client: Client) -> None:
        relay = self._relays.pop(client, None)
        if relay is not None:
            relay.close()

    def take_idle(self) -> list[Client]:
        """Remove and return the clients that wait for a session."""
        idle = [client for client, relay in self._relays.items() if relay is None]
        for client in idle:
            del self._relays[client]
        return idle

    def set_view(self, client: Client, view: View) -> None:
        client.outbox.set_view(view)
        relay = self._relays.get(client)
        if relay is not None:
            relay.set_view(view)

    async def snapshot(self, track: str) -> Snapshot | None:  # noqa: ARG002  (what `SubscriberSet` declares)
        """Return None: the front has no frames of its own."""
        return None

    def close(self) -> None:
        for client in self.clients:
            self.leave(client)
