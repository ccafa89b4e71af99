"""What a front does with the statuses of simulated workers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from reactor_runtime.cluster.front.relay import Failure, RelayEnd
from reactor_runtime.cluster.front.scaling import Scaling
from reactor_runtime.cluster.front.worker_slot import WorkerSlot
from reactor_runtime.server.delivery.client import Client, Role
from reactor_runtime.server.delivery.options import ClientOptions
from reactor_runtime.server.options import TurnLimits
from reactor_runtime.server.routes.health import slot_status
from reactor_runtime.server.workers.engine import EnginePhase
from reactor_runtime.wire.protocol import CloseCode
from tests.cluster.simulation import STATUS, Assignment, SimulatedWorker, Simulation
from tests.fakes import frame_of
from tests.server.running import reserved_port
from tests.timeouts import TIMEOUT_S

LOAD_S = 20.0


class OneWorker:
    """A front with one worker that has loaded."""

    def __init__(self, limits: TurnLimits | None) -> None:
        self.assigned: list[Assignment] = []
        self.simulation = Simulation(
            nodes=1,
            slots=1,
            scaling=Scaling(least=1, most=1),
            load_s=LOAD_S,
            limits=limits,
            on_assigned=self.assigned.append,
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
    await front.wait(LOAD_S + 10)
    yield front
    await front.simulation.end()


async def test_the_limit_of_a_turn_is_not_kept_for_the_next_session() -> None:
    async with one_worker(TurnLimits(max_session_s=60.0)) as front:
        await front.arrive("a")
        await front.begin()
        await front.arrive("b")
        assert front.worker.limited_clients == ["a"]
        front.worker.end()
        await front.wait()
        await front.begin()
        assert front.assigned[-1].client == "b"
        assert front.worker.limited_clients == []


async def test_a_worker_that_drains_is_loaded_and_gets_no_other_client() -> None:
    async with one_worker() as front:
        await front.arrive("a")
        await front.begin()
        slot, worker = front.slot, front.worker
        worker.is_draining = True
        worker.report()
        await front.wait()
        assert (slot.engine.phase, slot.losses, slot_status(slot)) == (EnginePhase.READY, 0, "busy")
        worker.end()
        await front.arrive("b")
        assert (front.simulation.waiting, slot_status(slot)) == (["b"], "stopping")


async def test_contact_that_comes_back_is_no_load() -> None:
    async with one_worker() as front:
        front.worker.fall_silent()
        await front.arrive("a")
        assert front.simulation.waiting == ["a"]
        front.worker.speak()
        await front.wait()
        assert not front.simulation.waiting
        assert len(front.simulation.operator.loads) == 1
        assert front.slot.losses == 0


async def test_each_load_of_a_model_is_reported_also_after_a_loss_of_contact() -> None:
    async with one_worker() as front:
        front.worker.fall_silent()
        front.worker.is_ready = False
        front.worker.speak()
        await front.wait()
        front.worker.load()
        await front.wait()
        assert len(front.simulation.operator.loads) == 2
        assert front.slot.losses == 1


async def test_a_worker_is_idle_from_when_its_model_is_loaded() -> None:
    async with one_worker() as front:
        (worker,) = front.simulation.fleet._workers.values()
        assert worker.state.idle_since == front.simulation.clock.now() - 10


async def test_a_worker_whose_status_can_not_be_used_stays_without_contact() -> None:
    async with one_worker() as front:
        front.worker.fall_silent()
        worker = next(iter(front.simulation.fleet._workers.values()))
        with pytest.raises(ValueError, match="not a valid EnginePhase"):
            worker._status_received(replace(STATUS, phase="unknown"))
        assert worker.lost_at is not None


@pytest.mark.parametrize(("failure", "serves"), [(Failure.BROKEN, True), (Failure.UNREACHED, False)])
async def test_a_viewer_takes_its_worker_out_of_service_only_if_it_can_not_be_reached(
    failure: Failure, serves: bool
) -> None:
    async with one_worker() as front:
        viewer = Client(Role.VIEWER, "127.0.0.1", ClientOptions(front.simulation.clock))
        front.slot.subscribers._relay_ended(viewer, RelayEnd(CloseCode.FULL, "", failure))
        await front.arrive("a")
        assert front.simulation.waiting == ([] if serves else ["a"])
        front.worker.report()
        await front.wait()
        assert not front.simulation.waiting


async def test_a_worker_whose_relays_fail_again_within_a_second_gets_no_client_for_a_second() -> None:
    async with one_worker() as front:
        with reserved_port() as closed:
            front.slot._access.address = f"http://127.0.0.1:{closed}"
            front.simulation.arrive("a", follows_redirects=False)
            async with asyncio.timeout(TIMEOUT_S):
                while front.slot.engine.phase is EnginePhase.READY:
                    # The connections are real, and the statuses of the worker simulated.
                    await asyncio.sleep(0.01)
                    await front.wait()
        await front.wait(0.9)
        front.worker.report()
        await front.wait()
        assert (front.simulation.waiting, len(front.assigned)) == (["a"], 2)
        await front.wait(0.1)
        front.worker.report()
        await front.wait()
        assert (front.simulation.waiting, len(front.assigned)) == ([], 3)


async def test_a_relayed_client_gets_no_frame_of_another_session_after_its_own_has_begun() -> None:
    async with one_worker() as front:
        client = Client(Role.CONTROLLER, "127.0.0.1", ClientOptions(front.simulation.clock))
        client.outbox.offer_frame(frame_of(1))
        front.slot.start_session(client)
        assert client.outbox.take_next() == (None, None)
        front.slot.detach_controller(client, lost=False)


async def test_a_session_that_its_controller_has_left_goes_on_until_another_one_waits() -> None:
    async with one_worker(TurnLimits(outlives_s=60.0)) as front:
        await front.arrive("a")
        await front.begin()
        front.worker.vacate()
        await front.wait(30.0)
        assert front.worker.vacancy == 1
        await front.arrive("b")
        assert front.worker.session is None
        await front.begin()
        assert (front.assigned[-1].client, front.simulation.waiting) == ("b", [])


async def test_a_session_whose_controller_lost_its_connection_is_kept_from_others() -> None:
    async with one_worker(TurnLimits(outlives_s=60.0)) as front:
        await front.arrive("a")
        await front.begin()
        front.worker.vacate(is_broken=True)
        await front.arrive("b")
        await front.wait(59.0)
        assert (front.worker.vacancy, front.simulation.waiting) == (1, ["b"])
        await front.wait(2.0)
        assert (front.worker.session, front.assigned[-1].client) == (None, "b")


async def test_a_controller_that_comes_back_keeps_its_session_from_others() -> None:
    async with one_worker(TurnLimits(outlives_s=60.0)) as front:
        await front.arrive("a")
        await front.begin()
        front.worker.vacate()
        await front.wait()
        front.simulation.arrive("again", resume="secret")
        await front.arrive("b")
        # Its ticket is on its way to the worker, which still reports the session without a controller.
        front.worker.report()
        await front.wait(5.0)
        assert (front.worker.vacancy, front.simulation.waiting) == (1, ["b"])
        assert front.worker.resume(front.assigned[-1].ticket.text)
        await front.wait(100.0)
        assert (front.worker.vacancy, front.simulation.waiting) == (0, ["b"])


async def test_a_controller_that_does_not_come_to_the_worker_again_makes_room() -> None:
    async with one_worker(TurnLimits(outlives_s=60.0)) as front:
        await front.arrive("a")
        await front.begin()
        front.worker.vacate()
        await front.wait()
        front.simulation.arrive("again", resume="secret")
        await front.arrive("b")
        await front.wait(11.0)
        front.worker.report()
        await front.wait()
        assert (front.worker.session, front.assigned[-1].client) == (None, "b")
