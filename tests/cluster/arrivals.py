"""Clients that come to a simulated front at a rate, stay for a while, and come back when their machine fails."""

from __future__ import annotations

import random
import time
from collections import deque
from dataclasses import dataclass, field

from reactor_runtime.cluster.front.scaling import Scaling
from reactor_runtime.server.workers.engine import EnginePhase
from tests.cluster.simulation import Assignment, Simulation

# From the redirect until the worker has the client, and from the failure of a machine until its clients are back.
REDIRECT_S = 0.03
RETURN_S = (0.1, 1.0)
LOAD_S = 20.0
MOST_IDLE_S = 0.1


@dataclass
class Timings:
    """Seconds of the front's processor for each admission, and of the clock that each client waited."""

    admission_s: list[float] = field(default_factory=list)
    waited_s: list[float] = field(default_factory=list)


class Arrivals:
    """Fill a front to a share of its slots, and send `arrivals_per_s` clients to it while machines fail.

    Sessions last so long that this share stays in use. Checks that clients get workers in their order, those that have
    lost theirs first, and that no worker is idle for more than 100 ms while a client waits.
    """

    def __init__(self, *, nodes: int, slots: int, share: float, arrivals_per_s: float, failure_every_s: float) -> None:
        self.timings = Timings()
        self._random = random.Random(1)
        self._rate = arrivals_per_s
        self._failure_every_s = failure_every_s
        self._first = int(nodes * slots * share)
        self._session_s = nodes * slots * share / arrivals_per_s
        self._came: dict[str, float] = {}
        self._returned: deque[str] = deque()
        self._arrived: deque[str] = deque()
        self._served: dict[str, Assignment] = {}
        total = nodes * slots
        self.simulation = Simulation(
            nodes=nodes,
            slots=slots,
            scaling=Scaling(least=total, most=total),
            load_s=LOAD_S,
            on_assigned=self._assigned,
        )

    async def run(self, seconds: float) -> Timings:
        """Return the timings of this time, which begins when all workers are loaded and the first clients served."""
        simulation = self.simulation
        now = simulation.clock.now()
        await simulation.run_until(now + LOAD_S + 5)
        for number in range(self._first):
            self._come(f"first-{number}")
        await simulation.run_until(now + LOAD_S + 10)
        self.timings = Timings()
        simulation.at(simulation.clock.now(), lambda: self._arrive(0))
        simulation.at(simulation.clock.now() + self._failure_every_s, self._fail)
        self._check_idle()
        await simulation.run_until(simulation.clock.now() + seconds)
        await simulation.end()
        return self.timings

    def _arrive(self, number: int) -> None:
        now = self.simulation.clock.now()
        self._come(f"c-{number}")
        self.simulation.at(now + self._random.expovariate(self._rate), lambda: self._arrive(number + 1))

    def _come(self, name: str, returning: str = "") -> None:
        self._came[name] = self.simulation.clock.now()
        (self._returned if returning else self._arrived).append(name)
        began = time.thread_time()
        self.simulation.arrive(name, returning=returning)
        self.timings.admission_s.append(time.thread_time() - began)

    def _assigned(self, assignment: Assignment) -> None:
        assert assignment.client == (self._returned or self._arrived).popleft()
        came, now = self._came.pop(assignment.client), self.simulation.clock.now()
        self.timings.waited_s.append(now - came)
        self.simulation.at(now + REDIRECT_S, lambda: self._go(assignment))

    def _go(self, assignment: Assignment) -> None:
        self.simulation.leave(assignment.client)
        worker = self.simulation.workers.get(assignment.worker)
        if worker is None:
            self._come(assignment.client, assignment.ticket.returns)
            return
        assert worker.begin(assignment.ticket.text), "a client was refused"
        self._served[worker.id] = assignment
        lasts_s = self._random.expovariate(1 / self._session_s)
        self.simulation.at(self.simulation.clock.now() + lasts_s, lambda: self._end(assignment))

    def _check_idle(self) -> None:
        """Check the workers now and then every 100 ms."""
        now = self.simulation.clock.now()
        if self._came and min(self._came.values()) <= now - MOST_IDLE_S:
            for slot in self.simulation.fleet.admission.slots:
                is_idle = slot.session is None and slot.engine.phase is EnginePhase.READY
                idle_since = max(slot.idle_since, slot.engine.ready_since)
                assert not is_idle or idle_since > now - MOST_IDLE_S, f"{slot.worker} is idle"
        self.simulation.at(now + MOST_IDLE_S, self._check_idle)

    def _end(self, assignment: Assignment) -> None:
        if self._served.pop(assignment.worker, None) is not None:
            self.simulation.workers[assignment.worker].end()

    def _fail(self) -> None:
        now = self.simulation.clock.now()
        for worker in self.simulation.kill_node(self._random.choice(list(self.simulation.free))):
            if (lost := self._served.pop(worker, None)) is not None:
                self._return(lost, now + self._random.uniform(*RETURN_S))
        self.simulation.at(now + self._failure_every_s, self._fail)

    def _return(self, lost: Assignment, at: float) -> None:
        self.simulation.at(at, lambda: self._come(lost.client, lost.ticket.returns))
