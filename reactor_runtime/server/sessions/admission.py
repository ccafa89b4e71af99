"""Where clients come in: who waits in line, who watches, and whose turn it is in which hall."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from reactor_runtime.server.delivery.client import Client, Role
from reactor_runtime.server.delivery.playout import Playout
from reactor_runtime.server.delivery.subscribers import Subscribers
from reactor_runtime.server.sessions.session import SessionPhase
from reactor_runtime.server.sessions.slot import Slot, SlotEngine, SlotSettings
from reactor_runtime.server.sessions.slot_pool import SlotPool
from reactor_runtime.server.sessions.turn import TurnEnd
from reactor_runtime.server.sessions.viewers import ViewerAssignment
from reactor_runtime.server.sessions.wait_queue import WaitQueue
from reactor_runtime.wire.protocol import CloseCode

logger = logging.getLogger(__name__)

STOPPING = "the server is stopping"


class Admission:
    """Bring one controller after the other to the halls, and let all others watch; belongs to the server's loop."""

    def __init__(
        self, rules: SlotSettings, *, most_waiting: int, most_viewers: int, on_ready: Callable[[Slot, float], None]
    ) -> None:
        self.rules = rules
        self.line: WaitQueue[Client] = WaitQueue(most_waiting)
        self.slots = SlotPool()
        self.assignment = ViewerAssignment(self.slots, self.line)
        self.stops_at: float | None = None
        self._most_viewers = most_viewers
        self._on_ready = on_ready

    @property
    def draining(self) -> bool:
        """Tell that nobody is let in any more, because the server is to stop."""
        return self.stops_at is not None

    def add_slot(self, engine: SlotEngine, subscribers: Subscribers, playout: Playout) -> Slot:
        """Have one more engine to bring controllers to."""
        slot = Slot(
            len(self.slots) + 1,
            engine=engine,
            subscribers=subscribers,
            playout=playout,
            line=self.line,
            events=self,
            rules=self.rules,
        )
        self.slots.add(slot)
        return slot

    def attach(self, client: Client, resume: str = "", session: str = "") -> None:
        """Let a client in: to a hall, into the line, or among the viewers; a full house closes its socket.

        A controller that brings the secret of a running session, as `resume`, is back in it. Who watches is shown the
        `session` of that id while there is one, and else the one that has run longest.
        """
        if (its := self.slots.resumed_by(resume)) is not None:
            its.resume(client)
            if self.draining:
                client.send_message("reactor.session", _stopping(self))
            return
        if self.draining:
            _send_away(client)
            return
        viewers = self.assignment.viewers
        if client.role is Role.VIEWER:
            if len(viewers) >= self._most_viewers:
                client.close(CloseCode.FULL, f"{self._most_viewers} viewers are watching already; try again later")
                return
            viewers.add(client)
        elif not self.line.join(client, free=self.slots.empty):
            client.close(CloseCode.FULL, f"{len(self.line.waiting)} are waiting already; try again later")
            return
        whose = client.id, client.role, client.address
        logger.info("client attached id=%s role=%s from=%s", *whose, extra=client.ids)
        if client.role is Role.CONTROLLER:
            self.assign_next()
        if client in viewers or (client.watches and client in self.line.waiting):
            self.assignment.show(client, session)
        if (phase := self.slots.loading_phase()) is not None:
            client.send_message("reactor.session", phase)

    def detach(self, client: Client, *, lost: bool = False) -> None:
        """Take note that a client has gone, whatever it was; one whose connection is `lost` may come back."""
        self.assignment.viewers.discard(client)
        self.assignment.part(client)
        its = self.slots.controlled_by(client)
        if its is not None:
            its.release(lost=lost)
        if self.line.leave(client) or its is not None:
            line_changed(self)

    def everyone(self) -> list[Client]:
        """List every client, whether it controls, waits or watches."""
        controllers = [slot.session.controller for slot in self.slots if slot.session is not None]
        return [*controllers, *self.line.waiting, *self.assignment.viewers]

    def slot_ready(self, slot: Slot, load_s: float) -> None:
        self._on_ready(slot, load_s)
        self.assignment.settle()
        self.assign_next()

    def slot_lost(self) -> None:
        """Tell everyone when there is only loading to wait for; those in line keep their places."""
        if (phase := self.slots.loading_phase()) is not None:
            for client in self.everyone():
                client.send_message("reactor.session", phase)

    def session_began(self, slot: Slot) -> None:
        self.assignment.session_began(slot)

    def session_over(self, slot: Slot) -> None:
        self.slots.last = slot
        self.assignment.settle()
        self.assign_next()

    def assign_next(self) -> None:
        """Start sessions for those who are next, as far as there are halls for them."""
        for slot in self.slots.free:
            controller = self.line.next()
            if controller is not None:
                self.assignment.part(controller, but=slot)
                slot.start_session(controller)
        line_changed(self)


def line_changed(admission: Admission) -> None:
    """Tell those who wait what changed of their place, and the turns that run whether anybody waits for them.

    Of several sessions only as many have to end as there are people in line, those first that have run longest.
    """
    length = len(admission.line.waiting)
    for position, client in enumerate(admission.line.waiting, start=1):
        if client.told_position != (position, length):
            client.told_position = (position, length)
            client.send_message("reactor.queue", {"position": position, "length": length})
    sessions = [slot.session for slot in admission.slots if slot.session is not None]
    stopping = sum(session.phase is SessionPhase.STOPPING for session in sessions)
    running = [session for session in sessions if session.phase is SessionPhase.RUNNING]
    for rank, session in enumerate(sorted(running, key=lambda session: session.started_at)):
        session.turn.others_wait(rank < length - stopping)


def close(admission: Admission) -> None:
    """Let in nobody any more, tell every client that the server is stopping, and end every session."""
    _close_all(admission, {"phase": "ended", "reason": TurnEnd.STOPPING}, STOPPING, CloseCode.SERVER_STOPPING)
    for slot in admission.slots:
        if slot.session is not None:
            slot.session.stop(TurnEnd.STOPPING)


def fail(admission: Admission, message: str) -> None:
    """Let in nobody any more, and tell every client why the model can't be served."""
    _close_all(admission, {"phase": "failed"}, message, CloseCode.MODEL_FAILED)


def _close_all(admission: Admission, phase: dict[str, Any], message: str, code: CloseCode) -> None:
    """Empty the line as well: a session that ends from here on is followed by no other."""
    admission.stops_at = admission.rules.clock.now()
    everyone = admission.everyone()
    while admission.line.next() is not None:
        pass
    for client in everyone:
        client.send_message("reactor.session", {**phase, "message": message})
        client.close(code, message)


def drain(admission: Admission, timeout_s: float) -> None:
    """Let in nobody any more, send away those who wait, and tell those of each session how long it may last.

    A controller whose connection broke may come back to its session all the same.
    """
    admission.stops_at = admission.rules.clock.now() + timeout_s
    while (waiting := admission.line.next()) is not None:
        admission.assignment.part(waiting)
        _send_away(waiting)
    line_changed(admission)
    for slot in admission.slots:
        slot.send_message("reactor.session", _stopping(admission))


def _stopping(admission: Admission) -> dict[str, Any]:
    """Say how long the sessions that run may still last."""
    assert admission.stops_at is not None, "it drains"
    seconds = round(max(0.0, admission.stops_at - admission.rules.clock.now()), 1)
    message = f"the server is stopping, in {seconds:.0f} s at the latest"
    return {"phase": "stopping", "seconds": seconds, "message": message}


def _send_away(client: Client) -> None:
    client.send_message("reactor.session", {"phase": "ended", "reason": TurnEnd.STOPPING, "message": STOPPING})
    client.close(CloseCode.SERVER_STOPPING, STOPPING)
