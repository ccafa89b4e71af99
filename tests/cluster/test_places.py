"""Seats and slots of simulated workers in a random order of arrivals, ends and failures: front and workers agree."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest

from reactor_runtime.cluster.front.scaling import Scaling
from reactor_runtime.cluster.front.worker_slot import WorkerSlot
from reactor_runtime.server.delivery.client import Client
from reactor_runtime.server.options import TurnLimits
from reactor_runtime.server.workers.engine import EnginePhase
from tests.cluster.simulation import Assignment, SimulatedWorker, Simulation

ROUNDS, STEPS = 6, 25
WAITS_S = (0.1, 1.0, 3.0)
# In which workers are lost, their successors load, and tickets expire.
SETTLED_S = 20.0


class Crowd:
    """Clients that come, go to their workers, leave and come back, and workers that fail; `seed` chooses the order."""

    def __init__(self, seed: int, *, seats: int, each: int) -> None:
        self.random = random.Random(seed)
        self.assigned: list[Assignment] = []
        self.names = (f"c-{number}" for number in itertools.count())
        self.wishes: dict[str, dict[str, Any]] = {}
        self.seats, self.each = seats, each
        # How many seats were taken when they were checked.
        self.checked = 0
        self.simulation = Simulation(
            nodes=2,
            slots=2,
            scaling=Scaling(least=1, most=3),
            load_s=2.0,
            seats=seats,
            each=each,
            limits=TurnLimits(max_session_s=50.0, resume_grace_s=5.0),
            on_assigned=self.assigned.append,
        )
        self.simulation.delay_s = self.random.choice([0.0, 0.3])

    @property
    def workers(self) -> list[SimulatedWorker]:
        return list(self.simulation.workers.values())

    @property
    def slots(self) -> list[WorkerSlot]:
        return list(self.simulation.fleet.admission.slots)

    async def wait(self, seconds: float = 0.0) -> None:
        await self.simulation.run_until(self.simulation.clock.now() + seconds)

    async def play(self) -> None:
        """Make some steps, and then wait until all that runs has settled."""
        often: list[Callable[[], None]] = [self.arrive] * 6 + [self.go] * 8 + [self.end_turn] * 4 + [self.fit] * 2
        seldom = [self.leave, self.fall_silent, self.speak, self.kill, self.come_back]
        for _ in range(STEPS):
            self.random.choice(often + seldom)()
            await self.wait(self.random.choice((0.0, 0.0, 0.0, *WAITS_S)))
        if self.random.random() < 0.3:
            await self.simulation.restart_front()
        self.speak()
        await self.wait(SETTLED_S)
        for worker in self.workers:
            worker.report()
        await self.wait(1.0)

    def arrive(self) -> None:
        name, wish = next(self.names), dict[str, Any]()
        if self.seats > 1:
            wish["room"] = self.random.choice(["", "", "a", "b"])
            wish["seat"] = self.random.choice([None, None, None, self.random.randrange(self.seats)])
        self.wishes[name] = wish
        self.simulation.arrive(name, **wish)

    def go(self) -> None:
        """Connect a client to its worker, which may refuse it."""
        on_their_way = [each for each in self.assigned if each.client in self.simulation.clients]
        assignment = self.random.choice([*on_their_way, *self.assigned[-1:], None])
        worker = None if assignment is None else self.simulation.workers.get(assignment.worker)
        if assignment is not None:
            self.simulation.leave(assignment.client)
        if assignment is not None and worker is not None and worker.is_ready:
            worker.begin(assignment.ticket.text)

    def end_turn(self) -> None:
        """End the turn of a client of some session."""
        taken = [
            (worker, place, number)
            for worker in self.workers
            for place, slot in enumerate(worker.slots, start=1)
            for number, seat in enumerate(() if slot.session is None else slot.session.seats)
            if not seat.is_free
        ]
        if taken:
            worker, place, number = self.random.choice(taken)
            worker.place = place
            worker.free_seat(number, is_broken=self.random.random() < 0.4)

    def leave(self) -> None:
        if waiting := self.simulation.waiting:
            self.simulation.leave(self.random.choice(waiting))

    def come_back(self) -> None:
        """Come back to the front with the secret of a redirect."""
        if self.assigned:
            assignment, name = self.random.choice(self.assigned[-6:]), next(self.names)
            wish = self.wishes[name] = self.wishes[assignment.client]
            self.simulation.arrive(name, returning=assignment.ticket.returns, **wish)

    def fall_silent(self) -> None:
        if self.workers:
            self.random.choice(self.workers).fall_silent()

    def speak(self) -> None:
        for worker in self.workers:
            if worker.is_silent:
                worker.speak()

    def kill(self) -> None:
        if self.workers and self.random.random() < 0.2:
            self.simulation.kill_worker(self.random.choice(self.workers).id)

    def fit(self) -> None:
        """Change how many sessions fit on a worker."""
        for worker in self.workers:
            worker.fitting = self.random.randint(1, self.each)
            worker.report()

    def is_served_for(self, client: Client) -> bool:
        """Return whether a session has a seat for a client that waits, or may start for it."""
        pool = self.simulation.fleet.admission.slots
        serving = [slot for slot in self.slots if slot.engine.phase is EnginePhase.READY]
        sessions = [slot.session for slot in serving if slot.session is not None and slot.has_started]
        has_seat = self.seats > 1 and any(session.free_seat_for(client) is not None for session in sessions)
        may_open = not pool.find_session(client.room) and not pool.starts_for(client)
        return has_seat or (may_open and any(slot.session is None and slot.engine.room for slot in serving))

    def check(self) -> None:
        """Check that the front knows who has a seat, and lets nobody wait for one that is free."""
        for slot in self.slots:
            worker = self.simulation.workers.get(slot.worker)
            if worker is None or not worker.is_ready:
                continue
            session = worker.slots[slot._place - 1].session
            reported = {} if slot.session is None else slot.session.seats
            real = enumerate(() if session is None else session.seats)
            believed = {number: seat.ticket for number, seat in reported.items() if seat.is_reported}
            assert believed == {number: seat.ticket for number, seat in real if not seat.is_free}
            self.checked += len(believed)
        waiting = self.simulation.fleet.admission.wait_queue.waiting
        assert not [client.id for client in waiting if self.is_served_for(client)]


@pytest.mark.parametrize(("seats", "each"), [(1, 1), (1, 3), (3, 1), (2, 2)])
async def test_front_and_workers_agree_on_who_has_which_seat(seats: int, each: int) -> None:
    checked = 0
    for seed in range(10):
        crowd = Crowd(seed, seats=seats, each=each)
        await crowd.wait(4.0)
        for _ in range(ROUNDS):
            await crowd.play()
            crowd.check()
        await crowd.simulation.end()
        checked += crowd.checked
    assert checked > 50
