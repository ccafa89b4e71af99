"""What a front does with the statuses of simulated workers."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from reactor_runtime.cluster.front.scaling import Scaling
from reactor_runtime.cluster.front.worker_slot import WorkerSlot
from reactor_runtime.server.options import TurnLimits
from tests.cluster.simulation import Assignment, SimulatedWorker, Simulation


class OneWorker:
    """A front with one worker that has loaded."""

    def __init__(self, limits: TurnLimits | None) -> None:
        self.assigned: list[Assignment] = []
        self.simulation = Simulation(
            nodes=1, slots=1, scaling=Scaling(least=1, most=1), limits=limits, on_assigned=self.assigned.append
        )

    @property
    def worker(self) -> SimulatedWorker:
        (worker,) = self.simulation.workers.values()
        return worker

    @property
    def slot(self) -> WorkerSlot:
        (slot,) = self.simulation.fleet.admission.slots
        return slot

    async def wait(self, seconds: float = 0.0) -> None:
        await self.simulation.run_until(self.simulation.clock.now() + seconds)

    async def arrive(self, name: str) -> None:
        self.simulation.arrive(name)
        await self.wait()

    async def begin(self) -> None:
        """Let the client that was assigned last begin its session."""
        assert self.worker.begin(self.assigned[-1].ticket.text)
        self.simulation.leave(self.assigned[-1].client)
        await self.wait()


@contextlib.asynccontextmanager
async def one_worker(limits: TurnLimits | None = None) -> AsyncIterator[OneWorker]:
    front = OneWorker(limits)
    await front.wait(30.0)
    yield front
    await front.simulation.end()


async def test_the_limit_of_a_turn_is_not_kept_for_the_next_session() -> None:
    async with one_worker(TurnLimits(max_session_s=60.0)) as front:
        await front.arrive("a")
        await front.begin()
        await front.arrive("b")
        assert front.worker.waiting_elsewhere == 1
        front.worker.end()
        await front.wait()
        await front.begin()
        assert front.assigned[-1].client == "b"
        assert front.worker.waiting_elsewhere == 0
