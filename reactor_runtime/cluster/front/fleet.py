"""Runs the workers of a front: starts and releases them according to a plan, and removes those that have gone.

Their slots are in `worker_slot.py`. The placement decides where they run.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
import math
import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from starlette.routing import BaseRoute

from reactor_runtime.clock import Alarm
from reactor_runtime.cluster.front.access import WorkerAccess
from reactor_runtime.cluster.front.link import WorkerLink
from reactor_runtime.cluster.front.lost_sessions import LostSessions
from reactor_runtime.cluster.front.remote_worker import LOST_AFTER_S, ControlLink, RemoteWorker
from reactor_runtime.cluster.front.scaling import Scaling, make_plan
from reactor_runtime.cluster.front.starts import WorkerStarts
from reactor_runtime.cluster.front.takeover import Takeover
from reactor_runtime.cluster.front.waiting_router import WaitingRouter
from reactor_runtime.cluster.front.worker_metrics import worker_metrics_routes
from reactor_runtime.cluster.front.worker_session import WorkerSeat
from reactor_runtime.cluster.front.worker_slot import WorkerSlot
from reactor_runtime.cluster.front.worker_uploads import worker_uploads_route
from reactor_runtime.cluster.messages import Drain, FrontIdentity, Stop
from reactor_runtime.cluster.placement.placement import (
    Placement,
    PlacementConnected,
    PlacementEvent,
    PlacementLost,
    PlacementRestored,
    WorkerGone,
    WorkerPending,
    WorkerPlaced,
)
from reactor_runtime.cluster.tickets import TicketIssuer
from reactor_runtime.server.delivery.client import Client
from reactor_runtime.server.options import LoadingProgress, Operator, ServerReady, ServerStatistics
from reactor_runtime.server.sessions.admission import Admission, Loss
from reactor_runtime.server.sessions.slot import SlotSettings

logger = logging.getLogger(__name__)

PLAN_S = 0.2
CONNECTING = "connecting to the cluster"


@dataclass(frozen=True, slots=True)
class _Contact:
    """Hold what a front knows since its first contact with the scheduler."""

    tickets: TicketIssuer
    takeover: Takeover


def _known(contact: _Contact | None) -> _Contact:
    assert contact is not None, "there are workers and plans only after the contact with the scheduler"
    return contact


class WorkerFleet:
    """Run the workers of a front, as its backend; use on the server's loop."""

    reloads = False

    def __init__(
        self,
        settings: SlotSettings,
        operator: Operator,
        *,
        placement: Placement,
        scaling: Scaling,
        front: FrontIdentity,
        build: str,
        make_tickets: Callable[[str], TicketIssuer],
        relays_all: bool = False,
        make_link: Callable[..., ControlLink] = WorkerLink,
    ) -> None:
        # For controllers that come back and wait before all others.
        self._lost = LostSessions()
        # Rings when a plan may have other workers than before.
        self._changed = Alarm(settings.clock)
        self.admission = Admission[WorkerSlot](
            settings,
            on_slot_ready=self._slot_ready,
            claim_loss=self._claim_loss,
            on_change=self._changed.ring,
            more_slots=self._more_slots,
            unknown_slots=lambda: "" if self._contact and self._contact.takeover.is_complete else CONNECTING,
        )
        self.inbound = WaitingRouter(self.admission)
        self._settings = settings
        self._operator = operator
        self._placement = placement
        self._scaling = scaling
        self._front = front
        # The hash of the project and its options; a worker of another build is replaced.
        self._build = build
        self._make_tickets = make_tickets
        # None until there is contact with the scheduler.
        self._contact: _Contact | None = None
        # For the time of waiting for contact.
        self._began = settings.clock.now()
        self._relays_all = relays_all
        self._make_link = make_link
        self._workers: dict[str, RemoteWorker] = {}
        # The ids of the workers that have loaded the model.
        self._loaded: set[str] = set()
        # The numbers of slots of workers that have gone, as a heap; a new worker gets the lowest.
        self._unused_numbers: list[int] = []
        self._numbers = itertools.count(1)
        self._starts = WorkerStarts()
        # Workers may end: no plan is made, and no end is reported.
        self._stopping = False
        # The contact with the scheduler is lost.
        self._is_cut_off = False
        # No link to a worker is made any more.
        self._is_closing = False

    def routes(self) -> list[BaseRoute]:
        metrics = worker_metrics_routes(self._workers)
        return [*metrics, worker_uploads_route(self._workers)]

    def statistics(self) -> ServerStatistics:
        """Return the statistics of all workers together."""
        slots = list(self.admission.slots)
        statuses = [slot.status for slot in slots if slot.status is not None]
        rates = [status.fps for status in statuses if status.fps is not None]
        reports = [worker.engine.status for worker in self._staying]
        memory = [each.memory_bytes for each in reports if each is not None and each.memory_bytes is not None]
        waited_s = self._settings.clock.now() - self._began
        return ServerStatistics(
            loading=LoadingProgress(waited_s, CONNECTING) if self._contact is None else None,
            fps=sum(rates) / len(rates) if rates else None,
            step_ms=None,
            late_ms=max((status.late_ms for status in statuses if status.late_ms is not None), default=None),
            # The workers count those that are relayed to them.
            clients=sum(client.upstream is None for client in self.admission.all_clients())
            + sum(status.clients for status in statuses),
            sessions=sum(slot.session is not None for slot in slots),
            slots=len(slots),
            session="",
            session_s=0.0,
            memory_bytes=sum(memory) if memory else None,
        )

    async def run(self) -> None:
        clock = self._settings.clock
        placing = asyncio.create_task(self._placement.run(self._handle_event))
        placing.add_done_callback(lambda _: self._changed.ring())
        try:
            while self._contact is None and not placing.done():
                await self._changed.wait(None)
            while not placing.done():
                check_at = self._apply_plan()
                # A plan looks at each worker, and workers report all the time.
                await Alarm(clock).wait(clock.now() + PLAN_S)
                await self._changed.wait(check_at)
            placing.result()
        finally:
            placing.cancel()
            await asyncio.gather(placing, return_exceptions=True)

    def reload(self) -> None:
        """Do nothing: a cluster does not reload."""

    def expect_end(self) -> None:
        self._stopping = True

    def drain(self) -> None:
        """Start no worker, and end each with its last session."""
        self._stopping = True
        for worker in self._workers.values():
            if not worker.engine.is_draining:
                worker.send(Drain())

    async def stop(self) -> None:
        """Stop all workers, and remove what was placed; leave workers that another front has."""
        self._is_closing = True
        if self._contact is not None and self._contact.takeover.other is not None:
            for worker in self._workers.values():
                worker.leave()
            self._placement.kill()
            return
        for worker in self._workers.values():
            worker.send(Stop())
        await asyncio.gather(*(worker.aclose() for worker in self._workers.values()))
        await self._placement.aclose()

    def kill(self) -> None:
        self._placement.kill()

    async def aclose(self) -> None:
        """Do nothing: `stop` has freed everything."""

    def _apply_plan(self) -> float | None:
        """Start and release workers according to the plan; return when to check again.

        Raises LoadError if none can start, and UsageError if there is another front.
        """
        contact = _known(self._contact)
        takeover = contact.takeover
        takeover.raise_failure(contact.tickets.cluster)
        now = self._settings.clock.now()
        check_at = self._give_up_silent(now)
        if self._stopping or not takeover.is_complete:
            return check_at
        self._stop_outdated()
        if not any(worker.has_session for worker in self._workers.values()):
            # Otherwise a version that can't be loaded would end the sessions of the one before.
            self._starts.raise_failure()
        # Those that were released may take a while to end.
        states = [worker.state for worker in self._staying if not worker.engine.is_draining]
        plan = make_plan(self._scaling, states, self._wanted_sessions(), now, each=self._sessions_each)
        for id in plan.release:
            logger.info("worker released worker=%s", id)
            self._starts.forget(id)
            self._withdraw(self._workers[id])
            self._workers[id].send(Stop())
            self._placement.stop(id)
        times = [at for at in (plan.check_at, check_at) if at is not None]
        if plan.start and now < self._starts.retry_at:
            times.append(self._starts.retry_at)
        else:
            for _ in range(plan.start):
                worker = self._add(f"w-{secrets.token_hex(4)}", is_requested=True)
                worker.engine.mark_unavailable("waits for a place in the cluster")
                self._starts.begin(worker.id)
                self._placement.start(worker.id)
        return min(times, default=None)

    def _wanted_sessions(self) -> int:
        """Return how many more sessions the controllers that wait need: one for each, or one for each room."""
        slots, waiting = self.admission.slots, self.admission.wait_queue.waiting
        seats = slots.seats or 1
        if seats == 1:
            return len(waiting)
        rooms = Counter(each.room for each in waiting if not (slots.find_session(each.room) or slots.starts_for(each)))
        return math.ceil(rooms.pop("", 0) / seats) + len(rooms)

    def _stop_outdated(self) -> None:
        """Stop the workers of another build that have no session, again until they have ended."""
        for worker in self._workers.values():
            if worker.is_outdated and not worker.has_session:
                self._withdraw(worker)
                worker.send(Stop())

    def _give_up_silent(self, now: float) -> float | None:
        """Kill workers that have sent nothing for too long; return when to check again."""
        for worker in list(self._workers.values()):
            if worker.lost_at is not None and now >= worker.lost_at:
                self._placement.stop(worker.id)
                reason = f"there was no contact with the worker for {LOST_AFTER_S:.0f} s"
                self._starts.record_failure(worker.id, f"{reason}: {worker.no_contact}", now)
                self._remove(worker.id, reason)
        return min((worker.lost_at for worker in self._workers.values() if worker.lost_at is not None), default=None)

    def _add(self, id: str, *, is_requested: bool = False) -> RemoteWorker:
        contact = _known(self._contact)
        worker = self._workers[id] = RemoteWorker(
            id,
            access=WorkerAccess(id, contact.tickets, relays_all=self._relays_all),
            secret=contact.tickets.secret,
            front=self._front,
            build=self._build,
            settings=self._settings,
            callbacks=self.admission.slot_callbacks,
            on_seat_lost=self._seat_lost,
            on_viewers_lost=self.admission.assignment.reassign,
            on_change=self._changed.ring,
            takeover=contact.takeover,
            next_number=self._next_number,
            on_slot=self._slot_added,
            make_link=self._make_link,
            is_requested=is_requested,
        )
        self.admission.slots.add(worker.slots[0])
        return worker

    def _next_number(self) -> int:
        return heapq.heappop(self._unused_numbers) if self._unused_numbers else next(self._numbers)

    def _slot_added(self, slot: WorkerSlot) -> None:
        worker = self._workers.get(slot.worker)
        # One that was released may still report more slots.
        if worker is not None and worker.slots[0] in self.admission.slots:
            self.admission.slots.add(slot)

    def _withdraw(self, worker: RemoteWorker) -> None:
        """Assign no client to a worker any more; may be called twice."""
        for slot in worker.slots:
            if slot in self.admission.slots:
                self.admission.slots.remove(slot)

    @property
    def _staying(self) -> list[RemoteWorker]:
        """Return the workers that were not released."""
        return [worker for worker in self._workers.values() if worker.slots[0] in self.admission.slots]

    @property
    def _sessions_each(self) -> int:
        """Return how many sessions a worker is expected to serve."""
        loaded = (worker.engine.capacity for worker in self._workers.values() if worker.engine.is_loaded)
        return max(loaded, default=max(1, self._settings.options.sessions_per_model))

    def _more_slots(self) -> int:
        """Return how many slots the workers can have that may still be started."""
        return max(0, self._scaling.most - len(self._staying)) * self._sessions_each

    def _remove(self, id: str, reason: str) -> None:
        worker = self._workers.pop(id, None)
        self._loaded.discard(id)
        _known(self._contact).takeover.record_contact(id)
        if worker is None:
            return
        for slot in worker.slots:
            heapq.heappush(self._unused_numbers, slot.number)
        if worker.slots[0] in self.admission.slots:
            self._withdraw(worker)
            if not self._stopping:
                self._settings.metrics.workers_lost += 1
                node = f" node={worker.node}" if worker.node else ""
                logger.warning("worker gone worker=%s%s: %s", id, node, reason)
        self._starts.forget(id)
        worker.lose(reason)

    def _handle_event(self, event: PlacementEvent) -> None:
        match event:
            case PlacementConnected():
                takeover = Takeover(event.workers, on_complete=self.admission.on_slots_known)
                self._contact = _Contact(self._make_tickets(event.secret), takeover)
                for id in event.workers:
                    self._add(id).engine.mark_unavailable("no contact with the worker yet")
            case WorkerPending():
                _known(self._contact).takeover.record_contact(event.worker)
                if (worker := self._workers.get(event.worker)) is not None:
                    worker.engine.mark_unavailable(event.reason)
            case WorkerPlaced():
                # Workers of a front before this one are reported too.
                worker = self._workers.get(event.worker) or self._add(event.worker)
                if not self._is_closing:
                    # Otherwise nothing would close the link.
                    worker.connect(event)
            case WorkerGone():
                self._starts.record_failure(event.worker, event.reason, self._settings.clock.now())
                self._remove(event.worker, event.reason)
            case PlacementLost():
                # It is reported again when the driver has ended.
                if not self._is_cut_off:
                    logger.warning("no contact with the cluster, its workers continue: %s", event.reason)
                self._is_cut_off = True
            case PlacementRestored():
                self._is_cut_off = False
                logger.info("contact with the cluster again")
                self._remove_unknown(event.workers)
        self._changed.ring()

    def _remove_unknown(self, known: Sequence[str]) -> None:
        """Remove workers whose start was lost with the contact, and stop again those that were released meanwhile."""
        for worker in list(self._workers.values()):
            if worker.id not in known and not worker.is_placed:
                self._remove(worker.id, "it was not started while there was no contact with the cluster")
            elif worker.slots[0] not in self.admission.slots:
                self._placement.stop(worker.id)

    def _slot_ready(self, slot: WorkerSlot, load_s: float) -> None:
        worker = self._workers[slot.worker]
        if worker.is_outdated:
            return
        self._starts.record_success(worker.id)
        self._loaded.add(worker.id)
        staying = [each.id for each in self._staying if not each.engine.is_draining]
        ready = len(self._loaded.intersection(staying))
        self._operator.on_ready(ServerReady(load_s, ready, len(staying), worker.node, len(worker.slots)))

    def _claim_loss(self, client: Client, secret: str) -> Loss | None:
        """Return how the client with this secret has lost its session, once; None if it has not, as far as is known."""
        ticket = "" if self._contact is None else self._contact.tickets.read_return(secret)
        if not ticket:
            return None
        slots = (slot for worker in self._workers.values() for slot in worker.slots)
        losses = (slot.claim_loss(ticket, client) for slot in slots)
        return self._lost.take(ticket, self._settings.clock.now()) or next(filter(None, losses), None)

    def _seat_lost(self, seat: WorkerSeat, controller: Client | None, loss: Loss) -> None:
        """Put the controller of a lost seat first in the wait queue: now, or when it comes with its secret."""
        if controller is None and seat.claimant in self.admission.wait_queue.waiting:
            controller = seat.claimant
        if controller is None:
            limits, contract = self._settings.options.limits, self.admission.slots.contract
            follows = contract is not None and contract.get("follows_clients", False)
            grace_s = max(limits.resume_grace_s, limits.outlives_s if follows else 0.0)
            self._lost.add(seat.tickets, loss, self._settings.clock.now(), grace_s)
        else:
            self.admission.return_to_queue(controller, loss)
