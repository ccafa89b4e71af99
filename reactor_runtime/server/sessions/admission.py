"""Decides whether a client gets a slot, waits, watches or is refused.

A slot runs its session (`slot.py`), here or on another machine, `slot_pool.py` finds slots, `wait_queue.py` keeps the
order of controllers, `queue_positions.py` sends them their positions with the times of `wait_estimate.py`, and
`viewers.py` assigns clients that watch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Set
from dataclasses import dataclass
from typing import Any, Generic

from reactor_runtime.network import network_of
from reactor_runtime.server.delivery.client import Client, Role
from reactor_runtime.server.sessions.queue_positions import QueuePositions
from reactor_runtime.server.sessions.slot import S, SlotCallbacks, SlotSettings, VacantSession
from reactor_runtime.server.sessions.slot_pool import SlotPool
from reactor_runtime.server.sessions.turn import TurnEnd
from reactor_runtime.server.sessions.turn_limiter import TurnLimiter
from reactor_runtime.server.sessions.viewers import ViewerAssignment
from reactor_runtime.server.sessions.wait_estimate import TurnLengths, WaitEstimate
from reactor_runtime.server.sessions.wait_queue import WaitQueue
from reactor_runtime.wire.protocol import CloseCode

logger = logging.getLogger(__name__)

STOPPING = "the server is stopping"


@dataclass(frozen=True, slots=True)
class Loss:
    """Hold why a controller has lost its session, and how much of its turn that has used."""

    reason: str
    used_s: float = 0.0


class Admission(Generic[S]):
    """Assign controllers to slots in the order of the wait queue, and viewers to sessions; use on the server's loop."""

    def __init__(
        self,
        settings: SlotSettings,
        *,
        on_slot_ready: Callable[[S, float], None] = lambda *_: None,
        claim_loss: Callable[[Client, str], Loss | None] = lambda *_: None,
        on_change: Callable[[], None] = lambda: None,
        more_slots: Callable[[], int] = lambda: 0,
        unknown_slots: Callable[[], str] = lambda: "",
    ) -> None:
        self.settings = settings
        self.wait_queue: WaitQueue[Client] = WaitQueue(settings.options.max_waiting, _address_of)
        self.slots: SlotPool[S] = SlotPool(more=more_slots, unknown=unknown_slots, model=settings.name_of(None))
        self.assignment = ViewerAssignment(self.slots, self.wait_queue)
        # Viewers that came while no model was loaded: it was unknown whether it has the seat that they want.
        self._early_viewers: set[Client] = set()
        self._stops_at: float | None = None
        self._turn_lengths = TurnLengths(settings.options.limits)
        self._positions = QueuePositions(
            self.wait_queue, settings.clock, self._estimate_waits, reason=lambda: self.slots.limit
        )
        self._limiter: TurnLimiter[S] = TurnLimiter(self.slots, settings.clock)
        self._on_slot_ready = on_slot_ready
        self._claim_loss = claim_loss
        self._on_change = on_change

    @property
    def draining(self) -> bool:
        """Return whether new clients are refused because the server is stopping."""
        return self._stops_at is not None

    @property
    def slot_callbacks(self) -> SlotCallbacks[S]:
        """Return the callbacks for a slot, which is added to `slots`."""
        return SlotCallbacks(
            on_ready=self._slot_ready,
            on_lost=self._slot_lost,
            on_session_visible=self.assignment.on_session_started,
            on_session_started=self._queue_changed,
            on_session_ended=self._session_ended,
            on_vacant=self._session_vacant,
        )

    def attach(self, client: Client, resume: str = "", session: str = "", *, returning: str = "") -> None:
        """Assign a new client to a slot, the wait queue or the viewers; close its socket when these are full.

        A controller whose `resume` is the secret of a running session resumes that session. A client that watches is
        shown the `session` of that id, or else the session that has run longest. A controller that comes with
        `returning`, the secret of a session that was lost, gets the reason and waits before all others.
        """
        if (slot := self.slots.resumed_by(resume)) is not None:
            self.slots.bind(client, slot)
            slot.resume_session(client, resume)
            if self.draining:
                client.send_message("reactor.session", self._stopping_message())
        elif self.draining:
            _refuse_stopping(client)
        elif returning and client.role is Role.CONTROLLER and (loss := self._claim_loss(client, returning)) is not None:
            self.return_to_queue(client, loss)
        elif refusal := self._refusal(client):
            client.close(CloseCode.FULL, refusal)
        else:
            logger.info(
                "client attached id=%s role=%s from=%s",
                client.id,
                client.role,
                client.address,
                extra=client.log_fields,
            )
            self._admit(client, session)

    def return_to_queue(self, client: Client, loss: Loss) -> None:
        """Put a controller that lost its session first in the wait queue, however long that is.

        The controller gets the rest of its turn; if the turn is used up, it waits for another one as a newcomer does.
        If the server is stopping, close the controller instead.
        """
        reason, fields = loss.reason, client.log_fields
        logger.info("client lost its session id=%s from=%s: %s", client.id, client.address, reason, extra=fields)
        client.send_message("reactor.session", {"phase": "lost", "message": reason})
        if self.draining:
            _refuse_stopping(client)
            return
        most_s = self.settings.options.limits.max_session_s
        has_turn = not most_s or loss.used_s < most_s
        client.used_s = loss.used_s if has_turn else 0.0
        self.wait_queue.rejoin(client, first=has_turn)
        self._admit(client, session="")

    def detach(self, client: Client, *, lost: bool = False) -> None:
        """Remove a client that has gone; a controller whose connection was `lost` may resume its session."""
        self.assignment.leave(client)
        self._early_viewers.discard(client)
        slot = self.slots.controlled_by(client)
        if slot is not None:
            slot.detach_controller(client, lost=lost)
        self.slots.bind(client, None)
        self._positions.forget(client)
        if self.wait_queue.leave(client):
            # Seats may have stayed free for it.
            self._assign_free_slots()
        elif slot is not None:
            self._queue_changed()

    def on_slots_known(self) -> None:
        """Assign clients that waited because not all slots were known."""
        self._assign_free_slots()

    def all_clients(self) -> list[Client]:
        """Return the controllers of all sessions, the clients that wait, and the viewers."""
        sessions = [slot.session for slot in self.slots if slot.session is not None]
        controllers = [controller for session in sessions for controller in session.controllers]
        return [*controllers, *self.wait_queue.waiting, *self.assignment.viewers]

    def drain(self, timeout_s: float) -> None:
        """Refuse new clients, close those that wait, and announce the end to the clients of each session.

        A controller whose connection was lost may still resume its session.
        """
        self._stops_at = self.settings.clock.now() + timeout_s
        for waiting in list(self.wait_queue.waiting):
            self.wait_queue.leave(waiting)
            self.assignment.unsubscribe(waiting)
            _refuse_stopping(waiting)
        self._queue_changed()
        for slot in self.slots:
            slot.send_message("reactor.session", self._stopping_message())

    def send_loading(self) -> None:
        """Send the clients how loading goes while no slot serves, except those whose worker sends them what it does."""
        if (loading := self.slots.loading_message()) is not None:
            for client in self.all_clients():
                if client.upstream is None:
                    client.send_message("reactor.session", loading)

    def close(self) -> None:
        """Refuse new clients, close every client, and stop every session; may be called twice."""
        self._close_clients({"phase": "ended", "reason": TurnEnd.STOPPING}, STOPPING, CloseCode.SERVER_STOPPING)
        for slot in self.slots:
            if slot.session is not None:
                slot.session.stop(TurnEnd.STOPPING)

    def fail(self, message: str) -> None:
        """Refuse new clients, and close every client with the reason why the model can't be served."""
        self._close_clients({"phase": "failed"}, message, CloseCode.MODEL_FAILED)

    def _refusal(self, client: Client) -> str:
        """Add a client to the viewers or the wait queue; return why not when these are full, else "".

        If they are full, a client of an address with too many places may be closed to make room.
        """
        if client.role is Role.VIEWER:
            max_viewers = self.settings.options.max_viewers
            refused, full = self.assignment.join(client, max_viewers), f"{max_viewers} viewers are watching already"
        else:
            free = 0 if self.wait_queue.has_room(free=0) else self.slots.vacant_count
            full = f"{len(self.wait_queue.waiting)} are waiting already"
            refused = self.wait_queue.join(client, free=free)
        if refused is client:
            return f"{full}; try again later"
        if refused is not None:
            logger.info("client displaced id=%s from=%s", refused.id, refused.address, extra=refused.log_fields)
            self._positions.forget(refused)
            self.assignment.unsubscribe(refused)
            refused.close(CloseCode.FULL, f"{full}, and a client of another address came; try again later")
        return ""

    def _admit(self, client: Client, session: str) -> None:
        if client.role is Role.CONTROLLER:
            self._assign_free_slots()
        elif not self.slots.ready_count:
            self._early_viewers.add(client)
        waits = client in self.wait_queue.waiting
        if waits:
            position = self.wait_queue.waiting.index(client) + 1
            logger.info(
                "client waits id=%s position=%d from=%s", client.id, position, client.address, extra=client.log_fields
            )
            self._positions.send_position(position)
        if client.role is Role.VIEWER or (client.watches and waits):
            self.assignment.assign(client, session)
        if (loading := self.slots.loading_message()) is not None:
            client.send_message("reactor.session", loading)

    def _slot_ready(self, slot: S, load_s: float | None) -> None:
        if load_s is not None:
            self._on_slot_ready(slot, load_s)
        self._refuse_unserved()
        self.slots.offer(slot)
        self.assignment.reassign()
        self._assign_free_slots()

    def _refuse_unserved(self) -> None:
        """Close clients that no session can serve: viewers that came while no model was loaded, and those that wait."""
        for client in (*self.wait_queue.waiting, *self._early_viewers):
            if refusal := self.slots.why_refused(client.wanted_seat, stepped=client.stepped):
                self.wait_queue.leave(client)
                self.assignment.leave(client)
                self._positions.forget(client)
                client.close(CloseCode.BAD_REQUEST, refusal)
        self._early_viewers.clear()

    def _slot_lost(self) -> None:
        """Send how loading goes when no slot serves any more; clients that wait keep their positions."""
        self.send_loading()
        self._on_change()

    def _session_ended(self, slot: S) -> None:
        self.wait_queue.end_turn(slot.number)
        self._turn_lengths.end(slot.number, self.settings.clock.now())
        self.slots.last_used = slot
        self.slots.offer(slot)
        self.assignment.reassign()
        self._assign_free_slots()

    def _session_vacant(self, session: VacantSession[S]) -> None:
        """Offer a session that goes on without a controller; end it if the server is stopping."""
        if self.draining:
            if session.slot.session is not None and not session.is_played:
                session.slot.session.stop(TurnEnd.STOPPING)
        elif session.kept_s:
            clock = self.settings.clock
            clock.call_at(clock.now() + session.kept_s, lambda: self._offer_vacant(session))
        else:
            self._offer_vacant(session)

    def _offer_vacant(self, session: VacantSession[S]) -> None:
        if session.is_vacant():
            if session.seat is not None:
                self.wait_queue.end_turn(session.slot.number, session.seat)
            self.slots.offer_vacant(session)
            self._assign_free_slots()

    def _assign_free_slots(self) -> None:
        """Assign the controllers in the queue, in its order, to sessions that have room for them, then to free slots.

        For those that still wait, sessions end that their controllers have left.
        """
        is_full = False
        # The rooms of the controllers that found no place, "" for one without a code.
        passed_over: set[str] = set()
        for controller in tuple(self.wait_queue.waiting):
            # Where one without a wish finds no place, another one finds none either.
            if is_full and not controller.has_wish:
                continue
            vacant = self.slots.find_vacant(controller, lambda each: not self._has_to_end_for(each, passed_over))
            may_open = self.slots.may_open(controller)
            slot = vacant.slot if vacant is not None else self.slots.take_free(controller) if may_open else None
            if slot is None:
                is_full = is_full or not controller.has_wish
                passed_over.add(controller.room)
                continue
            seat = None if vacant is None else vacant.seat_for(controller)
            controller.seat = (controller.wanted_seat or 0) if seat is None else seat
            self.wait_queue.take(controller, slot.number, controller.seat)
            self._positions.forget(controller)
            self.assignment.unsubscribe(controller, but=slot)
            self.slots.bind(controller, slot)
            if vacant is None or not vacant.is_played:
                self._turn_lengths.begin(slot.number, self.settings.clock.now())
            if vacant is None or vacant.take is None:
                slot.start_session(controller)
            else:
                vacant.take(controller)
        self.slots.end_vacant(len(self.wait_queue.waiting))
        self._queue_changed()

    def _has_to_end_for(self, session: VacantSession[S], rooms: Set[str]) -> bool:
        """Return whether the session has used up its time, and clients in these rooms, which can't join it, wait.

        Its free seats stay free then: if new controllers took them for ever, it would never end.
        """
        most_s, played = self.settings.options.limits.max_session_s, session.slot.session
        if not rooms or not most_s or not session.is_played or played is None:
            return False
        lasted_s = self.settings.clock.now() - played.started_at
        return lasted_s >= most_s and not rooms <= ({played.room} if played.is_private else {played.room, ""})

    def _queue_changed(self) -> None:
        """Send waiting clients their changed positions, and limit turns while clients wait.

        A front limits the turns for its own clients.
        """
        self._positions.send_changes()
        if self.settings.options.limits.max_session_s:
            self._limiter.set_waiting(sum(not client.slot for client in self.wait_queue.waiting))
        self._on_change()

    def _estimate_waits(self) -> WaitEstimate | None:
        now = self.settings.clock.now()
        turns = [turn for slot in self.slots if slot.session is not None for turn in slot.session.turns]
        return self._turn_lengths.estimate(now - each.began_at if each.began_at else each.turn.used_s for each in turns)

    def _close_clients(self, phase: dict[str, Any], message: str, code: CloseCode) -> None:
        """Close every client, and empty the wait queue so that no session follows those that end."""
        self._stops_at = self.settings.clock.now()
        clients = self.all_clients()
        for client in clients:
            self.wait_queue.leave(client)
        for client in clients:
            if not client.waits:
                # One that waits at a front may get its session elsewhere.
                client.send_message("reactor.session", {**phase, "message": message})
            client.close(code, message)

    def _stopping_message(self) -> dict[str, Any]:
        """Return the data of the message about the time at which a session ends at the latest."""
        assert self._stops_at is not None, "the server drains"
        seconds = round(max(0.0, self._stops_at - self.settings.clock.now()), 1)
        message = f"the server is stopping, in {seconds:.0f} s at the latest"
        return {"phase": "stopping", "seconds": seconds, "message": message}


def _address_of(client: Client) -> str:
    return network_of(client.address)


def _refuse_stopping(client: Client) -> None:
    client.send_message("reactor.session", {"phase": "ended", "reason": TurnEnd.STOPPING, "message": STOPPING})
    client.close(CloseCode.SERVER_STOPPING, STOPPING)
