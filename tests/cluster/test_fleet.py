"""What a front logs without its cluster, which requests for workers it withdraws, and which clients return first."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from reactor_runtime.cluster.front.scaling import Scaling
from reactor_runtime.cluster.messages import SeatStatus, SessionStatus
from reactor_runtime.cluster.placement.placement import PlacementEvent, PlacementLost, PlacementRestored
from reactor_runtime.errors import LoadError
from reactor_runtime.server.options import TurnLimits
from tests.cluster.simulation import Assignment, SimulatedWorker, Simulation


async def test_an_outage_of_the_cluster_is_logged_once_and_its_end_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    simulation = Simulation(nodes=1, slots=1, scaling=Scaling(least=1, most=1), on_assigned=lambda _: None)
    await simulation.run_until(simulation.clock.now() + 1.0)
    outage: list[PlacementEvent] = [
        PlacementLost("Ray has not answered"),
        PlacementLost("the driver has ended"),
        PlacementRestored(()),
    ]
    for event in outage * 2:
        simulation.report(event)
    await simulation.end()
    lost = "no contact with the cluster, its workers continue: Ray has not answered"
    logged = [record.getMessage() for record in caplog.records if "contact with the cluster" in record.getMessage()]
    assert logged == [lost, "contact with the cluster again"] * 2


async def test_requests_for_clients_that_have_left_are_withdrawn() -> None:
    simulation = Simulation(nodes=1, slots=1, scaling=Scaling(least=1, most=16), on_assigned=lambda _: None)
    await simulation.run_until(simulation.clock.now() + 1.0)
    names = [f"c-{number}" for number in range(14)]
    for name in names:
        simulation.arrive(name)
    await simulation.run_until(simulation.clock.now() + 2.0)
    assert len(simulation.pending) == 13
    for name in names:
        simulation.leave(name)
    await simulation.run_until(simulation.clock.now() + 5.0)
    assert (simulation.pending, len(simulation.workers)) == ([], 1)
    # A withdrawn request is no failed start, after which the next one would wait.
    for name in ("again", "and again"):
        simulation.arrive(name)
    await simulation.run_until(simulation.clock.now() + 1.0)
    assert len(simulation.pending) == 1
    await simulation.end()


async def test_clients_for_whom_workers_can_be_started_wait_though_nobody_else_may() -> None:
    assigned: list[Assignment] = []
    simulation = Simulation(
        nodes=2, slots=1, scaling=Scaling(least=0, most=2), max_waiting=0, load_s=1.0, on_assigned=assigned.append
    )
    await simulation.run_until(simulation.clock.now() + 1.0)
    for name in "abc":
        simulation.arrive(name)
    assert [name for name in "abc" if simulation.clients[name].closing is not None] == ["c"]
    await simulation.run_until(simulation.clock.now() + 5.0)
    assert len(assigned) == 2
    await simulation.end()


async def test_workers_of_another_build_are_replaced_at_once_or_after_their_session() -> None:
    assigned: list[Assignment] = []
    simulation = Simulation(nodes=2, slots=2, scaling=Scaling(least=2, most=2), load_s=1.0, on_assigned=assigned.append)
    await simulation.run_until(simulation.clock.now() + 2.0)
    simulation.arrive("a")
    busy = simulation.workers[assigned[0].worker]
    assert busy.begin(assigned[0].ticket.text)
    (idle,) = simulation.workers.keys() - {busy.id}
    await simulation.restart_front("later")
    for name in "bcd":
        simulation.arrive(name)
    await simulation.run_until(simulation.clock.now() + 5.0)
    assert idle not in simulation.workers
    assert sorted(worker.build for worker in simulation.workers.values()) == ["", "later", "later"]
    assert simulation.waiting == ["d"]
    assert busy.id not in [assignment.worker for assignment in assigned[1:]]
    loads = [(load.ready, load.engines) for load in simulation.operator.loads]
    assert loads == [(1, 2), (2, 2)] * 2
    busy.end()
    await simulation.run_until(simulation.clock.now() + 1.0)
    assert busy.id not in simulation.workers
    assert simulation.waiting == ["d"]
    await simulation.end()


async def test_a_worker_that_is_placed_while_the_front_stops_is_not_connected() -> None:
    simulation = Simulation(nodes=1, slots=0, scaling=Scaling(least=1, most=1), on_assigned=lambda _: None)
    await simulation.run_until(simulation.clock.now() + 1.0)
    (pending,) = simulation.pending
    await simulation.fleet.stop()
    simulation.free["n-0"] = 1
    simulation.start("another")
    await simulation.run_until(simulation.clock.now() + 1.0)
    assert simulation.workers[pending].link is None
    await simulation.end()


async def test_a_worker_whose_build_comes_back_before_its_session_is_over_stays() -> None:
    assigned: list[Assignment] = []
    simulation = Simulation(nodes=2, slots=1, scaling=Scaling(least=1, most=1), load_s=1.0, on_assigned=assigned.append)
    await simulation.run_until(simulation.clock.now() + 2.0)
    simulation.arrive("a")
    (worker,) = simulation.workers.values()
    assert worker.begin(assigned[0].ticket.text)
    await simulation.restart_front("later")
    await simulation.run_until(simulation.clock.now() + 5.0)
    await simulation.restart_front()
    await simulation.run_until(simulation.clock.now() + 5.0)
    worker.end()
    simulation.arrive("b")
    await simulation.run_until(simulation.clock.now() + 1.0)
    assert list(simulation.workers.values()) == [worker]
    assert assigned[-1].worker == worker.id
    await simulation.end()


async def test_a_build_that_can_not_be_loaded_ends_the_front_only_after_the_sessions_of_the_one_before() -> None:
    assigned: list[Assignment] = []
    scaling = Scaling(least=1, most=1)
    simulation = Simulation(nodes=2, slots=1, scaling=scaling, load_s=60.0, on_assigned=assigned.append)
    await simulation.run_until(simulation.clock.now() + 61.0)
    simulation.arrive("a")
    (busy,) = simulation.workers.values()
    assert busy.begin(assigned[0].ticket.text)
    await simulation.restart_front("broken")
    for _ in range(5):
        await simulation.run_until(simulation.clock.now() + 31.0)
        # The front still starts workers, and keeps the one with the session.
        (failed,) = simulation.workers.keys() - {busy.id}
        simulation.kill_worker(failed)
    busy.end()
    await simulation.run_until(simulation.clock.now() + 1.0)
    with pytest.raises(LoadError, match="workers have ended before they were ready"):
        await simulation.end()


async def test_a_session_of_a_front_before_has_run_as_long_as_its_worker_reports() -> None:
    simulation = Simulation(nodes=1, slots=1, scaling=Scaling(least=1, most=1), load_s=1.0, on_assigned=lambda _: None)
    await simulation.run_until(simulation.clock.now() + 2.0)
    (worker,) = simulation.workers.values()
    worker.session = SessionStatus("s-1", "running", 30.0, (SeatStatus("t-1", "c-1"),))
    worker.report()
    await simulation.run_until(simulation.clock.now() + 1.0)
    (slot,) = simulation.fleet.admission.slots
    assert slot.session is not None
    assert simulation.clock.now() - slot.session.started_at == 31.0
    await simulation.end()


class OneSession:
    """A front with one worker, where client a has a session, and b and c wait."""

    def __init__(self, limits: TurnLimits | None = None) -> None:
        self.assigned: list[Assignment] = []
        self.simulation = Simulation(
            nodes=1,
            slots=1,
            scaling=Scaling(least=1, most=1),
            load_s=1.0,
            limits=limits,
            on_assigned=self.assigned.append,
        )

    async def begin(self) -> None:
        await self.wait(2.0)
        self.simulation.arrive("a")
        self.begin_next()
        self.simulation.leave("a")
        for name in ("b", "c"):
            self.simulation.arrive(name)
        await self.wait()

    async def wait(self, seconds: float = 0.0) -> None:
        await self.simulation.run_until(self.simulation.clock.now() + seconds)

    @property
    def worker(self) -> SimulatedWorker:
        (worker,) = self.simulation.workers.values()
        return worker

    @property
    def served(self) -> list[str]:
        return [assignment.client for assignment in self.assigned]

    @property
    def secret(self) -> str:
        """Return the secret of the client that was assigned last."""
        return self.assigned[-1].ticket.returns

    def begin_next(self) -> None:
        """Let the client that was assigned last begin its session."""
        assert self.worker.begin(self.assigned[-1].ticket.text)


@contextlib.asynccontextmanager
async def one_session(limits: TurnLimits | None = None) -> AsyncIterator[OneSession]:
    front = OneSession(limits)
    await front.begin()
    yield front
    await front.simulation.end()


async def test_a_client_that_knows_of_a_loss_before_the_front_moves_before_all_others_once() -> None:
    async with one_session() as front:
        simulation = front.simulation
        front.worker.fall_silent()
        for name in ("a2", "a3"):
            simulation.arrive(name, returning=front.secret)
        await front.wait(1.0)
        assert simulation.waiting == ["b", "c", "a2", "a3"]
        # The front gives the worker up, and starts another one.
        await front.wait(10.0)
        assert simulation.waiting == ["b", "c", "a2"]
        assert front.served == ["a", "a3"]


async def test_nobody_ends_a_session_by_coming_back_with_its_secret() -> None:
    async with one_session() as front:
        front.simulation.arrive("thief", returning=front.secret)
        await front.wait(60.0)
        assert front.worker.session is not None
        assert (front.served, front.simulation.waiting) == (["a"], ["b", "c", "thief"])


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
async def test_a_controller_that_leaves_on_purpose_waits_after_all_others(before: bool) -> None:
    async with one_session() as front:
        secret = front.secret
        if before:
            front.simulation.arrive("a2", returning=secret)
        front.worker.end()
        if not before:
            await front.wait()
            front.simulation.arrive("a2", returning=secret)
        await front.wait()
        assert (front.served, front.simulation.waiting) == (["a", "b"], ["c", "a2"])


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
async def test_a_controller_whose_connection_broke_gets_the_next_slot(before: bool) -> None:
    async with one_session() as front:
        secret = front.secret
        if before:
            front.simulation.arrive("a2", returning=secret)
        front.worker.end(is_broken=True)
        await front.wait()
        if not before:
            assert front.served == ["a", "b"]
            front.simulation.arrive("a2", returning=secret)
            assert front.simulation.waiting == ["a2", "c"]
        else:
            assert (front.served, front.simulation.waiting) == (["a", "a2"], ["b", "c"])
        front.simulation.arrive("a3", returning=secret)
        assert front.simulation.waiting[-1] == "a3"


@pytest.mark.parametrize("front_restarts", [False, True])
async def test_a_controller_that_returns_has_the_rest_of_its_turn_and_then_waits_again(front_restarts: bool) -> None:
    async with one_session(TurnLimits(max_session_s=100.0)) as front:
        simulation, secret = front.simulation, front.secret
        await front.wait(70.0)
        front.worker.end(is_broken=True)
        simulation.leave("b")
        simulation.leave("c")
        simulation.arrive("a2", returning=secret)
        await front.wait()
        front.begin_next()
        assert front.worker.session is not None
        assert front.worker.session.seats[0].turn_s == 70.0
        secret = front.secret
        await front.wait(20.0)
        if front_restarts:
            front.worker.set_seat(0, replace(front.worker.session.seats[0], turn_s=90.0))
            await simulation.restart_front()
        await front.wait(11.0)
        simulation.arrive("d")
        simulation.arrive("a3", returning=secret)
        front.worker.end(is_broken=True)
        await front.wait()
        # 101 s are used.
        assert (front.served, simulation.waiting) == (["a", "a2", "d"], ["a3"])


async def test_a_loss_is_forgotten_after_a_minute() -> None:
    async with one_session() as front:
        secret = front.secret
        front.worker.end(is_broken=True)
        await front.wait()
        front.begin_next()
        await front.wait(61.0)
        front.simulation.arrive("a2", returning=secret)
        assert front.simulation.waiting == ["c", "a2"]


async def test_a_session_that_is_lost_while_its_client_resumes_is_claimed_with_the_new_ticket() -> None:
    assigned: list[Assignment] = []
    simulation = Simulation(nodes=1, slots=1, scaling=Scaling(least=1, most=1), load_s=1.0, on_assigned=assigned.append)
    await simulation.run_until(simulation.clock.now() + 2.0)
    simulation.arrive("a")
    (worker,) = simulation.workers.values()
    assert worker.begin(assigned[0].ticket.text)
    assert worker.session is not None
    worker.set_seat(0, replace(worker.session.seats[0], resume="secret"))
    await simulation.run_until(simulation.clock.now() + 1.0)
    simulation.arrive("b")
    simulation.arrive("a2", resume="secret")
    simulation.kill_worker(worker.id)
    for returning in assigned[::-1]:
        simulation.arrive(f"with {returning.client}", returning=returning.ticket.returns)
    assert simulation.waiting == ["with a2", "b", "with a"]
    await simulation.end()


async def test_a_client_that_comes_back_right_after_a_resume_returns_with_the_new_secret() -> None:
    async with one_session() as front:
        worker = front.worker
        assert worker.session is not None
        worker.set_seat(0, replace(worker.session.seats[0], resume="secret"))
        await front.wait()
        front.simulation.arrive("a2", resume="secret")
        # The worker has admitted the resume, which its next status will report.
        seat = replace(worker.session.seats[0], ticket=front.assigned[-1].ticket.id)
        worker.session = replace(worker.session, seats=(seat,))
        front.simulation.arrive("a3", returning=front.secret)
        worker.end(is_broken=True)
        await front.wait()
        assert front.served == ["a", "a2", "a3"]
