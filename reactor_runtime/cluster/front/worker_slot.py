"""A slot whose model runs in a worker: follows what the worker reports, and sends clients there.

A client that follows redirects is sent to the worker with a ticket. Others are relayed.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from reactor_runtime.clock import Timer
from reactor_runtime.cluster.front.access import WorkerAccess
from reactor_runtime.cluster.front.relay import Failure, Relay, RelayEnd
from reactor_runtime.cluster.front.worker_viewers import WorkerViewers
from reactor_runtime.cluster.messages import Release, SessionStatus, ToWorker, Waiting, WorkerStatus
from reactor_runtime.cluster.tickets import TICKET_S, IssuedTicket
from reactor_runtime.server.delivery.client import Client, Role
from reactor_runtime.server.sessions.admission import Loss
from reactor_runtime.server.sessions.session import SessionPhase
from reactor_runtime.server.sessions.slot import SlotCallbacks, SlotSettings, SlotStatistics, VacantSession
from reactor_runtime.server.sessions.turn import SeatTurn, TurnEnd
from reactor_runtime.server.workers.engine import EnginePhase
from reactor_runtime.wire.protocol import CloseCode

logger = logging.getLogger(__name__)

NO_CONTACT = "there is no contact with the worker"
LOST = "lost"
UNREACHED = "the client could not reach its worker"
BROKEN = "the connection to the session broke"
FAILURES = ("model_error", "model_died", LOST)
RELAY_PAUSE_S = 1.0
# For the worker to close the connection of a relayed controller after its session.
CLOSING_S = 5.0


class WorkerEngine:
    """Hold the status of the model in a worker, as the worker reported it last."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.phase = EnginePhase.LOADING
        self.detail = ""
        self.progress: float | None = None
        self.contract: dict[str, Any] | None = None
        self.failed_loads = 0
        self.fitting = self.room = 1
        self.limit = ""
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

    def mark_unavailable(self, detail: str) -> None:
        """Serve no session until the next status."""
        if self.phase is not EnginePhase.LOADING:
            self._loading_since = self._now()
        self.phase, self.detail, self.progress = EnginePhase.LOADING, detail, None


class WorkerTurn:
    """Limit the turn of a session in its worker, which keeps the time."""

    def __init__(self, send: Callable[[ToWorker], None], used_s: float) -> None:
        self.used_s = used_s
        self._send = send
        self._limited = False

    def set_others_waiting(self, waiting: bool) -> None:
        if waiting is not self._limited:
            self._limited = waiting
            self._send(Waiting(int(waiting)))

    def send_again(self) -> None:
        """Send a limit that the worker has removed because there was no front."""
        if self._limited:
            self._send(Waiting(1))


class WorkerSession:
    """Follow a session in a worker; until the worker has reported it, its id is that of its controller's ticket.

    `controller` is a relayed controller, None for one that was redirected; `client` is the id of either. `expiry` is
    the timer of a ticket that was not used yet. `is_reported` is whether the worker has reported the session, so that
    the ticket has been used. `is_released` is whether the front has ordered the worker to refuse the ticket and to end
    the session. `has_returned` is whether the controller got the slot because it could not reach another worker.
    `claimant` is the controller that came back before the worker reported the end of the session, else None.
    """

    def __init__(self, send: Callable[[ToWorker], None], ticket: str, client: str, used_s: float) -> None:
        self.id = ticket
        self.client = client
        self.controller: Client | None = None
        self.phase = SessionPhase.STARTING
        self.started_at = 0.0
        self.over = asyncio.Event()
        self.turn = WorkerTurn(send, used_s)
        self.ticket = ticket
        self.is_reported = False
        self.is_released = False
        self.has_returned = False
        self.claimant: Client | None = None
        self.relay: Relay | None = None
        self.expiry: Timer | None = None
        self.upload_key = ""
        self.resume_secret = ""
        # The vacancy of the session, as the worker counts them, in which another controller may end it.
        self.offered = 0
        # Until then a controller may come to the worker to resume the session.
        self.resumes_until = 0.0
        # The session may also be that of an earlier front, which may have redirected its controller.
        self.is_redirected = True
        self._send = send
        # A client that resumes gets another ticket, which the worker may never report.
        self._last_issued = ticket

    @property
    def tickets(self) -> tuple[str, ...]:
        """Return the ids of the tickets with which the controller may come back to the front."""
        return self.ticket, self._last_issued

    def was_redirected_with(self, ticket: str) -> bool:
        """Return whether the controller was redirected with this ticket, and may return with its secret."""
        return ticket in self.tickets and self.is_redirected and not self.is_released

    def loss(self, reason: str, now: float) -> Loss:
        """Return the loss of the session now."""
        ran_s = now - self.started_at if self.started_at else 0.0
        return Loss(reason, self.turn.used_s + ran_s)

    @property
    def ids(self) -> dict[str, str]:
        """Return the log fields of the session."""
        return {"client": self.client, **({"session": self.id} if self.is_reported else {})}

    @property
    def controllers(self) -> list[Client]:
        """Return the controller if it is relayed."""
        return [] if self.controller is None else [self.controller]

    @property
    def room(self) -> str:
        """Return "": a session of a cluster has one seat."""
        return ""

    def free_seat_for(self, client: Client) -> None:
        """Return None: a session of a cluster has one seat."""

    @property
    def turns(self) -> list[SeatTurn]:
        """Return the turn of the controller."""
        return [SeatTurn(self.turn, self.started_at - self.turn.used_s if self.started_at else 0.0)]

    def is_resumed_by(self, secret: str) -> bool:
        """Return whether a client with this secret may resume the session."""
        if not self.resume_secret or self.is_released:
            return False
        return secrets.compare_digest(secret.encode(errors="replace"), self.resume_secret.encode())

    def stop(self, end: TurnEnd = TurnEnd.LEFT) -> None:
        """Do nothing: the worker ends its session itself when it is stopped."""

    def end(self) -> None:
        """Release the tasks that wait for the end; the worker closes the connection of a relayed controller."""
        self.over.set()
        # A worker keeps the limit for its next session.
        self.turn.set_others_waiting(False)
        if self.expiry is not None:
            self.expiry.cancel()

    def release(self) -> None:
        """Order the worker to end the session, or to refuse its ticket; the slot is free when it has done so."""
        self.is_released = True
        self.end()
        self._send(Release(self.ticket))

    def release_unreached(self, worker: str) -> None:
        """Release the ticket of a controller that has not connected to the worker."""
        logger.info("client has not come to its worker id=%s worker=%s", self.client, worker, extra=self.ids)
        self.release()

    def is_over(self, status: WorkerStatus) -> bool:
        """Return whether the worker's status shows that the session has ended, or that its ticket was released."""
        session = status.session
        if self.is_reported:
            return session is None or session.id != self.id
        return (
            self.is_released and status.released == self.ticket and (session is None or session.ticket != self.ticket)
        )

    def connect(
        self, controller: Client, access: WorkerAccess, ticket: IssuedTicket, on_relay_end: Callable[[RelayEnd], None]
    ) -> None:
        """Send a controller to the worker, or relay it."""
        self._last_issued = ticket.id
        self.is_redirected = access.redirects(controller)
        if self.is_redirected:
            access.redirect(controller, ticket)
            return
        self.controller = controller
        self.relay = access.relay(controller, ticket, on_relay_end)

    def disconnect(self, *, lost: bool = False) -> Client | None:
        """End the relay of the controller, as if its connection broke if it is `lost`; return the controller."""
        controller = self.controller
        if self.relay is not None:
            self.relay.close(lost=lost)
        self.relay = self.controller = None
        return controller

    def update(self, status: SessionStatus) -> None:
        """Follow what the worker reports."""
        self.is_reported = True
        if self.expiry is not None:
            self.expiry.cancel()
        self.id = status.id
        self.client = status.client
        self.ticket = status.ticket or self.ticket
        self.phase = SessionPhase(status.phase)
        # A worker reports a session before the turn has begun.
        self.turn.used_s = max(self.turn.used_s, status.used_s)
        self.resume_secret = status.resume
        self.upload_key = status.upload_key


class RelayFailures:
    """Pause a worker for a second after each failure of a relay that follows another one within a second. Pure."""

    def __init__(self) -> None:
        self._failed_at = self._paused_until = -math.inf

    def record(self, now: float) -> bool:
        """Count a failure; return whether it pauses the worker."""
        pauses = now < self._failed_at + RELAY_PAUSE_S
        self._failed_at = now
        if pauses:
            self._paused_until = now + RELAY_PAUSE_S
        return pauses

    def is_paused(self, now: float) -> bool:
        """Return whether the worker is to get no client now."""
        return now < self._paused_until


class WorkerSlot:
    """Assign clients to a worker, and follow the sessions that it reports; use on the front's loop.

    A controller holds the slot from its redirect until the session that the worker reports is over. A controller
    that does not connect within 10 s, or comes back without having reached the worker, loses the slot, which is free
    as soon as the worker has released the ticket. `send` sends a message to the worker. `on_session_lost` is called
    with a session whose worker, or the connection to it, was lost, and its controller if that is relayed.
    """

    def __init__(
        self,
        number: int,
        worker: str,
        *,
        access: WorkerAccess,
        settings: SlotSettings,
        callbacks: SlotCallbacks[WorkerSlot],
        send: Callable[[ToWorker], None],
        on_session_lost: Callable[[WorkerSession, Client | None, Loss], None],
        on_viewers_lost: Callable[[], None],
    ) -> None:

        def viewers_lost(*, is_reachable: bool) -> None:
            if not is_reachable:
                # Until the next status.
                self.lose_contact(NO_CONTACT)
            on_viewers_lost()

        self.number = number
        self.worker = worker
        self.ids: Mapping[str, str] = {"worker": worker}
        self.engine = WorkerEngine(settings.clock.now)
        self.session: WorkerSession | None = None
        self.is_draining = False
        self.status: WorkerStatus | None = None
        self.failed_in_a_row = 0
        self.losses = 0
        self.idle_since = settings.clock.now()
        self.subscribers = WorkerViewers(
            access,
            settings=settings,
            contract=lambda: self.engine.contract if self._has_contact else None,
            session=lambda: self.session.id if self.session is not None and self.has_started else "",
            on_lost=viewers_lost,
        )
        self._has_contact = False
        self._relay_failures = RelayFailures()
        self._access = access
        self._settings = settings
        self._callbacks = callbacks
        self._send = send
        self._on_session_lost = on_session_lost

    @property
    def model_name(self) -> str:
        return self._settings.name_of(self.engine.contract)

    @property
    def has_started(self) -> bool:
        session = self.session
        if session is None or session.is_released:
            return False
        return self._has_contact and session.phase is SessionPhase.RUNNING

    def start_session(self, controller: Client) -> None:
        self.subscribers.leave(controller)
        ticket = self._access.issue(controller, Role.CONTROLLER)
        session = self.session = WorkerSession(self._send, ticket.id, controller.id, controller.used_s)
        session.has_returned = controller.has_returned

        def expire() -> None:
            if not session.is_released:
                session.release_unreached(self.worker)

        session.connect(controller, self._access, ticket, lambda end: self._relay_ended(session, end))
        if session.relay is None:
            clock = self._settings.clock
            session.expiry = clock.call_at(clock.now() + TICKET_S, expire)

    def claim_loss(self, ticket: str, client: Client) -> Loss | None:
        """Return the loss of a controller that was redirected with this ticket and could not reach the worker.

        Return None for another ticket, and also for the second time in a row: otherwise a client could hold slots
        without a session. If the worker has the session, this client gets its place in the queue only when the worker
        reports that the connection broke: coming back to the front never ends a session.
        """
        session = self.session
        if session is None or not session.was_redirected_with(ticket):
            return None
        if session.is_reported:
            session.claimant = client
            return None
        session.release_unreached(self.worker)
        if session.has_returned and self._has_contact:
            return None
        client.has_returned = True
        return session.loss(UNREACHED, self._settings.clock.now())

    def resume_session(self, client: Client, secret: str = "") -> None:  # noqa: ARG002  (a session has one controller)
        session = self.session
        assert session is not None, "the client has shown the secret of a session"
        session.offered, session.resumes_until = 0, self._settings.clock.now() + TICKET_S
        controller = session.disconnect(lost=True)
        if controller is not None and controller is not client:
            controller.close(CloseCode.SESSION_OVER, "the session goes on over another connection")
        ticket = self._access.issue(client, Role.CONTROLLER, resume=session.resume_secret)
        session.connect(client, self._access, ticket, lambda end: self._relay_ended(session, end))

    def subscribe(self, client: Client) -> None:
        self.subscribers.watch(client)

    def detach_controller(self, client: Client, *, lost: bool) -> None:  # noqa: ARG002  (it has one controller)
        session = self.session
        if session is not None and session.relay is not None:
            session.disconnect(lost=lost)
            if not session.is_reported:
                session.release()

    def close_session(self) -> None:
        if self.session is not None:
            self._end_session(self.session)

    def send_message(self, kind: str, data: dict[str, Any]) -> None:
        controller = None if self.session is None else self.session.controller
        for client in (*self.subscribers.clients, *([] if controller is None else [controller])):
            client.send_message(kind, data)

    def send_progress(self) -> None:
        """Do nothing: the worker sends its clients the progress."""

    def send_statistics(self, now: float) -> None:
        """Do nothing: the worker sends its clients statistics."""

    def statistics(self) -> SlotStatistics:
        """Return what the worker reported last."""
        worker, node, url, status = self.worker, self._access.node, self._access.shown_url, self.status
        if status is None:
            return SlotStatistics(worker=worker, node=node, url=url)
        is_ready = self.engine.phase is EnginePhase.READY
        return SlotStatistics(
            worker=worker,
            node=node,
            url=url,
            gpu=status.gpu,
            clients=status.clients,
            viewers=status.viewers,
            fps=None if self.session is None else status.fps,
            age_ms=None if self.session is None else status.age_ms,
            late_ms=None if self.session is None else status.late_ms,
            memory_bytes=status.memory_bytes,
            uptime_s=status.uptime_s if is_ready else None,
        )

    def on_status(self, status: WorkerStatus) -> None:
        """Follow the worker's model and its session."""
        before, had_started = self.engine.phase, self.has_started
        was_loaded = self.status is not None and self.status.phase == EnginePhase.READY
        is_loaded = status.phase == EnginePhase.READY
        if is_loaded and not was_loaded:
            self.idle_since = self._settings.clock.now()
        self.losses += was_loaded and not is_loaded
        self.engine.update(status)
        self.status = status
        self.is_draining = status.draining
        self._has_contact = True
        if self._relay_failures.is_paused(self._settings.clock.now()):
            self.lose_contact(NO_CONTACT)
        self._apply_status(status, had_started=had_started)
        if is_loaded and before is not EnginePhase.READY:
            self._callbacks.on_ready(self, None if was_loaded else status.loading_s)
        elif before is EnginePhase.READY and not is_loaded:
            self._callbacks.on_lost()

    def lose_contact(self, reason: str) -> None:
        """Send no client to the worker until it sends its status again."""
        self._has_contact = False
        self.engine.mark_unavailable(reason)

    def lose(self, reason: str) -> None:
        """End the session of a worker that has gone, and close the connections to it."""
        self.lose_contact(reason)
        if self.session is not None and not self.session.is_released:
            self._lose_session(self.session, reason)
        if self.session is not None:
            # The worker releases no ticket any more.
            self._end_session(self.session)
        self.subscribers.close()

    def _apply_status(self, status: WorkerStatus, *, had_started: bool) -> None:
        """Follow the session that the worker has: the one assigned to it, or one that another front assigned."""
        session, report = self.session, status.session
        over = session if session is not None and session.is_over(status) else None
        if over is not None:
            self.session = None
        if report is not None and self.session is None:
            self.session = WorkerSession(self._send, report.ticket, report.client, report.used_s)
        # The new session is set first, because the end of one makes admission look for a free slot.
        if over is not None:
            self._end_session(over)
        session = self.session
        if session is None:
            return
        if report is not None and (session.is_reported or session.ticket == report.ticket):
            session.update(report)
        elif report is not None and not session.is_released:
            self._lose_session(session, "another client has the worker")
            return
        if session.is_released and status.released != session.ticket:
            # The message was lost with a connection, is on its way, or named the ticket before a resume.
            session.release()
        if report is not None:
            self._offer_vacant(session, report)
        if report is not None and self.has_started and not had_started:
            session.started_at = session.started_at or self._settings.clock.now() - report.running_s
            self.subscribers.send_waiting()
            self._callbacks.on_session_visible(self)
            self._callbacks.on_session_started()

    def _offer_vacant(self, session: WorkerSession, report: SessionStatus) -> None:
        """Offer a session that its controller has left to admission, which ends it if another controller waits."""
        number = report.vacancy
        if not number:
            session.offered = 0
        elif (
            session.offered != number and not session.is_released and self._settings.clock.now() > session.resumes_until
        ):
            session.offered = number
            vacant = VacantSession(
                self,
                lambda: int(self.session is session and session.offered == number),
                take=None,
                end=session.release,
                kept_s=self._settings.options.limits.outlives_s if report.is_broken else 0.0,
            )
            self._callbacks.on_vacant(vacant)

    def _relay_ended(self, session: WorkerSession, end: RelayEnd) -> None:
        controller = session.controller
        assert controller is not None, "a relay is for a controller"
        is_refused = end.code is CloseCode.SERVER_STOPPING and not session.is_reported and controller.closing is None
        if self.session is not session or (end.failure is None and not is_refused):
            session.disconnect()
            controller.close(end.code, end.reason)
            if not session.is_reported:
                session.release()
            return
        pauses = self._relay_failures.record(self._settings.clock.now())
        if end.failure is Failure.BROKEN and session.resume_secret and not pauses:
            # The worker keeps the session for its controller, unless it has gone: then it can't be reached.
            self.resume_session(controller)
            return
        if pauses:
            # Otherwise the controller would get this worker again at once.
            self.lose_contact(NO_CONTACT)
        self._lose_session(session, NO_CONTACT)

    def _lose_session(self, session: WorkerSession, reason: str) -> None:
        """Release a session, and return its controller to the wait queue."""
        controller = session.disconnect()
        session.release()
        self._on_session_lost(session, controller, session.loss(reason, self._settings.clock.now()))

    def _end_session(self, session: WorkerSession) -> None:
        """Free the slot; the reason is that of the worker's status, or else that the session was lost.

        A controller whose connection to the worker broke has lost the session too.
        """
        now = self._settings.clock.now()
        if session.is_reported:
            end = None if self.status is None or session.is_released else self.status.ended
            is_known = end is not None and end.session == session.id
            reason = end.reason if end is not None and is_known else LOST
            logger.info("session over id=%s worker=%s reason=%s", session.id, self.worker, reason, extra=session.ids)
            self.failed_in_a_row = self.failed_in_a_row + 1 if reason in FAILURES else 0
            self._settings.metrics.sessions.add(reason)
            if end is not None and is_known and end.is_broken and session.is_redirected:
                self._on_session_lost(session, None, session.loss(BROKEN, now))
        session.end()
        if self.session is session:
            self.session = None
        clock = self._settings.clock
        self.idle_since = now
        if (relay := session.relay) is not None:
            # The connection may be half-open.
            clock.call_at(now + CLOSING_S, lambda: relay.end(CloseCode.SESSION_OVER, "the session is over"))
        self._callbacks.on_session_ended(self)
