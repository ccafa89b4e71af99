"""Follows a session in a worker: its seats, and how their controllers get there."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Collection, Iterable

from reactor_runtime.clock import Timer
from reactor_runtime.cluster.front.access import WorkerAccess
from reactor_runtime.cluster.front.relay import Relay, RelayEnd
from reactor_runtime.cluster.messages import LimitTurns, Release, SeatStatus, SessionStatus, ToWorker
from reactor_runtime.cluster.tickets import IssuedTicket
from reactor_runtime.server.delivery.client import Client
from reactor_runtime.server.sessions.admission import Loss
from reactor_runtime.server.sessions.session import SessionPhase
from reactor_runtime.server.sessions.session_seat import choose_seat
from reactor_runtime.server.sessions.turn import SeatTurn, TurnEnd

logger = logging.getLogger(__name__)


class WorkerTurns:
    """Limit turns of the controllers of a worker, which keeps the time."""

    def __init__(self, send: Callable[[ToWorker], None]) -> None:
        self._send = send
        self._limited: dict[WorkerTurn, None] = {}

    def set_limited(self, turn: WorkerTurn, *, limited: bool) -> None:
        """Limit a turn, or no longer."""
        if limited is (turn in self._limited):
            return
        if limited:
            self._limited[turn] = None
        else:
            del self._limited[turn]
        self._send_limited()

    def send_again(self) -> None:
        """Send the limits that the worker has removed because there was no front, or whose tickets have changed."""
        if self._limited:
            self._send_limited()

    def _send_limited(self) -> None:
        self._send(LimitTurns(tuple(turn.ticket for turn in self._limited)))


class WorkerTurn:
    """Limit the turn of one controller, which the worker knows by the id of its ticket."""

    def __init__(self, turns: WorkerTurns, ticket: str, used_s: float) -> None:
        self.ticket = ticket
        self.used_s = used_s
        self._turns = turns

    def set_others_waiting(self, waiting: bool) -> None:
        self._turns.set_limited(self, limited=waiting)

    def set_ticket(self, ticket: str) -> None:
        """Follow the controller, which has resumed with another ticket."""
        if ticket != self.ticket:
            self.ticket = ticket
            self._turns.send_again()


class WorkerSeat:
    """Follow a seat that has a controller, or is kept for one; use on the front's loop.

    `controller` is a relayed controller, None for one that was redirected; `client` is the id of either. `expiry` is
    the timer of a ticket that was not used yet. `is_reported` is whether the worker has reported the controller, which
    has used the ticket. `is_released` is whether the front has ordered the worker to refuse the ticket and to end the
    turn. `has_returned` is whether the controller got the seat because it could not reach another worker.
    `claimant` is the controller that came back before the worker reported the end of the turn, else None.
    """

    def __init__(
        self, number: int, send: Callable[[ToWorker], None], turns: WorkerTurns, ticket: str, client: str, used_s: float
    ) -> None:
        self.number = number
        self.client = client
        self.controller: Client | None = None
        self.turn = WorkerTurn(turns, ticket, used_s)
        # When the turn began, less what a lost session has used of it; 0 before.
        self.began_at = 0.0
        self.ticket = ticket
        self.is_reported = False
        self.is_released = False
        self.has_returned = False
        self.claimant: Client | None = None
        self.relay: Relay | None = None
        self.expiry: Timer | None = None
        self.resume_secret = ""
        # The vacancy of the seat, as the worker counts them, in which another controller may end the session.
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
        return Loss(reason, now - self.began_at if self.began_at else self.turn.used_s)

    def is_resumed_by(self, secret: str) -> bool:
        """Return whether a client with this secret may resume the session."""
        if not self.resume_secret or self.is_released:
            return False
        return secrets.compare_digest(secret.encode(errors="replace"), self.resume_secret.encode())

    def is_over(self, report: SeatStatus | None, released: Collection[str]) -> bool:
        """Return whether the worker reports that the controller has left, or that its ticket was released.

        `report` is None while the worker has no session.
        """
        if self.is_reported:
            return report is not None and report.is_free
        is_taken = report is not None and not report.is_free and report.ticket == self.ticket
        return self.is_released and self.ticket in released and not is_taken

    def end(self) -> None:
        """Release what waits for the end; the worker closes the connection of a relayed controller."""
        self.turn.set_others_waiting(False)
        if self.expiry is not None:
            self.expiry.cancel()

    def release(self) -> None:
        """Order the worker to end the turn, or to refuse its ticket; the seat is free when it has done so."""
        self.is_released = True
        self.end()
        self._send(Release(self.ticket))

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

    def update(self, report: SeatStatus, now: float) -> None:
        """Follow what the worker reports."""
        self.is_reported = True
        if self.expiry is not None:
            self.expiry.cancel()
        self.client = report.client
        self.ticket = report.ticket or self.ticket
        self.turn.set_ticket(self.ticket)
        self.resume_secret = report.resume
        # A worker reports a controller before its turn has begun.
        if report.turn_s is not None:
            self.began_at = self.began_at or now - report.turn_s


class WorkerSession:
    """Follow a session in a worker; until the worker has reported it, its id is that of its controller.

    `places` is how many seats it has; `seats` has those that are not free. `is_reported` is whether the worker has
    reported the session. `offered` has the free seats that admission knows of.
    """

    def __init__(self, id: str, *, room: str = "", places: int = 1) -> None:
        self.id = id
        self.room = room
        self.is_private = bool(room)
        self.phase = SessionPhase.STARTING
        self.started_at = 0.0
        self.over = asyncio.Event()
        self.places = places
        self.seats: dict[int, WorkerSeat] = {}
        self.is_reported = False
        self.upload_key = ""
        self.offered: list[int] = []

    @property
    def has_several_seats(self) -> bool:
        return self.places > 1

    @property
    def free(self) -> list[int]:
        """Return the numbers of the free seats."""
        return [number for number in range(self.places) if number not in self.seats]

    @property
    def ids(self) -> dict[str, str]:
        """Return the log fields of the session."""
        clients = [seat.client for seat in self.seats.values()]
        client = {"client": clients[0]} if len(clients) == 1 else {}
        return {**client, **({"session": self.id} if self.is_reported else {})}

    @property
    def controllers(self) -> list[Client]:
        """Return the controllers that are relayed."""
        return [seat.controller for seat in self.seats.values() if seat.controller is not None]

    @property
    def turns(self) -> list[SeatTurn]:
        """Return the turns of the controllers."""
        return [SeatTurn(seat.turn, seat.began_at) for seat in self.seats.values()]

    @property
    def is_released(self) -> bool:
        """Return whether the worker ends the session: all its controllers were released."""
        return all(seat.is_released for seat in self.seats.values()) and bool(self.seats)

    def free_seat_for(self, client: Client) -> int | None:
        """Return the free seat for a client, None if there is none, or the session is in another room."""
        return choose_seat(client, self.free, room=self.room, is_private=self.is_private)

    def is_resumed_by(self, secret: str) -> bool:
        """Return whether a client with this secret may resume the session."""
        return any(seat.is_resumed_by(secret) for seat in self.seats.values())

    def stop(self, end: TurnEnd = TurnEnd.LEFT) -> None:
        """Do nothing: the worker ends its session itself when it is stopped."""

    def is_over(self, report: SessionStatus | None, released: Collection[str]) -> bool:
        """Return whether the worker reports that the session has ended, or that its ticket was released."""
        if self.is_reported:
            return report is None or report.id != self.id
        reports = () if report is None else report.seats
        return all(seat.is_over(_with_ticket(reports, seat.ticket), released) for seat in self.seats.values())

    def has_ticket_of(self, report: SessionStatus) -> bool:
        """Return whether the worker reports this session: by its id, or by the ticket of its first controller."""
        if self.is_reported:
            return self.id == report.id
        return any(_with_ticket(report.seats, seat.ticket) is not None for seat in self.seats.values())

    def update(self, report: SessionStatus) -> None:
        """Follow what the worker reports of the session, without its seats."""
        self.is_reported = True
        self.id, self.room, self.is_private = report.id, report.room, report.is_private
        self.phase = SessionPhase(report.phase)
        self.upload_key = report.upload_key
        self.places = len(report.seats)


def _with_ticket(reports: Iterable[SeatStatus], ticket: str) -> SeatStatus | None:
    return next((report for report in reports if report.ticket == ticket), None)
