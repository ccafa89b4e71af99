"""Admission and scaling at a front with simulated workers that load, serve, fail and fall silent, in any order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from itertools import count

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from reactor_runtime.cluster.front.lost_sessions import RETURN_S
from reactor_runtime.cluster.front.scaling import Scaling
from reactor_runtime.cluster.front.worker_slot import WorkerSlot
from reactor_runtime.server.workers.engine import EnginePhase
from tests.cluster.arrivals import Arrivals
from tests.cluster.simulation import Assignment, SimulatedWorker, Simulation

SCALING = Scaling(least=1, most=4, spare=1, idle_after_s=60.0)
PICKS = st.integers(0, 3)


class Place(Enum):
    """Where a client is that has been assigned to a worker."""

    RESERVED = auto()
    SERVED = auto()
    # The front knows that the worker, or the connection to it, is lost.
    LOST = auto()
    REFUSED = auto()


@dataclass
class Visit:
    assignment: Assignment
    place: Place = Place.RESERVED
    lost_at: float = 0.0


class FrontMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.names = (f"c-{number}" for number in count())
        self.returned: list[str] = []
        self.returned_before: set[str] = set()
        self.arrived: list[str] = []
        self.visits: dict[str, Visit] = {}
        self.assignments: list[Assignment] = []
        self.given_up: list[Assignment] = []
        self.simulation = self.runner.run(self.open())
        # A front whose first workers all fail to load ends.
        self.wait(2)

    async def open(self) -> Simulation:
        return Simulation(
            nodes=2, slots=2, scaling=SCALING, load_s=1.0, on_assigned=self.on_assigned, on_stop=self.on_stop
        )

    def teardown(self) -> None:
        self.runner.run(self.simulation.end())
        self.runner.close()

    @initialize(delay_s=st.sampled_from([0.0, 0.3]))
    def set_delay(self, delay_s: float) -> None:
        self.simulation.delay_s = delay_s

    @rule(seconds=st.sampled_from([0.0, 0.2, 1.0, 6.0, 11.0, 70.0]))
    def wait(self, seconds: float) -> None:
        before = [slot.session for slot in self.slots if slot.session is not None and slot.session.is_released]
        silent = {worker.id for worker in self.simulation.workers.values() if worker.is_silent}
        self.do(lambda: None, seconds)
        if seconds >= 1.0:
            # The workers have released these tickets, and that is known.
            assert not [slot for slot in self.slots if slot.session in before and slot.worker not in silent]

    @rule()
    def arrive(self) -> None:
        name = next(self.names)
        self.arrived.append(name)
        self.do(lambda: self.simulation.arrive(name))

    @rule(pick=PICKS)
    def leave(self, pick: int) -> None:
        if queue := [*self.returned, *self.arrived]:
            name = queue[pick % len(queue)]
            (self.returned if name in self.returned else self.arrived).remove(name)
            self.do(lambda: self.simulation.leave(name))

    @rule(pick=PICKS, fails=st.booleans())
    def go(self, pick: int, fails: bool) -> None:
        """Connect to the assigned worker."""
        if name := self.pick(pick, Place.RESERVED):
            visit = self.visits[name]
            worker = self.simulation.workers.get(visit.assignment.worker)
            self.simulation.leave(name)
            if worker is None or not worker.begin(visit.assignment.ticket.text, fails=fails):
                visit.place = Place.REFUSED
            elif fails:
                del self.visits[name]
            else:
                visit.place = Place.SERVED
            self.do(lambda: None)

    @rule(pick=PICKS)
    def end(self, pick: int) -> None:
        if name := self.pick(pick, Place.SERVED):
            self.do(self.simulation.workers[self.visits.pop(name).assignment.worker].end)

    @rule(pick=PICKS)
    def lose_connection(self, pick: int) -> None:
        name = self.pick(pick, Place.SERVED)
        worker = self.simulation.workers[self.visits[name].assignment.worker] if name else None
        if worker is not None and not worker.is_silent:
            is_held = self.is_held(self.visits[name])
            self.do(lambda: worker.end(is_broken=True), self.simulation.delay_s)
            self.lose(self.visits[name], is_held=is_held)

    @rule(pick=PICKS)
    def come_back(self, pick: int) -> None:
        """Come back to the front, after a loss, or without having reached the worker."""
        if name := self.pick(pick, Place.RESERVED, Place.LOST, Place.REFUSED):
            self.simulation.leave(name)
            visit = self.visits[name]
            is_unreached = visit.place is Place.RESERVED and self.is_believed(visit)
            is_remembered = self.simulation.clock.now() < visit.lost_at + RETURN_S
            is_first = is_unreached or (visit.place is Place.LOST and is_remembered)
            (self.returned_before.add if is_unreached else self.returned_before.discard)(name)
            del self.visits[name]
            self.given_up.append(visit.assignment)
            (self.returned if is_first else self.arrived).append(name)
            self.do(lambda: self.simulation.arrive(name, returning=visit.assignment.ticket.returns))

    @rule(pick=PICKS)
    def use_again(self, pick: int) -> None:
        """Connect to a worker with a ticket whose client has come back to the front."""
        if self.given_up:
            assignment = self.given_up[pick % len(self.given_up)]
            worker = self.simulation.workers.get(assignment.worker)
            # A front that has no contact with a worker can't know what happens there.
            if worker is not None and not worker.is_silent:
                worker.begin(assignment.ticket.text)
                self.do(lambda: None)

    @rule(pick=PICKS)
    def kill(self, pick: int) -> None:
        if worker := self.worker(pick):
            self.lose_clients(worker)
            self.do(lambda: self.simulation.kill_worker(worker.id))

    @rule(pick=PICKS)
    def fall_silent(self, pick: int) -> None:
        if worker := self.worker(pick):
            self.do(worker.fall_silent)

    @rule(pick=PICKS)
    def speak(self, pick: int) -> None:
        if (worker := self.worker(pick)) and worker.is_silent:
            self.do(worker.speak)

    @rule(pick=PICKS)
    def report(self, pick: int) -> None:
        """Send a status as a worker does once a second."""
        if worker := self.worker(pick):
            self.do(worker.report)

    @rule(is_later=st.booleans())
    def restart_front(self, is_later: bool) -> None:
        """Start another front after the end of this one, with a worker that is ready and answers."""
        if not self.has_ready_worker():
            return
        before = self.simulation.build
        self.start_front("later" if is_later else "")
        if not self.has_ready_worker():
            # There is no place for a worker of the other build.
            self.start_front(before)

    def start_front(self, build: str) -> None:
        self.returned.clear()
        self.arrived.clear()
        self.returned_before.clear()
        for visit in self.visits.values():
            visit.place = visit.place if visit.place is Place.SERVED else Place.REFUSED
        left = {assignment.ticket.id for assignment in self.given_up}
        for worker in self.simulation.workers.values():
            # The order to end this session may be lost with the front, but the client has closed its connection.
            if worker.ticket in left:
                worker.end()
        self.runner.run(self.simulation.restart_front(build))
        self.wait(3.0)

    @invariant()
    def no_worker_is_idle_while_a_client_waits(self) -> None:
        assert self.simulation.waiting == [*self.returned, *self.arrived]
        for slot in self.slots if self.simulation.waiting else ():
            assert slot.session is not None or slot.is_draining or slot.engine.phase is not EnginePhase.READY

    @invariant()
    def the_front_knows_the_session_of_each_worker(self) -> None:
        for slot in self.slots:
            worker = self.simulation.workers.get(slot.worker)
            # Without a status it is the worker of a front before this one.
            if worker is not None and worker.session is not None and slot.status is not None:
                assert slot.session is not None
                assert slot.session.seats[0].ticket == worker.ticket

    @invariant()
    def nobody_can_go_to_a_worker_that_the_front_may_assign(self) -> None:
        for slot in self.slots:
            if slot.session is None and slot.engine.phase is EnginePhase.READY:
                assert self.is_free(slot.worker)

    @invariant()
    def no_client_has_two_slots(self) -> None:
        """Except while the order to end one of them is on its way."""
        sessions = [slot.session for slot in self.slots if slot.session is not None]
        held = [seat.client for session in sessions for seat in session.seats.values() if not seat.is_released]
        assert len({*held, *self.simulation.waiting}) == len(held) + len(self.simulation.waiting)

    def on_assigned(self, assignment: Assignment) -> None:
        """Check that the first client in the queue gets a worker that no other client has, or can go to."""
        assert assignment.client == (self.returned or self.arrived).pop(0)
        assert self.is_free(assignment.worker)
        assert self.simulation.workers[assignment.worker].build == self.simulation.build
        self.assignments.append(assignment)
        self.visits[assignment.client] = Visit(assignment)

    def on_stop(self, worker: SimulatedWorker) -> None:
        """Check that only a worker that is lost is stopped with a session."""
        if worker.is_silent:
            self.lose_clients(worker)
        assert worker.is_silent or worker.session is None
        assert not any(self.is_held(visit) for visit in self.on_worker(worker) if visit.place is Place.RESERVED)

    def is_free(self, id: str) -> bool:
        """Return whether a worker has no session, and would admit nobody with a ticket for it."""
        worker = self.simulation.workers[id]
        tickets = [assignment.ticket.text for assignment in self.assignments if assignment.worker == id]
        return worker.session is None and not any(worker.would_admit(ticket) for ticket in tickets)

    def lose_clients(self, worker: SimulatedWorker) -> None:
        for visit in self.on_worker(worker):
            if visit.place in (Place.RESERVED, Place.SERVED):
                self.lose(visit, is_held=self.is_held(visit))

    def lose(self, visit: Visit, *, is_held: bool) -> None:
        visit.place = Place.LOST if is_held else Place.REFUSED
        visit.lost_at = self.simulation.clock.now()

    def is_held(self, visit: Visit) -> bool:
        """Return whether the front keeps the worker for a client."""
        sessions = [slot.session for slot in self.slots if slot.worker == visit.assignment.worker]
        return any(
            session is not None and session.seats[0].ticket == visit.assignment.ticket.id and not session.is_released
            for session in sessions
        )

    def is_believed(self, visit: Visit) -> bool:
        """Return whether a client that comes back with the ticket of its slot waits before all others."""
        if visit.assignment.client not in self.returned_before:
            return self.is_held(visit)
        slots = [slot for slot in self.slots if slot.worker == visit.assignment.worker]
        return self.is_held(visit) and not any(slot.engine.phase is EnginePhase.READY for slot in slots)

    def has_ready_worker(self) -> bool:
        """Return whether a worker of the front's build is ready and answers."""
        workers = [each for each in self.simulation.workers.values() if each.build == self.simulation.build]
        return any(worker.is_ready and not worker.is_silent for worker in workers)

    @property
    def slots(self) -> list[WorkerSlot]:
        return list(self.simulation.fleet.admission.slots)

    def on_worker(self, worker: SimulatedWorker) -> list[Visit]:
        return [visit for visit in self.visits.values() if visit.assignment.worker == worker.id]

    def worker(self, pick: int) -> SimulatedWorker | None:
        workers = list(self.simulation.workers.values())
        return workers[pick % len(workers)] if workers else None

    def pick(self, pick: int, *places: Place) -> str:
        for name, visit in list(self.visits.items()):
            worker = self.simulation.workers.get(visit.assignment.worker)
            ticket = "" if worker is None else worker.ticket
            if visit.place is Place.SERVED and ticket != visit.assignment.ticket.id:
                # The client came so late that the front had released its ticket.
                del self.visits[name]
        names = [name for name, visit in self.visits.items() if visit.place in places]
        return names[pick % len(names)] if names else ""

    def do(self, action: Callable[[], None], seconds: float = 0.0) -> None:
        async def run() -> None:
            action()
            await self.simulation.run_until(self.simulation.clock.now() + seconds)

        self.runner.run(run())


TestFrontMachine = FrontMachine.TestCase


async def test_a_free_worker_is_assigned_at_once_while_machines_fail() -> None:
    arrivals = Arrivals(nodes=20, slots=8, share=0.7, arrivals_per_s=10.0, failure_every_s=15.0)
    timings = await arrivals.run(60.0)
    assert len(timings.waited_s) > 500
    assert max(timings.waited_s) == 0.0


async def test_clients_are_served_in_their_order_by_workers_that_are_never_idle_above_capacity() -> None:
    arrivals = Arrivals(nodes=20, slots=8, share=1.02, arrivals_per_s=10.0, failure_every_s=15.0)
    timings = await arrivals.run(60.0)
    assert len(timings.waited_s) > 300
    assert max(timings.waited_s) > 1.0
