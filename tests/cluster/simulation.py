"""The front with its real admission and fleet, and simulated machines, workers and clients; time is a fake clock's."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from reactor_runtime.cluster.front.fleet import WorkerFleet
from reactor_runtime.cluster.front.scaling import Scaling
from reactor_runtime.cluster.messages import (
    Abort,
    FrontIdentity,
    LimitTurns,
    Release,
    SeatStatus,
    SessionStatus,
    SlotStatus,
    Stop,
    ToWorker,
    WorkerStatus,
)
from reactor_runtime.cluster.placement.placement import PlacementConnected, PlacementEvent, WorkerGone, WorkerPlaced
from reactor_runtime.cluster.tickets import IssuedTicket, TicketGate, TicketIssuer, TicketRefused
from reactor_runtime.manifest import Manifest
from reactor_runtime.server.delivery.client import Client, Role
from reactor_runtime.server.options import (
    LoadingProgress,
    ReloadReport,
    ServeOptions,
    ServerListening,
    ServerReady,
    ServerStatistics,
    TurnLimits,
)
from reactor_runtime.server.sessions.slot import SessionEnd, SlotSettings
from tests.fakes import FakeClock

SECRET, CLUSTER = "5" * 64, "test"
MANIFEST = Manifest(Path("/my-model"), "pipeline:MyModel", "pipeline", "MyModel", "my-model", None)
STOP_S = 1.0
FREE = SeatStatus(is_free=True)
EMPTY = SlotStatus(
    session=None,
    ended=SessionEnd("", "", is_broken=False),
    clients=0,
    viewers=0,
    fps=None,
    age_ms=None,
    late_ms=None,
)
STATUS = WorkerStatus(
    build="",
    phase="loading",
    detail="",
    progress=None,
    loading_s=0.0,
    failed_loads=0,
    slots=(EMPTY,),
    fitting=1,
    limit="",
    released=(),
    draining=False,
    gpu="",
    memory_bytes=None,
    uptime_s=None,
)


class SilentOperator:
    def __init__(self) -> None:
        self.loads: list[ServerReady] = []

    def on_listening(self, listening: ServerListening) -> None: ...

    def on_loading(self, loading: LoadingProgress) -> None: ...

    def on_ready(self, ready: ServerReady) -> None:
        self.loads.append(ready)

    def on_reload(self, report: ReloadReport) -> None: ...

    def on_tick(self, statistics: Callable[[], ServerStatistics]) -> None: ...

    def on_exit(self) -> None: ...


class SimulatedWorker:
    """A worker with its real tickets, and its link to a front.

    It has so many slots when it is loaded, of which `fitting` fit, and its sessions have so many `seats`. `session` is
    that of the slot `place`.

    `report` sends its status, unless it is silent. What either side sends arrives by `deliver`, unless the link has
    broken or another front has connected meanwhile.
    """

    def __init__(
        self,
        id: str,
        node: str,
        build: str,
        *,
        seats: int,
        slots: int,
        now: Callable[[], float],
        deliver: Callable[[Callable[[], None]], None],
        on_stop: Callable[[], None],
    ) -> None:
        self.id = id
        self.build = build
        self.node = node
        self.seats = seats
        self.is_ready = False
        self.slots = [EMPTY] * slots
        self.fitting = slots
        self.place = 1
        self.has_gone = False
        self.is_silent = False
        self.is_draining = False
        self.limited: tuple[str, ...] = ()
        self.tickets = TicketGate(SECRET, CLUSTER, id)
        self.link: SimulatedLink | None = None
        self._now = now
        self._deliver = deliver
        self._on_stop = on_stop
        self._connection = 0

    @property
    def session(self) -> SessionStatus | None:
        return self.slots[self.place - 1].session

    @session.setter
    def session(self, session: SessionStatus | None) -> None:
        self.slots[self.place - 1] = replace(self.slots[self.place - 1], session=session)

    @property
    def sessions(self) -> list[SessionStatus]:
        """Return the sessions of all slots."""
        return [slot.session for slot in self.slots if slot.session is not None]

    @property
    def limited_clients(self) -> list[str]:
        """Return the controllers whose turns are limited."""
        seats = [seat for session in self.sessions for seat in session.seats]
        return [seat.client for seat in seats if not seat.is_free and seat.ticket in self.limited]

    def connect(self, link: SimulatedLink) -> None:
        """Serve another front from now on."""
        self.link = link
        self._connection += 1
        if self.is_silent:
            link.on_broken("the worker can't be reached")
        else:
            self.speak()

    def report(self) -> None:
        link = self.link
        if link is None:
            return
        phase = "ready" if self.is_ready else "loading"
        status = replace(
            STATUS,
            build=self.build,
            phase=phase,
            slots=tuple(self.slots if self.is_ready else self.slots[:1]),
            fitting=self.fitting,
            released=self.tickets.released(self._now()),
            draining=self.is_draining,
        )
        self.pass_on(lambda: link.on_status(status))

    def load(self) -> None:
        self.is_ready = True
        self.report()

    def begin(self, ticket: str, *, fails: bool = False) -> bool:
        """Serve the client that comes with a ticket; return False if it is refused."""
        assert self.is_ready
        try:
            admitted = self.tickets.admit(ticket, self._now())
        except TicketRefused:
            return False
        self.place = admitted.slot
        seat = SeatStatus(admitted.id, admitted.client, turn_s=admitted.used_s)
        if admitted.session:
            if self.session is None or self.session.id != admitted.session:
                return False
            assert self.session.seats[admitted.seat].is_free, "two clients have one seat"
            assert admitted.room == self.session.room
            self.set_seat(admitted.seat, seat)
            return True
        assert self.session is None, "two clients have one slot"
        seats = tuple(seat if number == admitted.seat else FREE for number in range(self.seats))
        room = (admitted.room or f"r{admitted.client}") if self.seats > 1 else ""
        is_private = bool(admitted.room)
        for phase in ("starting",) if fails else ("starting", "running"):
            self.session = SessionStatus(f"s-{admitted.id}", phase, 0.0, seats, room=room, is_private=is_private)
            self.report()
        if fails:
            self.end()
        return True

    @property
    def ticket(self) -> str:
        """Return the id of the ticket of the first controller; "" without a session."""
        return "" if self.session is None else self.session.seats[0].ticket

    def set_seat(self, number: int, seat: SeatStatus) -> None:
        """Change who has a seat."""
        assert self.session is not None
        seats = (*self.session.seats[:number], seat, *self.session.seats[number + 1 :])
        self.session = replace(self.session, seats=seats)
        self.report()

    def free_seat(self, number: int, *, is_broken: bool = False) -> None:
        """Free a seat that its controller has left, or lost with the connection; end the session without others."""
        assert self.session is not None
        if any(not seat.is_free for seat in self.session.seats if seat is not self.session.seats[number]):
            self.set_seat(number, replace(self.session.seats[number], is_free=True, is_broken=is_broken))
        else:
            self.end(is_broken=is_broken)

    def would_admit(self, ticket: str) -> bool:
        """Return whether the gate would admit a client with a ticket now."""
        with contextlib.suppress(TicketRefused):
            deepcopy(self.tickets).admit(ticket, self._now())
            return True
        return False

    def end(self, *, is_broken: bool = False, reason: str = "left") -> None:
        """End the session because its controller has left, or has lost the connection."""
        assert self.session is not None
        self.slots[self.place - 1] = replace(EMPTY, ended=SessionEnd(self.session.id, reason, is_broken))
        self.report()

    @property
    def vacancy(self) -> int:
        seat = FREE if self.session is None else self.session.seats[0]
        return seat.vacancies if seat.is_free else 0

    def vacate(self, *, is_broken: bool = False) -> None:
        """Go on with the session, which its controller has left, or lost with the connection."""
        assert self.session is not None
        seat = self.session.seats[0]
        self.set_seat(0, replace(seat, is_free=True, vacancies=1, is_broken=is_broken, resume="secret"))

    def resume(self, ticket: str) -> bool:
        """Serve the controller that comes back with a ticket; return False if it is refused."""
        assert self.session is not None
        try:
            admitted = self.tickets.admit(ticket, self._now())
        except TicketRefused:
            return False
        self.set_seat(0, SeatStatus(admitted.id, admitted.client, "secret", vacancies=1))
        return True

    def fall_silent(self) -> None:
        self.is_silent = True
        self._connection += 1
        if self.link is not None:
            self.link.on_broken("nothing was said for 3 s")

    def speak(self) -> None:
        assert self.link is not None
        self.is_silent = False
        self.tickets.front = self.link.front
        self.report()

    def pass_on(self, arrive: Callable[[], None]) -> None:
        connection = self._connection
        if not self.is_silent:
            self._deliver(lambda: arrive() if connection == self._connection and not self.has_gone else None)

    def obey(self, message: ToWorker) -> None:
        match message:
            case Release(ticket):
                self._release(ticket)
            case LimitTurns(tickets):
                self.limited = tickets
            case Stop() | Abort():
                self._on_stop()

    def _release(self, ticket: str) -> None:
        self.tickets.release(ticket, self._now())
        for place in range(1, len(self.slots) + 1):
            self.place = place
            seats = () if self.session is None else self.session.seats
            for number, seat in enumerate(seats):
                if seat.ticket == ticket and not (seat.is_free and len(seats) > 1):
                    self.free_seat(number)
        self.place = 1
        self.report()


@dataclass(frozen=True)
class SimulatedLink:
    """The link of one front to a worker; its orders are lost when another front has the worker."""

    worker: SimulatedWorker
    front: str
    on_status: Callable[[WorkerStatus], None]
    on_broken: Callable[[str], None]

    def send(self, message: ToWorker) -> None:
        if self.worker.link is self:
            self.worker.pass_on(lambda: self.worker.obey(message))

    def close(self) -> None: ...

    async def aclose(self) -> None: ...


@dataclass(frozen=True)
class Assignment:
    """A worker that the front has assigned to a client."""

    client: str
    worker: str
    ticket: IssuedTicket


class RecordingIssuer(TicketIssuer):
    """Record each ticket; the id of a client is its name here."""

    def __init__(self, front: str, on_assigned: Callable[[Assignment], None], clock: FakeClock) -> None:
        super().__init__(SECRET, CLUSTER, front)
        self._on_assigned = on_assigned
        self._clock = clock

    def issue(self, worker: str, **of_ticket: Any) -> IssuedTicket:
        ticket = super().issue(worker, **{**of_ticket, "now": self._clock.now()})
        self._on_assigned(Assignment(of_ticket["client"], worker, ticket))
        return ticket


class Simulation:
    """A front on machines with `slots` places each, and its placement.

    A worker has `each` slots for sessions with so many `seats`. It is ready `load_s` after its start, and a message
    between it and the front takes `delay_s`. `on_assigned` is called when a client gets a worker, and `on_stop` before
    the front stops one. Events of the simulation are called in the order of their times, which `run_until` passes.
    """

    def __init__(
        self,
        *,
        nodes: int,
        slots: int,
        scaling: Scaling,
        max_waiting: int = 100_000,
        load_s: float = 20.0,
        limits: TurnLimits | None = None,
        seats: int = 1,
        each: int = 1,
        on_assigned: Callable[[Assignment], None],
        on_stop: Callable[[SimulatedWorker], None] = lambda _: None,
    ) -> None:
        self.clock = FakeClock()
        self.delay_s = 0.0
        self.build = ""
        self.found: tuple[str, ...] = ()
        self.workers: dict[str, SimulatedWorker] = {}
        self.pending: list[str] = []
        self.free = {f"n-{number}": slots for number in range(nodes)}
        self.clients: dict[str, Client] = {}
        self.operator = SilentOperator()
        self._seats, self._each = seats, each
        self._on_stop = on_stop
        self._load_s = load_s
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._on_event: Callable[[PlacementEvent], None] = lambda _: None
        self._on_assigned = on_assigned
        self._scaling = scaling
        self._options = ServeOptions(
            manifest=MANIFEST, config={}, max_waiting=max_waiting, limits=limits or TurnLimits()
        )
        self._fronts = itertools.count(1)
        self._start_front()

    def _start_front(self) -> None:
        id = f"f-{next(self._fronts)}"
        self.fleet = WorkerFleet(
            SlotSettings(options=self._options, clock=self.clock),
            self.operator,
            placement=self,
            scaling=self._scaling,
            front=FrontIdentity(id, "here", 1, 0.0),
            build=self.build,
            make_tickets=lambda _: RecordingIssuer(id, self._on_assigned, self.clock),
            make_link=self._link,
        )
        self._running = asyncio.create_task(self.fleet.run())

    async def restart_front(self, build: str = "") -> None:
        """End the front as a crash does, with its connections, and start another one, with a build for its workers."""
        self.build = build
        await self.end()
        self.clients.clear()
        self.found = tuple(self.workers)
        self._start_front()

    @property
    def waiting(self) -> list[str]:
        return [client.id for client in self.fleet.admission.wait_queue.waiting]

    def arrive(self, name: str, *, resume: str = "", returning: str = "", **of_client: Any) -> None:
        """Connect a controller to the front."""
        options = self.fleet.admission.settings.client_options
        client = self.clients[name] = Client(
            Role.CONTROLLER, "127.0.0.1", options, **{"follows_redirects": True, "id": name, **of_client}
        )
        self.fleet.admission.attach(client, resume, returning=returning)

    def leave(self, name: str) -> None:
        """Close the connection of a client to the front."""
        if (client := self.clients.pop(name, None)) is not None:
            self.fleet.admission.detach(client)

    def at(self, time: float, callback: Callable[[], None]) -> None:
        heapq.heappush(self._events, (time, next(self._order), callback))

    async def run_until(self, end: float) -> None:
        """Pass time; the fleet has time to react between events."""
        await self._react()
        while min(due := self._events[0][0] if self._events else math.inf, timer := self._next_timer) <= end:
            if timer <= due:
                self.clock.call_next()
            else:
                _, _, callback = heapq.heappop(self._events)
                self.clock.move_to(due)
                callback()
            await self._react()
        self.clock.move_to(end)

    async def end(self) -> None:
        """Stop the front; raise why it has ended if it has."""
        self._running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._running

    def start(self, worker: str) -> None:
        self.pending.append(worker)
        self.at(self.clock.now(), self._place)

    def stop(self, worker: str) -> None:
        if worker in self.pending:
            self.pending.remove(worker)
            self.at(self.clock.now() + STOP_S, lambda: self._on_event(WorkerGone(worker, "it was stopped")))
        elif (stopped := self.workers.get(worker)) is not None:
            self._on_stop(stopped)
            self._free(stopped)
            self.at(self.clock.now() + STOP_S, lambda: self._on_event(WorkerGone(worker, "it was stopped")))

    async def run(self, on_event: Callable[[PlacementEvent], None]) -> None:
        self._on_event = on_event
        on_event(PlacementConnected(self.found, SECRET))
        for worker in list(self.workers.values()):
            self._report_place(worker)
        await asyncio.Event().wait()

    async def aclose(self) -> None: ...

    def kill(self) -> None: ...

    def report(self, event: PlacementEvent) -> None:
        """Report an event to the front as the scheduler does."""
        self._on_event(event)

    def kill_worker(self, worker: str) -> None:
        """End a worker as a crash does; the scheduler notices at once."""
        self._free(self.workers[worker])
        self._on_event(WorkerGone(worker, "it was killed"))

    def kill_node(self, node: str) -> list[str]:
        """End all workers of a machine, which comes back at once; return their ids."""
        killed = [worker.id for worker in self.workers.values() if worker.node == node]
        for worker in killed:
            self.kill_worker(worker)
        return killed

    def _place(self) -> None:
        for node in self.free:
            while self.pending and self.free[node]:
                self.free[node] -= 1
                id = self.pending.pop(0)
                self.workers[id] = SimulatedWorker(
                    id,
                    node,
                    self.build,
                    seats=self._seats,
                    slots=self._each,
                    now=self.clock.now,
                    deliver=self._deliver,
                    on_stop=partial(self._stop_orderly, id),
                )
                self._report_place(self.workers[id])

    def _stop_orderly(self, worker: str) -> None:
        self._on_stop(self.workers[worker])
        self.kill_worker(worker)

    def _report_place(self, worker: SimulatedWorker) -> None:
        url = f"http://{worker.id}"
        self._on_event(WorkerPlaced(worker.id, url, url, worker.node))

    def _link(self, url: str, _secret: str, front: FrontIdentity, **callbacks: Any) -> SimulatedLink:
        worker = self.workers[url.removeprefix("http://")]
        link = SimulatedLink(worker, front.id, callbacks["on_status"], callbacks["on_broken"])
        callbacks["on_contract"]({"seats": self._seats, "tracks": [], "schema": {}})
        if worker.link is None:
            self.at(self.clock.now() + self._load_s, lambda: None if worker.has_gone else worker.load())
        self.at(self.clock.now(), lambda: worker.connect(link))
        return link

    def _deliver(self, arrive: Callable[[], None]) -> None:
        self.at(self.clock.now() + self.delay_s, arrive)

    def _free(self, worker: SimulatedWorker) -> None:
        worker.has_gone = True
        del self.workers[worker.id]
        self.free[worker.node] += 1
        self.at(self.clock.now(), self._place)

    @property
    def _next_timer(self) -> float:
        upcoming = self.clock.upcoming
        return math.inf if upcoming is None else upcoming

    async def _react(self) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
