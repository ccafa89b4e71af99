"""Admission and scaling at a front with simulated workers that load, serve, fail and fall silent, in any order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from itertools import count

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from reactor_runtime.cluster.front.scaling import Scaling
from reactor_runtime.cluster.tickets import LEEWAY_S, TICKET_S
from reactor_runtime.server.workers.engine import EnginePhase
from tests.cluster.crowd import Crowd
from tests.cluster.simulation import Assignment, SimulatedWorker, Simulation

SCALING = Scaling(least=1, most=4, spare=1, idle_after_s=60.0)
PICKS = st.integers(0, 3)


class Place(Enum):
    """Where a client is that has been assigned to a worker."""

    RESERVED = auto()
    SERVED = auto()
    # The front knows that the worker has lost it.
    LOST = auto()
    REFUSED = auto()


@dataclass
class Visit:
    assignment: Assignment
    place: Place = Place.RESERVED


class FrontMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.names = (f"c-{number}" for number in count())
        self.returned: list[str] = []
        self.arrived: list[str] = []
        self.visits: dict[str, Visit] = {}
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

    @rule(seconds=st.sampled_from([0, 1, 6, 11, 70]))
    def wait(self, seconds: int) -> None:
        self.do(lambda: None, seconds)

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
        """Connect to the assigned worker, which admits one client with a ticket that has not expired."""
        if name := self.pick(pick, Place.RESERVED):
            visit = self.visits[name]
            worker = self.simulation.workers.get(visit.assignment.worker)
            self.simulation.leave(name)
            is_valid = self.simulation.clock.now() < visit.assignment.at + TICKET_S + LEEWAY_S
            if worker is None or worker.session is not None or not is_valid:
                visit.place = Place.REFUSED
                return
            if not worker.is_silent:
                self.lose_clients(worker, but=name)
            visit.place = Place.SERVED
            if fails:
                del self.visits[name]
            self.do(partial(worker.fail_to_begin if fails else worker.begin, visit.assignment.ticket.id))

    @rule(pick=PICKS)
    def end(self, pick: int) -> None:
        if name := self.pick(pick, Place.SERVED):
            self.do(self.simulation.workers[self.visits.pop(name).assignment.worker].end)

    @rule(pick=PICKS)
    def come_back(self, pick: int) -> None:
        """Come back to the front with a ticket, after a loss or without having reached the worker."""
        if name := self.pick(pick, Place.RESERVED, Place.LOST, Place.REFUSED):
            self.simulation.leave(name)
            visit = self.visits[name]
            is_first = visit.place is Place.LOST or (visit.place is Place.RESERVED and self.is_held(visit))
            del self.visits[name]
            (self.returned if is_first else self.arrived).append(name)
            self.do(lambda: self.simulation.arrive(name, returning=visit.assignment.ticket.text))

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
            for visit in self.on_worker(worker):
                if worker.session is not None and visit.place is Place.RESERVED and self.is_held(visit):
                    visit.place = Place.LOST
            self.do(worker.speak)

    @invariant()
    def no_worker_is_idle_while_a_client_waits(self) -> None:
        assert self.simulation.waiting == [*self.returned, *self.arrived]
        for slot in self.simulation.fleet.admission.slots if self.simulation.waiting else ():
            assert slot.session is not None or slot.engine.phase is not EnginePhase.READY

    @invariant()
    def the_front_has_the_sessions_of_its_workers(self) -> None:
        for slot in self.simulation.fleet.admission.slots:
            worker = self.simulation.workers.get(slot.worker)
            if worker is not None and not worker.is_silent and slot.session is not None and slot.session.is_reported:
                assert worker.session is not None
                assert worker.session.ticket == slot.session.ticket

    def on_assigned(self, assignment: Assignment) -> None:
        """Check that the first client in the queue gets a worker that no other client has."""
        assert assignment.client == (self.returned or self.arrived).pop(0)
        for visit in self.on_worker(self.simulation.workers[assignment.worker]):
            assert visit.place is not Place.SERVED
            assert not self.is_held(visit)
        self.visits[assignment.client] = Visit(assignment)

    def on_stop(self, worker: SimulatedWorker) -> None:
        """Check that only a worker that is lost is stopped with a session."""
        if worker.is_silent:
            self.lose_clients(worker)
        assert worker.is_silent or worker.session is None
        assert not any(self.is_held(visit) for visit in self.on_worker(worker) if visit.place is Place.RESERVED)

    def lose_clients(self, worker: SimulatedWorker, *, but: str = "") -> None:
        for visit in self.on_worker(worker):
            if visit.assignment.client != but and visit.place in (Place.RESERVED, Place.SERVED):
                visit.place = Place.LOST if self.is_held(visit) else Place.REFUSED

    def is_held(self, visit: Visit) -> bool:
        """Return whether the front keeps the worker for a client."""
        slots = self.simulation.fleet.admission.slots
        (ticket,) = [
            "" if slot.session is None else slot.session.ticket
            for slot in slots
            if slot.worker == visit.assignment.worker
        ] or [""]
        return ticket == visit.assignment.ticket.id

    def on_worker(self, worker: SimulatedWorker) -> list[Visit]:
        return [visit for visit in self.visits.values() if visit.assignment.worker == worker.id]

    def worker(self, pick: int) -> SimulatedWorker | None:
        workers = list(self.simulation.workers.values())
        return workers[pick % len(workers)] if workers else None

    def pick(self, pick: int, *places: Place) -> str:
        names = [name for name, visit in self.visits.items() if visit.place in places]
        return names[pick % len(names)] if names else ""

    def do(self, action: Callable[[], None], seconds: float = 0.0) -> None:
        async def run() -> None:
            action()
            await self.simulation.run_until(self.simulation.clock.now() + seconds)

        self.runner.run(run())


TestFrontMachine = FrontMachine.TestCase


async def test_a_free_worker_is_assigned_at_once_while_machines_fail() -> None:
    crowd = Crowd(nodes=20, slots=8, share=0.7, arrivals_per_s=10.0, failure_every_s=15.0)
    figures = await crowd.run(60.0)
    assert len(figures.waited_s) > 500
    assert max(figures.waited_s) == 0.0
