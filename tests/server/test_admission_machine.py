"""The lobby under any order of comings, goings, ends and crashes: the model is neither idle nor doubled."""

from __future__ import annotations

import os

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from reactor_runtime.ipc import messages as ipc
from reactor_runtime.server.delivery.client import Client, Role
from reactor_runtime.server.sessions.session import SessionPhase
from reactor_runtime.server.sessions.turn import TurnLimits
from reactor_runtime.server.workers.engine import EnginePhase
from reactor_runtime.wire.messages import Event
from tests.server.admission_fixture import AdmissionFixture

MOST = 3
LIMITS = TurnLimits(max_session_s=40, idle_timeout_s=25, resume_grace_s=10)


class Lobbies(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.services = AdmissionFixture(most_waiting=MOST, most_viewers=MOST, limits=LIMITS)
        self.line: list[Client] = []
        self.viewers: list[Client] = []
        self.controller: Client | None = None
        self.released: Client | None = None
        self.away_at: float | None = None
        self.began_at: float | None = None
        self.sign_at = self.crowded_at = 0.0
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
    def come(self, watches: bool) -> None:
        free = self.controller is None and self.services.slot.session is None and not self.line
        client = self.services.come(watches=watches)
        if len(self.line) >= MOST and not free:
            assert client.closing is not None
        else:
            self.crowded_at = self.crowded_at if self.line else self.now
            self.line.append(client)
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
        everyone = [*self.line, *self.viewers, *here]
        if not everyone:
            return
        gone = everyone[pick % len(everyone)]
        for _ in range(1 + twice):
            self.services.admission.detach(gone, lost=lost)
            if lost and gone is self.controller:  # its end is noticed once
                break
        if gone is self.controller and lost and self.began_at is not None:
            self.away_at = self.now
        elif gone is self.controller:
            self.controller = self.began_at = None
        else:
            (self.line if gone in self.line else self.viewers).remove(gone)

    @precondition(lambda self: self.services.slot.session is not None and self.began_at is None)
    @rule()
    def begin(self) -> None:
        self.services.begin(level=1)
        if self.controller is not None:
            self.began_at = self.sign_at = self.now
            self.crowded_at = self.now

    @rule(seconds=st.integers(1, 60))
    def wait(self, seconds: int) -> None:
        """Let time pass; a turn that has its end by then is over, and no other."""
        clock = self.services.clock
        until = clock.now() + seconds
        ends = []
        if self.away_at is not None:
            ends.append(self.away_at + LIMITS.resume_grace_s)
        elif self.began_at is not None:
            ends.append(self.sign_at + LIMITS.idle_timeout_s + LIMITS.answer_s)
        if self.began_at is not None and self.line:
            ends.append(max(self.began_at + LIMITS.max_session_s, self.crowded_at + LIMITS.notice_s))
        clock.move_to(until)
        if min(ends, default=until + 1) <= until:
            self.released, self.controller, self.began_at, self.away_at = self.controller, None, None, None

    @precondition(lambda self: self.began_at is not None)
    @rule()
    def return_(self) -> None:
        """Come back, or over another connection while the first is still there."""
        session = self.services.slot.session
        assert session is not None
        former, self.controller = self.controller, self.services.come(resume=session.resume_secret or "")
        assert former is not None
        self.services.admission.detach(former, lost=True)
        assert former.closing is not None
        self.away_at, self.sign_at = None, self.now

    @precondition(lambda self: self.controller is not None and self.away_at is None)
    @rule()
    def speak(self) -> None:
        assert self.controller is not None
        self.services.inbound.route_event(self.controller, Event("set_level", "{}"))
        self.sign_at = self.now

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
    def everybody_is_where_they_belong(self) -> None:
        admission, slot = self.services.admission, self.services.slot
        assert list(admission.wait_queue.waiting) == self.line
        assert admission.assignment.viewers == set(self.viewers)
        assert self.controller is None or (slot.session is not None and slot.session.controller is self.controller)
        assert len(self.line) <= MOST
        assert not any(each.closing for each in admission.all_clients() if each in self.line or each in self.viewers)

    @invariant()
    def the_model_is_neither_idle_nor_doubled(self) -> None:
        slot, engine = self.services.slot, self.services.engine
        assert not (self.ready and slot.session is None and self.line)
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
    def who_sees_a_session_has_asked_for_it_or_has_it(self) -> None:
        admission, slot = self.services.admission, self.services.slot
        assert self.away_at is None or self.controller not in set(self.services.subscribers)
        running = slot.session is not None and slot.session.phase is SessionPhase.RUNNING
        for client in self.services.subscribers:
            assert client in admission.all_clients()
            assert client.watches or client in (self.controller, self.released, *self.viewers)
        for client in [*self.viewers, *(each for each in self.line if each.watches)] if running else ():
            assert client in self.services.subscribers

    def start_session(self) -> None:
        if self.ready and self.line and len(self.services.engine.of(ipc.StartSession)) > self.sessions:
            self.controller = self.line.pop(0)
            self.sessions += 1

    def over(self, ended: Client | None) -> None:
        assert all(each is None or each.closing is not None for each in (ended, self.released))
        self.controller = self.released = self.began_at = self.away_at = None


TestLobbies = Lobbies.TestCase
TestLobbies.settings = settings(max_examples=60)
