"""A slot whose model runs in a worker: follows what the worker reports, and sends clients there.

A client that follows redirects is sent to the worker with a ticket. Others are relayed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any

from reactor_runtime.cluster.front.access import WorkerAccess
from reactor_runtime.cluster.front.relay import Failure, RelayEnd
from reactor_runtime.cluster.front.worker_engine import NO_CONTACT, WorkerEngine
from reactor_runtime.cluster.front.worker_session import WorkerSeat, WorkerSession, WorkerTurns
from reactor_runtime.cluster.front.worker_viewers import WorkerViewers
from reactor_runtime.cluster.messages import SeatStatus, SessionStatus, SlotStatus, ToWorker
from reactor_runtime.cluster.tickets import TICKET_S
from reactor_runtime.server.delivery.client import Client, Role
from reactor_runtime.server.sessions.admission import Loss
from reactor_runtime.server.sessions.session import SessionPhase
from reactor_runtime.server.sessions.slot import SlotCallbacks, SlotSettings, SlotStatistics, VacantSession
from reactor_runtime.server.workers.engine import EnginePhase
from reactor_runtime.wire.protocol import CloseCode

logger = logging.getLogger(__name__)

LOST = "lost"
UNREACHED = "the client could not reach its worker"
BROKEN = "the connection to the session broke"
FAILURES = ("model_error", "model_died", LOST)
# For the worker to close the connection of a relayed controller after its session.
CLOSING_S = 5.0
OTHER_CLIENT = "another client has the worker"
SESSION_OVER = "the session was over before the client came to it"


class WorkerSlot:
    """Assign clients to a slot of a worker, and follow the session that it reports; use on the front's loop.

    `number` is that among all slots of the front, `place` that among those of the worker, which share the `engine`.
    A controller holds its seat from its redirect until the worker reports that its turn is over. A controller that does
    not connect within 10 s, or comes back without having reached the worker, loses the seat, which is free as soon as
    the worker has released the ticket. `send` sends a message to the worker. `on_seat_lost` is called with a seat whose
    worker, or the connection to it, was lost, and its controller if that is relayed.
    """

    def __init__(
        self,
        number: int,
        worker: str,
        place: int,
        *,
        engine: WorkerEngine,
        turns: WorkerTurns,
        access: WorkerAccess,
        settings: SlotSettings,
        callbacks: SlotCallbacks[WorkerSlot],
        send: Callable[[ToWorker], None],
        on_seat_lost: Callable[[WorkerSeat, Client | None, Loss], None],
        on_viewers_lost: Callable[[], None],
    ) -> None:

        def viewers_lost(*, is_reachable: bool) -> None:
            if not is_reachable:
                # Until the next status.
                engine.lose_contact(NO_CONTACT)
            on_viewers_lost()

        self.number = number
        self.worker = worker
        self.ids: Mapping[str, str] = {"worker": worker}
        self.engine = engine
        self.session: WorkerSession | None = None
        self.status: SlotStatus | None = None
        self.failed_in_a_row = 0
        self.idle_since = settings.clock.now()
        self.subscribers = WorkerViewers(
            access,
            settings=settings,
            contract=lambda: engine.contract if engine.has_contact else None,
            session=lambda: self.session if self.has_started else None,
            starts=lambda: engine.has_several_slots and self._starts,
            on_lost=viewers_lost,
        )
        self._place = place
        self._turns = turns
        self._access = access
        self._settings = settings
        self._callbacks = callbacks
        self._send = send
        self._on_seat_lost = on_seat_lost

    @property
    def model_name(self) -> str:
        return self._settings.name_of(self.engine.contract)

    @property
    def losses(self) -> int:
        return self.engine.losses

    @property
    def is_draining(self) -> bool:
        return self.engine.is_draining

    @property
    def has_started(self) -> bool:
        session = self.session
        if session is None or session.is_released:
            return False
        return self.engine.has_contact and session.phase is SessionPhase.RUNNING

    @property
    def _starts(self) -> bool:
        return self.session is not None and self.session.phase is SessionPhase.STARTING

    def start_session(self, controller: Client) -> None:
        contract = self.engine.contract
        places = 1 if contract is None else int(contract.get("seats", 1))
        if controller.seat >= places:
            controller.seat = 0
        session = self.session = WorkerSession(controller.id, room=controller.room if places > 1 else "", places=places)
        self._seat(session, controller)

    def _seat(self, session: WorkerSession, controller: Client) -> None:
        """Send a controller to its seat of a session, which starts with it or runs."""
        self.subscribers.leave(controller)
        of_session = session.id if session.is_reported else ""
        ticket = self._access.issue(
            controller, Role.CONTROLLER, slot=self._place, session=of_session, room=session.room
        )
        seat = WorkerSeat(controller.seat, self._send, self._turns, ticket.id, controller.id, controller.used_s)
        session.seats[seat.number] = seat
        seat.has_returned = controller.has_returned

        def expire() -> None:
            if not seat.is_released:
                self._release_unreached(session, seat)

        seat.connect(controller, self._access, ticket, lambda end: self._relay_ended(session, seat, end))
        if seat.relay is None:
            clock = self._settings.clock
            seat.expiry = clock.call_at(clock.now() + TICKET_S, expire)

    def claim_loss(self, ticket: str, client: Client) -> Loss | None:
        """Return the loss of a controller that was redirected with this ticket and could not reach the worker.

        Return None for another ticket, and also for the second time in a row: otherwise a client could hold slots
        without a session. If the worker has the controller, this client gets its place in the queue only when the
        worker reports that the connection broke: coming back to the front never ends a turn.
        """
        session = self.session
        seats = () if session is None else session.seats.values()
        seat = next((each for each in seats if each.was_redirected_with(ticket)), None)
        if session is None or seat is None:
            return None
        if seat.is_reported:
            seat.claimant = client
            return None
        self._release_unreached(session, seat)
        if seat.has_returned and self.engine.has_contact:
            return None
        client.has_returned = True
        return seat.loss(UNREACHED, self._settings.clock.now())

    def resume_session(self, client: Client, secret: str) -> None:
        session = self.session
        assert session is not None, "the client has shown the secret of a session"
        self._resume(session, next(seat for seat in session.seats.values() if seat.is_resumed_by(secret)), client)

    def _resume(self, session: WorkerSession, seat: WorkerSeat, client: Client) -> None:
        seat.offered, seat.resumes_until = 0, self._settings.clock.now() + TICKET_S
        controller = seat.disconnect(lost=True)
        if controller is not None and controller is not client:
            controller.close(CloseCode.SESSION_OVER, "the session goes on over another connection")
        ticket = self._access.issue(client, Role.CONTROLLER, resume=seat.resume_secret)
        seat.connect(client, self._access, ticket, lambda end: self._relay_ended(session, seat, end))

    def subscribe(self, client: Client) -> None:
        # Another connection would get no place at a worker that counts the one before as a viewer still.
        self.subscribers.join(client)

    def detach_controller(self, client: Client, *, lost: bool) -> None:
        seats = () if self.session is None else self.session.seats.values()
        for seat in [each for each in seats if each.controller is client]:
            seat.disconnect(lost=lost)
            if not seat.is_reported:
                seat.release()

    def close_session(self) -> None:
        if self.session is not None:
            self._end_session(self.session)

    def send_message(self, kind: str, data: dict[str, Any]) -> None:
        controllers = [] if self.session is None else self.session.controllers
        for client in (*self.subscribers.clients, *controllers):
            client.send_message(kind, data)

    def send_progress(self) -> None:
        """Do nothing: the worker sends its clients the progress."""

    def send_statistics(self, now: float) -> None:
        """Do nothing: the worker sends its clients statistics."""

    def statistics(self) -> SlotStatistics:
        """Return what the worker reported last."""
        worker, node, url = self.worker, self._access.node, self._access.shown_url
        status, of_worker = self.status, self.engine.status
        if status is None or of_worker is None:
            return SlotStatistics(worker=worker, node=node, url=url)
        is_ready = self.engine.phase is EnginePhase.READY
        return SlotStatistics(
            worker=worker,
            node=node,
            url=url,
            gpu=of_worker.gpu,
            clients=status.clients,
            viewers=status.viewers,
            fps=None if self.session is None else status.fps,
            age_ms=None if self.session is None else status.age_ms,
            late_ms=None if self.session is None else status.late_ms,
            # The slots of a worker share a process.
            memory_bytes=of_worker.memory_bytes if self._place == 1 else None,
            uptime_s=of_worker.uptime_s if is_ready else None,
        )

    def adopt(self, status: SlotStatus) -> None:
        """Follow a session that another front has assigned, so that admission does not assign the slot."""
        if status.session is not None and self.session is None:
            self.session = WorkerSession(status.session.id)
            self.session.update(status.session)

    def on_status(self, status: SlotStatus, released: Collection[str], *, has_returned: bool) -> None:
        """Follow the session: the one assigned to the worker, or one that another front assigned.

        `released` has the ids of tickets that the worker refuses. The contact with the worker `has_returned` if there
        was none before this status.
        """
        self.status = status
        session, report = self.session, status.session
        over = session if session is not None and session.is_over(report, released) else None
        if over is not None:
            self.session = None
        self.adopt(status)
        # The new session is set first, because the end of one makes admission look for a free slot.
        if over is not None:
            self._end_session(over)
        if (session := self.session) is not None:
            self._follow_session(session, report, released, has_returned=has_returned)

    def _follow_session(
        self, session: WorkerSession, report: SessionStatus | None, released: Collection[str], *, has_returned: bool
    ) -> None:
        freed: list[int] = []
        if report is not None and session.has_ticket_of(report):
            session.update(report)
            freed = self._follow_seats(session, report, released)
        elif report is not None and not session.is_released:
            self._lose_seats(session, OTHER_CLIENT)
            return
        for seat in session.seats.values():
            if seat.is_released and seat.ticket not in released:
                # The message was lost with a connection, is on its way, or named the ticket before a resume.
                seat.release()
        if report is not None and self.has_started and (has_returned or not session.started_at):
            session.started_at = session.started_at or self._settings.clock.now() - report.running_s
            self.subscribers.send_waiting()
            self._callbacks.on_session_visible(self)
            self._callbacks.on_session_started()
        if has_returned:
            # Admission has forgotten a session without seats for clients.
            session.offered = []
        for number in freed or (None,):
            self._offer_seats(session, number)

    def lose(self, reason: str) -> None:
        """End the session of a worker that has gone, and close the connections to it."""
        self.engine.lose_contact(reason)
        if self.session is not None:
            self._lose_seats(self.session, reason)
        if self.session is not None:
            # The worker releases no ticket any more.
            self._end_session(self.session)
        self.subscribers.close()

    def _follow_seats(self, session: WorkerSession, report: SessionStatus, released: Collection[str]) -> list[int]:
        """Follow the controllers of a session that the worker reports; return the numbers of seats that became free."""
        now, freed = self._settings.clock.now(), []
        for number, of_seat in enumerate(report.seats):
            seat = session.seats.get(number)
            # A session with one seat ends with its controller, or outlives it.
            is_taken = not of_seat.is_free or not session.has_several_seats
            over = seat if seat is not None and session.has_several_seats and seat.is_over(of_seat, released) else None
            if over is not None:
                del session.seats[number]
                seat = None
            if seat is None and is_taken:
                client = of_seat.client
                seat = session.seats[number] = WorkerSeat(number, self._send, self._turns, of_seat.ticket, client, 0.0)
            # The new controller is set first, as admission may give the seat to another one.
            if over is not None:
                self._end_turn(over, is_broken=over.is_reported and of_seat.is_broken)
                freed += [] if is_taken else [number]
            if seat is None:
                continue
            if is_taken and (seat.is_reported or seat.ticket == of_seat.ticket):
                seat.update(of_seat, now)
                self._offer_vacant(session, seat, of_seat)
            elif is_taken and not seat.is_released:
                self._lose_seat(seat, OTHER_CLIENT)
        return freed

    def _offer_seats(self, session: WorkerSession, freed: int | None = None) -> None:
        """Offer the free seats of a session that runs to the clients that wait for one, if that has not been done.

        The seat `freed` has become free, and may have been given to a controller that returned.
        """

        def places() -> int:
            goes_on = self.engine.phase is EnginePhase.READY and not self.is_draining
            return len(session.free) if self.session is session and self.has_started and goes_on else 0

        def take(client: Client) -> None:
            self._seat(session, client)
            session.offered = session.free

        if not places():
            session.offered = []
        elif freed is not None or session.offered != session.free:
            session.offered = session.free
            seat_for, seat = session.free_seat_for, freed if freed in session.free else None
            vacant = VacantSession(self, places, take, session.stop, seat_for=seat_for, seat=seat, is_played=True)
            self._callbacks.on_vacant(vacant)

    def _offer_vacant(self, session: WorkerSession, seat: WorkerSeat, report: SeatStatus) -> None:
        """Offer a session that its controller has left to admission, which ends it if another controller waits."""
        number = report.vacancies
        if not report.is_free:
            seat.offered = 0
        elif seat.offered != number and not seat.is_released and self._settings.clock.now() > seat.resumes_until:
            seat.offered = number
            vacant = VacantSession(
                self,
                lambda: int(self.session is session and seat.offered == number),
                take=None,
                end=seat.release,
                kept_s=self._settings.options.limits.outlives_s if report.is_broken else 0.0,
            )
            self._callbacks.on_vacant(vacant)

    def _relay_ended(self, session: WorkerSession, seat: WorkerSeat, end: RelayEnd) -> None:
        controller = seat.controller
        assert controller is not None, "a relay is for a controller"
        is_present = self.session is session and session.seats.get(seat.number) is seat
        is_stopped = end.code is CloseCode.SERVER_STOPPING and not seat.is_reported and controller.closing is None
        # The session in which it was to have a seat has ended.
        is_late = end.code is CloseCode.FULL and session.is_reported and not seat.is_reported
        if not is_present or (end.failure is None and not is_stopped and not is_late):
            seat.disconnect()
            controller.close(end.code, end.reason)
            if not seat.is_reported:
                seat.release()
            return
        if end.failure is None and is_late:
            self._lose_seat(seat, SESSION_OVER)
            return
        pauses = self.engine.relay_failures.record(self._settings.clock.now())
        if end.failure is Failure.BROKEN and seat.resume_secret and not pauses:
            # The worker keeps the seat for its controller, unless it has gone: then it can't be reached.
            self._resume(session, seat, controller)
            return
        if pauses:
            # Otherwise the controller would get this worker again at once.
            self.engine.lose_contact(NO_CONTACT)
        self._lose_seat(seat, NO_CONTACT)

    def _lose_seats(self, session: WorkerSession, reason: str) -> None:
        for seat in [each for each in session.seats.values() if not each.is_released]:
            self._lose_seat(seat, reason)

    def _lose_seat(self, seat: WorkerSeat, reason: str) -> None:
        """Release a seat, and return its controller to the wait queue."""
        controller = seat.disconnect()
        seat.release()
        self._on_seat_lost(seat, controller, seat.loss(reason, self._settings.clock.now()))

    def _release_unreached(self, session: WorkerSession, seat: WorkerSeat) -> None:
        """Release the ticket of a controller that has not connected to the worker."""
        ids = {**session.ids, "client": seat.client}
        logger.info("client has not come to its worker id=%s worker=%s", seat.client, self.worker, extra=ids)
        seat.release()

    def _end_turn(self, seat: WorkerSeat, *, is_broken: bool) -> None:
        """Release what waits for the end of a turn. A controller whose connection broke has lost its session."""
        clock = self._settings.clock
        if is_broken and seat.is_redirected and not seat.is_released:
            self._on_seat_lost(seat, None, seat.loss(BROKEN, clock.now()))
        seat.end()
        if (relay := seat.relay) is not None:
            # The connection may be half-open.
            clock.call_at(clock.now() + CLOSING_S, lambda: relay.end(CloseCode.SESSION_OVER, "the session is over"))

    def _end_session(self, session: WorkerSession) -> None:
        """Free the slot; the reason is that of the worker's status, or else that the session was lost."""
        end = None if self.status is None or session.is_released else self.status.ended
        is_known = end is not None and end.session == session.id
        if session.is_reported:
            reason = end.reason if end is not None and is_known else LOST
            logger.info("session over id=%s worker=%s reason=%s", session.id, self.worker, reason, extra=session.ids)
            self.failed_in_a_row = self.failed_in_a_row + 1 if reason in FAILURES else 0
            self._settings.metrics.sessions.add(reason)
            for seat in [each for each in session.seats.values() if not each.is_reported and not each.is_released]:
                self._lose_seat(seat, SESSION_OVER)
        for seat in session.seats.values():
            self._end_turn(seat, is_broken=end is not None and is_known and end.is_broken and seat.is_reported)
        session.over.set()
        if self.session is session:
            self.session = None
        self.idle_since = self._settings.clock.now()
        self._callbacks.on_session_ended(self)
