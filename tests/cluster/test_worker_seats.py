"""Sessions with several seats in simulated workers, and the controllers that a front sends to them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import jwt
import pytest

from reactor_runtime.cluster.front.scaling import Scaling
from reactor_runtime.cluster.messages import SeatStatus
from reactor_runtime.server.delivery.client import Client, Role
from reactor_runtime.server.delivery.options import ClientOptions
from reactor_runtime.server.options import TurnLimits
from reactor_runtime.wire.protocol import CloseCode
from tests.cluster.simulation import Assignment, SimulatedWorker, Simulation
from tests.server.admission_fixture import told

SEATS = 3
LOAD_S = 20.0
GRACE_S = 30.0


class SeatedFront:
    """A front with workers whose sessions have three seats."""

    def __init__(self, workers: int, limits: TurnLimits | None) -> None:
        self.assigned: list[Assignment] = []
        self.simulation = Simulation(
            nodes=1,
            slots=2 * workers,
            scaling=Scaling(least=workers, most=2 * workers),
            load_s=LOAD_S,
            limits=limits,
            seats=SEATS,
            on_assigned=self.assigned.append,
        )

    @property
    def workers(self) -> list[SimulatedWorker]:
        return list(self.simulation.workers.values())

    @property
    def seated(self) -> list[list[str]]:
        """Return the clients in the seats of each session, "" in a free one, as the workers know them."""
        sessions = [worker.session for worker in self.workers if worker.session is not None]
        return [["" if seat.is_free else seat.client for seat in session.seats] for session in sessions]

    async def wait(self, seconds: float = 0.0) -> None:
        await self.simulation.run_until(self.simulation.clock.now() + seconds)

    def assignment(self, name: str) -> Assignment:
        """Return the last worker that a client was sent to."""
        return next(each for each in reversed(self.assigned) if each.client == name)

    async def arrive(self, *names: str, **of_client: Any) -> None:
        for name in names:
            self.simulation.arrive(name, **of_client)
        await self.wait()

    async def go(self, name: str) -> bool:
        """Connect a client to the worker that it was sent to; return whether it was admitted."""
        assignment = self.assignment(name)
        self.simulation.leave(name)
        is_admitted = self.simulation.workers[assignment.worker].begin(assignment.ticket.text)
        await self.wait()
        return is_admitted

    async def play(self, *names: str, **of_client: Any) -> SimulatedWorker:
        """Bring clients to their seats, one after the other; return the worker of the last one."""
        for name in names:
            await self.arrive(name, **of_client)
            assert await self.go(name)
        return self.simulation.workers[self.assigned[-1].worker]

    async def free(self, worker: SimulatedWorker, seat: int, *, is_broken: bool = False) -> None:
        worker.free_seat(seat, is_broken=is_broken)
        await self.wait()


@contextlib.asynccontextmanager
async def seated_front(workers: int = 2, limits: TurnLimits | None = None) -> AsyncIterator[SeatedFront]:
    front = SeatedFront(workers, limits)
    await front.wait(LOAD_S + 1)
    yield front
    await front.simulation.end()


async def test_clients_without_a_room_fill_the_seats_of_a_session_before_another_begins() -> None:
    async with seated_front() as front:
        await front.play("a", "b", "c", "d")
        assert front.seated == [["a", "b", "c"], ["d", "", ""]]


async def test_clients_with_a_code_meet_in_its_room_and_others_get_no_seat_there() -> None:
    async with seated_front() as front:
        await front.play("a", room="duel")
        await front.play("b")
        await front.play("c", room="duel")
        assert front.seated == [["a", "c", ""], ["b", "", ""]]


@pytest.mark.parametrize("code", ["duel", "other", ""])
async def test_a_viewer_comes_to_a_worker_with_the_code_of_the_room_if_it_has_it(code: str) -> None:
    async with seated_front() as front:
        await front.play("a", room="duel")
        slot = front.simulation.fleet.admission.slots.find_session("duel")
        assert slot is not None
        options = ClientOptions(front.simulation.clock)
        viewer = Client(Role.VIEWER, "127.0.0.1", options, follows_redirects=True, room=code)
        slot.subscribe(viewer)
        (redirect,) = [data for kind, data in await told(viewer) if kind == "reactor.redirect"]
        ticket = jwt.decode(redirect["ticket"], options={"verify_signature": False})
        assert slot.session is not None
        assert (ticket["session"], ticket["room"]) == (slot.session.id, "duel" if code == "duel" else "")


async def test_a_client_waits_for_the_seat_that_it_wants_in_a_room() -> None:
    async with seated_front() as front:
        worker = await front.play("a", "b", room="duel")
        await front.arrive("c", room="duel", seat=1)
        assert front.simulation.waiting == ["c"]
        await front.free(worker, 1)
        assert front.simulation.waiting == []
        assert await front.go("c")
        assert front.seated == [["a", "c", ""]]


async def test_clients_wait_for_the_session_that_starts_and_then_get_its_seats() -> None:
    async with seated_front() as front:
        await front.arrive("a", "b", "c")
        assert ([each.client for each in front.assigned], front.simulation.waiting) == (["a"], ["b", "c"])
        assert await front.go("a")
        assert (await front.go("b"), await front.go("c")) == (True, True)
        assert front.seated == [["a", "b", "c"]]


async def test_clients_whose_session_never_starts_begin_one_of_their_own() -> None:
    async with seated_front() as front:
        await front.arrive("a", "b")
        await front.wait(11.0)
        assert await front.go("b")
        assert front.seated == [["b", "", ""]]
        assert not await front.go("a")


async def test_a_seat_whose_client_does_not_come_is_given_to_another() -> None:
    async with seated_front() as front:
        await front.play("a")
        await front.arrive("b", seat=1)
        await front.arrive("c", room="", seat=1)
        # Another session has this seat too.
        assert front.assignment("c").worker != front.assignment("a").worker
        await front.wait(11.0)
        assert not await front.go("b")
        await front.play("d", seat=1)
        assert front.seated[0] == ["a", "d", ""]


async def test_one_who_leaves_frees_the_seat_and_the_others_play_on() -> None:
    async with seated_front(1) as front:
        worker = await front.play("a", "b", "c")
        await front.arrive("d")
        await front.free(worker, 0)
        assert await front.go("d")
        assert front.seated == [["d", "b", "c"]]


async def test_a_client_whose_connection_broke_is_first_for_the_next_seat() -> None:
    async with seated_front(1, TurnLimits(resume_grace_s=GRACE_S)) as front:
        worker = await front.play("a", "b", "c")
        returns = front.assignment("b").ticket.returns
        await front.arrive("d", "e")
        await front.free(worker, 1, is_broken=True)
        await front.arrive("b2", returning=returns)
        assert front.simulation.waiting == ["b2", "e"]


async def test_all_clients_of_a_lost_worker_return_before_the_others() -> None:
    async with seated_front(1) as front:
        worker = await front.play("a", "b", room="duel")
        returns = [front.assignment(name).ticket.returns for name in ("a", "b")]
        front.simulation.kill_worker(worker.id)
        await front.arrive("c")
        await front.arrive("a2", returning=returns[0], room="duel")
        await front.arrive("b2", returning=returns[1], room="duel")
        assert front.simulation.waiting == ["a2", "b2", "c"]
        await front.wait(LOAD_S + 1)
        assert await front.go("a2")
        assert await front.go("b2")
        assert ["a2", "b2", ""] in front.seated


async def test_a_client_that_comes_after_the_end_of_the_session_is_refused_and_returns_first() -> None:
    async with seated_front(1) as front:
        worker = await front.play("a")
        await front.arrive("b")
        worker.end()
        assert not await front.go("b")
        await front.arrive("c", "d")
        await front.arrive("b2", returning=front.assignment("b").ticket.returns)
        # The session of c starts.
        assert front.simulation.waiting == ["b2", "d"]


async def test_another_front_finds_the_seats_of_a_session() -> None:
    async with seated_front(1) as front:
        await front.play("a", "b", room="duel")
        await front.simulation.restart_front()
        await front.wait(1.0)
        await front.play("c", room="duel")
        assert front.seated == [["a", "b", "c"]]


async def test_another_front_keeps_the_seats_of_a_session_free_that_has_used_up_its_time() -> None:
    async with seated_front(1, TurnLimits(max_session_s=60.0)) as front:
        worker = await front.play("a", "b", room="duel")
        assert worker.session is not None
        worker.session = replace(worker.session, running_s=60.0)
        await front.simulation.restart_front()
        await front.wait(1.0)
        await front.arrive("c")
        await front.arrive("d", room="duel")
        assert front.simulation.waiting == ["c", "d"]
        # Another worker has started for c.
        await front.wait(LOAD_S)
        assert front.simulation.waiting == []


async def test_a_seat_is_offered_again_after_a_loss_of_contact() -> None:
    async with seated_front(1) as front:
        worker = await front.play("a", room="duel")
        worker.fall_silent()
        await front.arrive("b", room="duel")
        assert front.simulation.waiting == ["b"]
        worker.speak()
        await front.wait()
        assert await front.go("b")
        assert front.seated == [["a", "b", ""]]


async def test_as_many_workers_start_as_there_are_sessions_for_those_who_wait() -> None:
    async with seated_front(1) as front:
        await front.play("a", "b", "c")
        await front.arrive("d", "e")
        await front.wait(1.0)
        assert len(front.workers) == 2
        await front.arrive("x", "y", room="duel")
        await front.wait(1.0)
        assert len(front.workers) == 2
        assert front.simulation.waiting == ["d", "e", "x", "y"]


async def test_as_many_turns_of_a_worker_are_limited_as_clients_wait() -> None:
    async with seated_front(1, TurnLimits(max_session_s=60.0)) as front:
        worker = await front.play("a", "b", "c")
        await front.arrive("d", "e", seat=0)
        assert worker.limited_clients == ["a", "b"]
        await front.free(worker, 0)
        assert await front.go("d")
        assert worker.limited_clients == ["b"]


@pytest.mark.parametrize("is_lost", [False, True], ids=["answers", "lost"])
async def test_a_room_is_not_opened_again_while_another_front_waits_for_its_worker(is_lost: bool) -> None:
    async with seated_front() as front:
        worker = await front.play("a", room="duel")
        worker.fall_silent()
        await front.simulation.restart_front()
        await front.arrive("b", room="duel")
        assert front.simulation.waiting == ["b"]
        if is_lost:
            await front.wait(6.0)
        else:
            worker.speak()
            await front.wait()
        assert front.simulation.waiting == []
        assert (front.assignment("b").worker == worker.id) is not is_lost


async def test_the_turn_of_a_client_that_is_on_its_way_is_not_the_longest() -> None:
    async with seated_front(2, TurnLimits(max_session_s=60.0)) as front:
        longest = await front.play("a", "b", "c", room="one")
        other = await front.play("d", room="two")
        await front.arrive("e", room="two")
        await front.arrive("f", room="one")
        assert (front.assignment("e").worker, front.simulation.waiting) == (other.id, ["f"])
        assert (longest.limited_clients, other.limited_clients) == (["a"], [])


async def test_a_seat_that_another_client_has_is_not_offered_when_its_ticket_is_released() -> None:
    async with seated_front(1) as front:
        worker = await front.play("a", room="duel")
        await front.arrive("b", "c", room="duel", seat=1)
        worker.set_seat(1, SeatStatus("unknown", "d"))
        await front.wait()
        assert ([each.client for each in front.assigned], front.simulation.waiting) == (["a", "b"], ["c"])
        await front.free(worker, 1)
        assert await front.go("c")
        assert front.seated == [["a", "c", ""]]


async def test_no_client_is_sent_to_a_session_whose_model_is_ending() -> None:
    async with seated_front(1) as front:
        worker = await front.play("a")
        worker.is_ready = False
        worker.report()
        await front.wait()
        await front.arrive("b")
        assert [each.client for each in front.assigned] == ["a"]
        worker.end(reason="model_died")
        worker.load()
        await front.wait()
        assert await front.go("b")
        assert front.seated == [["b", "", ""]]


async def test_the_turn_of_a_client_that_resumes_with_another_ticket_stays_limited() -> None:
    async with seated_front(1, TurnLimits(max_session_s=60.0)) as front:
        worker = await front.play("a", "b", "c")
        await front.arrive("d")
        assert worker.session is not None
        worker.set_seat(0, replace(worker.session.seats[0], ticket="of a resume"))
        await front.wait()
        assert worker.limited_clients == ["a"]


async def test_the_turn_of_a_client_that_returns_to_its_seat_at_once_counts_for_its_address() -> None:
    async with seated_front(1) as front:
        worker = await front.play("a", "b")
        await front.arrive("a2", returning=front.assignment("a").ticket.returns, seat=0)
        await front.free(worker, 0, is_broken=True)
        assert await front.go("a2")
        assert front.seated == [["a2", "b", ""]]
        assert front.simulation.fleet.admission.wait_queue._turn_counts["127.0.0.1"] == 2


async def test_a_client_that_came_before_the_workers_had_loaded_is_refused_a_seat_that_there_is_not() -> None:
    front = SeatedFront(1, None)
    await front.arrive("a", seat=SEATS)
    await front.arrive("b", seat=SEATS - 1)
    clients = front.simulation.clients
    await front.wait(LOAD_S + 1)
    codes = {name: None if client.closing is None else client.closing.code for name, client in clients.items()}
    # One is refused, the other is sent to its worker.
    assert codes == {"a": CloseCode.BAD_REQUEST, "b": CloseCode.SESSION_OVER}
    assert [each.client for each in front.assigned] == ["b"]
    await front.simulation.end()
