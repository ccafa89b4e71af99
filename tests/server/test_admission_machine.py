"""Admission to one slot in any order of connects, disconnects, ends and crashes: each session runs once."""

from __future__ import annotations

import os

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from reactor_runtime.ipc import messages as ipc
from reactor_runtime.server.delivery.client import Client, Role
from reactor_runtime.server.options import TurnLimits
from reactor_runtime.server.sessions.session import SessionPhase
from reactor_runtime.server.workers.engine import EnginePhase
from reactor_runtime.wire.messages import Event
from tests.server.admission_fixture import AdmissionFixture

MOST = 3
LIMITS = TurnLimits(max_session_s=40, idle_timeout_s=25, resume_grace_s=10)


class AdmissionMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.services = AdmissionFixture(most_waiting=MOST, most_viewers=MOST, limits=LIMITS)
        self.waiting: list[Client] = []
        self.viewers: list[Client] = []
        self.controller: Client | None = None
        self.released: Client | None = None
        self.away_at: float | None = None
        self.started_at: float | None = None
        self.active_at = self.waiting_since = 0.0
        self.sessions = 0

    def teardown(self) -> None:
        os.close(self.services.memory)

    @property
    def now(self) -> float:
        return self.services.clock.now()

    @property
    def ready(self) -> bool:
        return self.services.engine.phase is EnginePhase.READY

    @rule(watches=st.booleans())
    def connect(self, watches: bool) -> None:
        free = self.controller is None and self.services.slot.session is None and not self.waiting
        client = self.services.come(watches=watches)
        if len(self.waiting) >= MOST and not free:
            assert client.closing is not None
        else:
            self.waiting_since = self.waiting_since if self.waiting else self.now
            self.waiting.append(client)
            self.start_session()

    @rule()
    def watch(self) -> None:
        viewer = self.services.come(Role.VIEWER)
        if len(self.viewers) >= MOST:
            assert viewer.closing is not None
        else:
            self.viewers.append(viewer)

    @rule(pick=st.integers(0), twice=st.booleans(), lost=st.booleans())
    def leave(self, pick: int, twice: bool, lost: bool) -> None:
        here = [] if self.controller is None or self.away_at is not None else [self.controller]
        everyone = [*self.waiting, *self.viewers, *here]
        if not everyone:
            return
        gone = everyone[pick % len(everyone)]
        for _ in range(1 + twice):
            self.services.admission.detach(gone, lost=lost)
            if lost and gone is self.controller:  # a lost connection is reported once
                break
        if gone is self.controller and lost and self.started_at is not None:
            self.away_at = self.now
        elif gone is self.controller:
            self.controller = self.started_at = None
        else:
            (self.waiting if gone in self.waiting else self.viewers).remove(gone)

    @precondition(lambda self: self.services.slot.session is not None and self.started_at is None)
    @rule()
    def begin(self) -> None:
        self.services.begin(level=1)
        if self.controller is not None:
            self.started_at = self.active_at = self.now
            self.waiting_since = self.now

    @rule(seconds=st.integers(1, 60))
    def wait(self, seconds: int) -> None:
        """Advance the clock; turns that are due by then end, and no others."""
        clock = self.services.clock
        until = clock.now() + seconds
        ends = []
        if self.away_at is not None:
            ends.append(self.away_at + LIMITS.resume_grace_s)
        elif self.started_at is not None:
            ends.append(self.active_at + LIMITS.idle_timeout_s + LIMITS.answer_s)
        if self.started_at is not None and self.waiting:
            ends.append(max(self.started_at + LIMITS.max_session_s, self.waiting_since + LIMITS.notice_s))
        clock.move_to(until)
        if min(ends, default=until + 1) <= until:
            self.released, self.controller, self.started_at, self.away_at = self.controller, None, None, None

    @precondition(lambda self: self.started_at is not None)
    @rule()
    def resume(self) -> None:
        """Resume, after the first connection has ended or before."""
        session = self.services.slot.session
        assert session is not None
        former, self.controller = self.controller, self.services.come(resume=session.seats[0].resume_secret or "")
        assert former is not None
        self.services.admission.detach(former, lost=True)
        assert former.closing is not None
        self.away_at, self.active_at = None, self.now

    @precondition(lambda self: self.controller is not None and self.away_at is None)
    @rule()
    def send_event(self) -> None:
        assert self.controller is not None
        self.services.inbound.route_event(self.controller, Event("set_level", "{}"))
        self.active_at = self.now

    @precondition(lambda self: self.services.slot.session is not None)
    @rule(error=st.none() | st.just("broken"))
    def end(self, error: str | None) -> None:
        ended = self.controller
        self.services.end(error)
        self.over(ended)
        self.start_session()

    @precondition(lambda self: self.ready)
    @rule()
    def crash(self) -> None:
        ended = self.controller
        self.services.crash()
        self.over(ended)

    @precondition(lambda self: not self.ready)
    @rule()
    def load(self) -> None:
        self.services.engine.phase = EnginePhase.READY
        self.services.slot.on_engine_ready(1.0)
        self.start_session()

    @invariant()
    def every_client_waits_watches_or_controls(self) -> None:
        admission, slot = self.services.admission, self.services.slot
        assert list(admission.wait_queue.waiting) == self.waiting
        assert list(admission.assignment.viewers) == self.viewers
        assert self.controller is None or (slot.session is not None and slot.session.controller is self.controller)
        assert len(self.waiting) <= MOST
        assert not any(each.closing for each in admission.all_clients() if each in self.waiting or each in self.viewers)

    @invariant()
    def the_engine_is_not_idle_and_starts_each_session_once(self) -> None:
        slot, engine = self.services.slot, self.services.engine
        assert not (self.ready and slot.session is None and self.waiting)
        assert self.ready or slot.session is None
        starts = [message.session for message in engine.of(ipc.StartSession)]
        stops = [message.session for message in engine.of(ipc.StopSession)]
        assert (len(starts), len(set(starts))) == (self.sessions, self.sessions)
        assert len(set(stops)) == len(stops)
        if slot.session is not None:
            stopping = slot.session.phase is SessionPhase.STOPPING
            assert slot.session.id == starts[-1]
            assert stopping == (self.controller is None) == (slot.session.id in stops)

    @invariant()
    def only_viewers_and_controllers_are_subscribed(self) -> None:
        admission, slot = self.services.admission, self.services.slot
        assert self.away_at is None or self.controller not in set(self.services.subscribers)
        running = slot.session is not None and slot.session.phase is SessionPhase.RUNNING
        for client in self.services.subscribers:
            assert client in admission.all_clients()
            assert client.watches or client in (self.controller, self.released, *self.viewers)
        for client in [*self.viewers, *(each for each in self.waiting if each.watches)] if running else ():
            assert client in self.services.subscribers

    def start_session(self) -> None:
        if self.ready and self.waiting and len(self.services.engine.of(ipc.StartSession)) > self.sessions:
            self.controller = self.waiting.pop(0)
            self.sessions += 1

    def over(self, ended: Client | None) -> None:
        assert all(each is None or each.closing is not None for each in (ended, self.released))
        self.controller = self.released = self.started_at = self.away_at = None


TestAdmissionMachine = AdmissionMachine.TestCase
