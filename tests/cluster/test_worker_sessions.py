"""Several sessions in simulated workers, whose loaded models they share."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from reactor_runtime.cluster.front.scaling import Scaling
from reactor_runtime.server.options import TurnLimits
from reactor_runtime.server.routes.health import slot_status
from tests.cluster.simulation import Assignment, SimulatedWorker, Simulation

EACH = 3
LOAD_S = 20.0


class SharedFront:
    """A front with workers that serve three sessions each."""

    def __init__(self, scaling: Scaling, limits: TurnLimits | None) -> None:
        self.assigned: list[Assignment] = []
        self.simulation = Simulation(
            nodes=1,
            slots=scaling.most,
            scaling=scaling,
            load_s=LOAD_S,
            limits=limits,
            each=EACH,
            on_assigned=self.assigned.append,
        )

    @property
    def workers(self) -> list[SimulatedWorker]:
        return list(self.simulation.workers.values())

    @property
    def served(self) -> list[list[str]]:
        """Return the clients that have a session, of each worker."""
        return [[session.seats[0].client for session in worker.sessions] for worker in self.workers]

    async def wait(self, seconds: float = 0.0) -> None:
        await self.simulation.run_until(self.simulation.clock.now() + seconds)

    async def arrive(self, *names: str) -> None:
        for name in names:
            self.simulation.arrive(name)
        await self.wait()

    async def play(self, *names: str) -> None:
        """Bring clients to their workers, one after the other."""
        for name in names:
            await self.arrive(name)
            await self.go(name)

    async def go(self, name: str) -> None:
        """Connect a client to the worker that it was sent to."""
        assignment = next(each for each in self.assigned if each.client == name)
        self.simulation.leave(name)
        assert self.simulation.workers[assignment.worker].begin(assignment.ticket.text)
        await self.wait()

    async def end(self, worker: SimulatedWorker, place: int, *, is_broken: bool = False) -> None:
        worker.place = place
        worker.end(is_broken=is_broken)
        await self.wait()


@contextlib.asynccontextmanager
async def shared_front(
    least: int = 1, most: int = 2, *, spare: int = 0, limits: TurnLimits | None = None
) -> AsyncIterator[SharedFront]:
    front = SharedFront(Scaling(least=least, most=most, spare=spare), limits)
    await front.wait(LOAD_S + 1)
    yield front
    await front.simulation.end()


async def test_a_worker_serves_several_sessions_before_another_is_started() -> None:
    async with shared_front() as front:
        await front.play("a", "b", "c")
        assert front.served == [["a", "b", "c"]]
        await front.arrive("d")
        assert front.simulation.waiting == ["d"]
        await front.wait(LOAD_S + 1)
        await front.go("d")
        assert front.served == [["a", "b", "c"], ["d"]]


async def test_clients_that_come_at_once_get_as_many_sessions_as_fit() -> None:
    async with shared_front(most=1) as front:
        (worker,) = front.workers
        worker.fitting = 2
        worker.report()
        await front.wait()
        await front.arrive("a", "b", "c")
        assert ([each.client for each in front.assigned], front.simulation.waiting) == (["a", "b"], ["c"])
        assert [slot_status(slot) for slot in front.simulation.fleet.admission.slots] == ["busy", "busy", "busy"]
        worker.fitting = 3
        worker.report()
        await front.wait()
        assert front.simulation.waiting == []


async def test_the_end_of_one_session_makes_room_for_the_next_client_and_the_others_go_on() -> None:
    async with shared_front(most=1) as front:
        await front.play("a", "b", "c")
        await front.arrive("d")
        await front.end(front.workers[0], 2)
        await front.go("d")
        assert front.served == [["a", "d", "c"]]


async def test_a_client_that_does_not_come_is_missed_by_nobody_else() -> None:
    async with shared_front(most=1) as front:
        await front.play("a")
        await front.arrive("b", "c")
        await front.wait(11.0)
        await front.play("d")
        assert [len(each) for each in front.served] == [2]
        assert len(front.simulation.fleet.admission.wait_queue.waiting) == 0


async def test_all_clients_of_a_lost_worker_return_before_the_others() -> None:
    async with shared_front(most=1) as front:
        await front.play("a", "b", "c")
        await front.arrive("d")
        front.simulation.kill_worker(front.workers[0].id)
        for number, name in enumerate("abc"):
            front.simulation.arrive(f"{name}2", returning=front.assigned[number].ticket.returns)
        await front.wait()
        assert front.simulation.waiting == ["a2", "b2", "c2", "d"]


async def test_another_front_finds_all_sessions_of_a_worker() -> None:
    async with shared_front(most=1) as front:
        await front.play("a", "b")
        await front.simulation.restart_front()
        await front.wait(1.0)
        await front.play("c")
        await front.arrive("d")
        assert (front.served, front.simulation.waiting) == ([["a", "b", "c"]], ["d"])


async def test_as_many_turns_of_a_worker_are_limited_as_clients_wait() -> None:
    async with shared_front(most=1, limits=TurnLimits(max_session_s=60.0)) as front:
        (worker,) = front.workers
        await front.play("a", "b", "c")
        await front.arrive("d", "e")
        assert worker.limited_clients == ["a", "b"]
        await front.wait(1.0)
        await front.end(worker, 1)
        await front.go("d")
        assert worker.limited_clients == ["b"]


async def test_a_worker_with_room_is_spare_and_an_idle_one_is_released_with_all_its_slots() -> None:
    async with shared_front(least=0, most=2, spare=1) as front:
        await front.play("a", "b")
        await front.wait(1.0)
        assert len(front.workers) == 1
        await front.play("c")
        await front.wait(LOAD_S + 1)
        assert len(front.workers) == 2
        for place in (1, 2, 3):
            await front.end(front.workers[0], place)
        await front.wait(700.0)
        assert (len(front.workers), len(front.simulation.fleet.admission.slots)) == (1, EACH)
