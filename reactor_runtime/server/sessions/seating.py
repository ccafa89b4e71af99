"""Seats controllers in the session of a slot that runs: they resume, leave, take free seats and use up their turns.

`session_seat.py` is one seat. The controller that starts a session has its seat from the start; `admission.py` decides
which of the clients that wait gets a seat that is offered.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Generic

from reactor_runtime.server.delivery.client import Client
from reactor_runtime.server.delivery.seated_subscribers import SeatedSubscribers
from reactor_runtime.server.sessions.session import ServedSession, SessionPhase
from reactor_runtime.server.sessions.session_seat import SessionSeat
from reactor_runtime.server.sessions.slot import S, VacantSession
from reactor_runtime.server.sessions.turn import END_MESSAGES, TurnEnd
from reactor_runtime.server.workers.engine import EnginePhase
from reactor_runtime.wire.protocol import CloseCode

logger = logging.getLogger(__name__)


class Seating(Generic[S]):
    """Change the controllers of the sessions of a slot, and announce it; use on the server's loop.

    `on_vacant` gets each session that has a free seat, or goes on without a controller.
    """

    def __init__(
        self,
        slot: S,
        subscribers: SeatedSubscribers,
        on_vacant: Callable[[VacantSession[S]], None],
    ) -> None:
        self._slot = slot
        self._subscribers = subscribers
        self._on_vacant = on_vacant

    def resume(self, session: ServedSession, client: Client, secret: str) -> None:
        """Continue the session with another connection of the controller that got this secret."""
        seat = session.resume(client, secret)
        logger.info(
            "session resumed id=%s client=%s from=%s", session.id, client.id, client.address, extra=client.log_fields
        )
        self._slot.subscribe(client)
        resumed = {"phase": "resumed", "session": session.id}
        self._subscribers.send_message("reactor.session", resumed, seat=seat.number)
        self.send_seats(session)

    def leave(self, session: ServedSession, seat: SessionSeat, *, lost: bool, shared: bool) -> None:
        """Free the seat of a controller that has gone and is unsubscribed, and stop the session if it was the last.

        A controller whose connection was `lost` may resume. In a `shared` session another client may take the seat.
        """
        seat.is_broken = lost
        if session.outlives and session.phase is SessionPhase.RUNNING:
            self._vacate(session, seat, lost=lost, shared=shared)
            return
        if lost and session.hold(seat):
            self.send_seats(session)
            return
        if session.has_others(seat) and session.phase is SessionPhase.RUNNING:
            self._free(session, seat)
        else:
            session.stop()

    def end_turn(self, session: ServedSession, seat: SessionSeat, end: TurnEnd) -> None:
        """Free a seat whose turn is over while others play, and close its controller."""
        client = seat.controller
        assert client is not None, "a turn is of a controller"
        message = END_MESSAGES[end]
        client.send_message("reactor.session", {"phase": "ended", "reason": end, "message": message})
        self._free(session, seat)
        client.close(CloseCode.SESSION_OVER, message)

    def offer(self, session: ServedSession, freed: int | None = None) -> None:
        """Offer the free seats of a session to the clients that wait for one; the seat `freed` has become free."""

        def places() -> int:
            return sum(seat.is_free for seat in session.seats) if self._goes_on(session) else 0

        if places():
            take, seat_for = partial(self._take, session), session.free_seat_for
            vacant = VacantSession(
                self._slot, places, take, session.stop, seat_for=seat_for, seat=freed, is_played=True
            )
            self._on_vacant(vacant)

    def send_seats(self, session: ServedSession) -> None:
        """Send the clients who has which seat, where there are several; also those that wait and watch."""
        if session.has_several_seats:
            for client in self._subscribers:
                client.send_message("reactor.seats", seats_message(session, client))

    def _free(self, session: ServedSession, seat: SessionSeat) -> None:
        session.vacate(seat)
        self.send_seats(session)
        self.offer(session, seat.number)

    def _take(self, session: ServedSession, client: Client) -> None:
        """Seat a client in a session that runs, in the seat that it got from admission."""
        session.take_seat(session.seats[client.seat], client)
        logger.info(
            "seat taken id=%s seat=%d client=%s from=%s",
            session.id,
            client.seat,
            client.id,
            client.address,
            extra=client.log_fields,
        )
        self._slot.subscribe(client)
        client.send_message("reactor.session", {"phase": "started", "session": session.id})
        self.send_seats(session)

    def _vacate(self, session: ServedSession, seat: SessionSeat, *, lost: bool, shared: bool) -> None:
        """Go on without a controller, and offer the session: after the time for resuming, unless it is shared."""
        session.vacate(seat)
        number = seat.vacancies
        # State and uploads of a session belong to its controller, unless it is shared.
        vacant = VacantSession(
            self._slot,
            lambda: int(self._goes_on(session) and seat.is_free and seat.vacancies == number),
            partial(self._take, session) if shared else None,
            session.stop,
            kept_s=session.limits.resume_grace_s if lost and not shared else 0.0,
        )
        self._on_vacant(vacant)

    def _goes_on(self, session: ServedSession) -> bool:
        """Return whether a session runs and its engine is ready; otherwise the session is about to end."""
        engine_is_ready = self._slot.engine.phase is EnginePhase.READY
        return engine_is_ready and session.phase is SessionPhase.RUNNING and not session.over.is_set()


def seats_message(session: ServedSession, receiver: Client) -> dict[str, Any]:
    """Return the data of `reactor.seats`: the room, if the receiver may know it, and the clients in the seats."""
    clients = [None if seat.is_free or seat.controller is None else seat.controller.id for seat in session.seats]
    away = [seat.number for seat in session.seats if seat.is_away]
    return {"room": session.room_known_to(receiver), "clients": clients, "away": away}
