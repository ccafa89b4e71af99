"""Several slots in any order of connects, disconnects, ends, crashes and loads: no slot is lost, the queue is fair."""

from __future__ import annotations

import json
import os

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from reactor_runtime.ipc import messages as ipc
from reactor_runtime.server.delivery.client import Client, Role
from reactor_runtime.server.options import TurnLimits
from reactor_runtime.server.sessions.engine_slot import EngineSlot
from reactor_runtime.server.sessions.session import SessionPhase
from reactor_runtime.server.workers.engine import EnginePhase
from tests.server.admission_fixture import AdmissionFixture

MOST = 3
LIMITS = TurnLimits(max_session_s=40)
NUMBERS = st.integers(1, 3)


class SlotPoolMachine(RuleBasedStateMachine):
    @initialize(engines=NUMBERS, loaded=st.booleans(), clients=st.integers(0, 6), viewers=st.integers(0, MOST))
    def open(self, engines: int, loaded: bool, clients: int, viewers: int) -> None:
        """Start with any number of clients: failures among many are rarely reached from none."""
        self.services = AdmissionFixture(engines=engines, most_waiting=MOST, most_viewers=MOST, limits=LIMITS)
        self.positions: dict[Client, dict[str, int]] = {}
        self.waiting: list[Client] = []
        self.viewers: list[Client] = []
        self.served: list[Client] = []
        for engine in self.services.engines if not loaded else ():
            engine.phase = EnginePhase.LOADING
        for number in range(clients):
            self.connect_client(watches=number % 2 == 0)
        for slot in self.services.slots:
            self.start(slot)
        self.viewers += [self.services.come(Role.VIEWER) for _ in range(viewers)]

    def teardown(self) -> None:
        if hasattr(self, "services"):
            os.close(self.services.memory)

    @rule(watches=st.booleans())
    def connect(self, watches: bool) -> None:
        self.connect_client(watches=watches)

    def connect_client(self, *, watches: bool) -> None:
        free = [slot for slot in self.slots(EnginePhase.READY, EnginePhase.LOADING) if slot.session is None]
        client = self.services.come(watches=watches)
        assert (client.closing is None) == (len(self.waiting) < max(MOST, len(free)))
        if client.closing is None:
            self.waiting.append(client)
        self.start_session()

    @rule(number=NUMBERS)
    def watch(self, number: int) -> None:
        wanted = self.slot(number)
        session = "" if wanted.session is None else wanted.session.id
        viewer = self.services.come(Role.VIEWER, session=session)
        if viewer.closing is None:
            self.viewers.append(viewer)
            assert not session or wanted.engine.phase is not EnginePhase.READY or viewer in wanted.subscribers

    @rule(pick=st.integers(0))
    def leave(self, pick: int) -> None:
        everyone = self.services.admission.all_clients()
        if everyone:
            gone = everyone[pick % len(everyone)]
            self.services.admission.detach(gone)
            for group in (self.waiting, self.viewers):
                if gone in group:
                    group.remove(gone)

    @rule(number=NUMBERS)
    def begin(self, number: int) -> None:
        self.start(self.slot(number))

    def start(self, slot: EngineSlot) -> None:
        if slot.session is not None and slot.session.phase is SessionPhase.STARTING:
            self.services.begin(slot.number, level=slot.number)

    @rule(number=NUMBERS, error=st.none() | st.just("broken"))
    def end(self, number: int, error: str | None) -> None:
        slot = self.slot(number)
        if slot.session is not None:
            controller = slot.session.controller
            self.services.end(error, slot.number)
            assert controller.closing is not None
            self.start_session()

    @rule(number=NUMBERS)
    def crash(self, number: int) -> None:
        slot = self.slot(number)
        others = {each: each.session for each in self.services.slots if each is not slot}
        if slot.engine.phase is EnginePhase.READY:
            self.services.crash(slot.number)
            assert slot.session is None
            assert {each: each.session for each in others} == others

    @rule(number=NUMBERS)
    def load(self, number: int) -> None:
        slot = self.slot(number)
        if slot.engine.phase is EnginePhase.LOADING:
            self.services.load(slot.number)
            self.start_session()

    @rule(number=NUMBERS)
    def fail(self, number: int) -> None:
        """Fail an engine for good, as long as there is another."""
        slot = self.slot(number)
        if (
            slot.engine.phase is EnginePhase.LOADING
            and len(self.slots(EnginePhase.FAILED)) < len(self.services.slots) - 1
        ):
            self.services.engines[slot.number - 1].phase = EnginePhase.FAILED

    @rule(seconds=st.integers(1, 60))
    def wait(self, seconds: int) -> None:
        self.services.clock.move_to(self.services.clock.now() + seconds)

    @invariant()
    def no_slot_is_lost(self) -> None:
        free = [slot for slot in self.slots(EnginePhase.READY) if slot.session is None]
        assert not (free and self.services.admission.wait_queue.waiting)
        for slot, engine in zip(self.services.slots, self.services.engines, strict=True):
            starts = [message.session for message in engine.of(ipc.StartSession)]
            assert len(set(starts)) == len(starts)
            assert slot.session is None or slot.session.id == starts[-1]

    @invariant()
    def every_waiting_client_knows_its_position(self) -> None:
        assert list(self.services.admission.wait_queue.waiting) == self.waiting
        for position, client in enumerate(self.waiting, start=1):
            while (item := client.outbox.take_next()[0]) is not None:
                message = json.loads(item) if isinstance(item, str) else {}
                if message.get("type") == "reactor.queue":
                    self.positions[client] = message["data"]
            told = self.positions[client]
            assert (told["position"], told["length"]) == (position, len(self.waiting))
            assert client.closing is None

    @invariant()
    def a_client_that_watches_is_subscribed_to_one_session_as_long_as_there_is_one(self) -> None:
        admission = self.services.admission
        assert list(admission.assignment.viewers) == self.viewers
        on = [slot for slot in self.services.slots if slot.has_started]
        for client in [*self.viewers, *(each for each in self.waiting if each.watches)]:
            seen = [slot for slot in self.services.slots if client in slot.subscribers]
            assert len(seen) <= 1
            assert client.closing is None
            # a viewer may have named a session that has not started yet
            assert not on or seen[0] in on or seen[0].session is not None
        for slot in self.services.slots:
            for member in slot.subscribers:
                controls = slot.session is not None and slot.session.controller is member
                assert controls or member in self.viewers or (member.watches and member in self.waiting)

    @invariant()
    def as_many_turns_end_as_clients_wait(self) -> None:
        sessions = [slot.session for slot in self.services.slots if slot.session is not None]
        running = [session for session in sessions if session.phase is SessionPhase.RUNNING]
        stopping = sum(session.phase is SessionPhase.STOPPING for session in sessions)
        ending = sum(session.seats[0].turn.left_s is not None for session in running)
        assert ending == min(len(running), max(0, len(self.waiting) - stopping))

    def slots(self, *phases: EnginePhase) -> list[EngineSlot]:
        return [slot for slot in self.services.slots if slot.engine.phase in phases]

    def slot(self, number: int) -> EngineSlot:
        return self.services.slots[(number - 1) % len(self.services.slots)]

    def start_session(self) -> None:
        """Check that the clients that got a slot were the first in the queue."""
        controllers = [slot.session.controller for slot in self.services.slots if slot.session is not None]
        assert len(set(controllers)) == len(controllers)
        assigned = [each for each in self.waiting if each in controllers]
        assert assigned == self.waiting[: len(assigned)]
        del self.waiting[: len(assigned)]
        assert not set(assigned).intersection(self.served)
        self.served += assigned


TestSlotPoolMachine = SlotPoolMachine.TestCase
