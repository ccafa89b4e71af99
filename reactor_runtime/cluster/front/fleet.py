"""The workers of a front: starts and releases them as the plan says, and follows each until it has gone.

What a slot is to admission is in `worker_slot.py`. Where workers run is left to the placement.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from starlette.routing import BaseRoute

from reactor_runtime.clock import Alarm
from reactor_runtime.cluster.link import WorkerLink
from reactor_runtime.cluster.messages import Drain, Stop, ToWorker, WorkerStatus
from reactor_runtime.cluster.placement import (
    Placement,
    PlacementEvent,
    PlacementLost,
    PlacementRestored,
    WorkerGone,
    WorkerPending,
    WorkerPlaced,
)
from reactor_runtime.cluster.scaling import Scaling, WorkerState, make_plan
from reactor_runtime.cluster.tickets import IssuedTicket, TicketIssuer, TicketRefused
from reactor_runtime.cluster.waiting_router import WaitingRouter
from reactor_runtime.cluster.worker_slot import FleetCallbacks, WorkerSlot
from reactor_runtime.errors import LoadError
from reactor_runtime.server.delivery.client import Client, Role
from reactor_runtime.server.options import Operator, ServerReady, ServerStatistics
from reactor_runtime.server.sessions.admission import Admission
from reactor_runtime.server.sessions.slot import SlotSettings
from reactor_runtime.server.workers.engine import EnginePhase

logger = logging.getLogger(__name__)

# A worker that says nothing for so long is given up, and its process killed.
LOST_AFTER_S = 5.0
# Workers that end before they were ready are started again after these waits; the last one repeats.
RETRY_S = (0.0, 1.0, 5.0, 15.0, 30.0)
MOST_FAILED_STARTS = 3
MOST_LOST = 10_000


@dataclass(slots=True)
class _Worker:
    slot: WorkerSlot
    link: WorkerLink | None = None
    was_ready: bool = False
    silent_since: float | None = None


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
        tickets: TicketIssuer,
        relays_all: bool = False,
    ) -> None:
        self.admission = Admission[WorkerSlot](
            settings, on_slot_ready=self._on_ready, why_lost=self._why_lost, on_change=self._on_change
        )
        self.inbound = WaitingRouter(self.admission)
        self._settings = settings
        self._clock = settings.clock
        self._operator = operator
        self._placement = placement
        self._scaling = scaling
        self._tickets = tickets
        self._relays_all = relays_all
        self._workers: dict[str, _Worker] = {}
        self._numbers = 0
        self._lost: OrderedDict[str, str] = OrderedDict()
        self._failed_starts = 0
        self._start_after = 0.0
        self._has_been_ready = False
        self._failure: LoadError | None = None
        self._stopping = False
        self._changed = Alarm(self._clock)

    def routes(self) -> list[BaseRoute]:
        return []

    def statistics(self) -> ServerStatistics:
        """Return the statistics of all workers together."""
        statuses = [worker.slot.status for worker in self._workers.values() if worker.slot.status is not None]
        rates = [status.fps for status in statuses if status.fps is not None]
        memory = [status.memory_bytes for status in statuses if status.memory_bytes is not None]
        sessions = sum(worker.slot.session is not None for worker in self._workers.values())
        return ServerStatistics(
            loading=None,
            fps=sum(rates) / len(rates) if rates else None,
            step_ms=None,
            late_ms=None,
            clients=len(self.admission.all_clients()) + sum(status.clients for status in statuses),
            sessions=sessions,
            slots=len(self._workers),
            session="",
            session_s=0.0,
            memory_bytes=sum(memory) if memory else None,
        )

    async def run(self) -> None:
        placing = asyncio.create_task(self._placement.run(self._on_event))
        try:
            while not placing.done():
                check_at = self._apply_plan()
                if self._failure is not None:
                    raise self._failure
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
        """Start no worker, and let each end with its session."""
        self._stopping = True
        for worker in self._workers.values():
            if worker.link is not None:
                worker.link.send(Drain())

    async def stop(self) -> None:
        """Stop all workers, and remove what was placed."""
        for worker in self._workers.values():
            if worker.link is not None:
                worker.link.send(Stop())
        await self._placement.aclose(leave_workers=False)
        await asyncio.gather(*(worker.link.aclose() for worker in self._workers.values() if worker.link is not None))

    def kill(self) -> None:
        self._placement.kill()

    async def aclose(self) -> None:
        """Do nothing: `stop` has freed everything."""

    def _apply_plan(self) -> float | None:
        """Start and release workers as the plan says; return when to look again."""
        now = self._clock.now()
        gone_at = self._give_up_silent(now)
        if self._stopping:
            return gone_at
        waiting = len(self.admission.wait_queue.waiting)
        plan = make_plan(self._scaling, [self._state(worker) for worker in self._workers.values()], waiting, now)
        for worker in plan.release:
            self._release(worker)
        times = [at for at in (plan.check_at, gone_at) if at is not None]
        if plan.start and now < self._start_after:
            times.append(self._start_after)
        else:
            for _ in range(plan.start):
                self._start()
        return min(times, default=None)

    def _state(self, worker: _Worker) -> WorkerState:
        slot = worker.slot
        is_idle = slot.session is None and slot.engine.phase is EnginePhase.READY
        return WorkerState(slot.worker, slot.session is not None, slot.idle_since if is_idle else None)

    def _start(self) -> None:
        self._placement.start(self._add(f"w-{secrets.token_hex(4)}").slot.worker)

    def _add(self, id: str) -> _Worker:
        self._numbers += 1
        slot = WorkerSlot(
            self._numbers,
            id,
            settings=self._settings,
            callbacks=self.admission.slot_callbacks,
            fleet=FleetCallbacks(
                issue=lambda role, session, address: self._issue(id, role, session, address),
                send=lambda message: self._send(id, message),
                on_session_lost=self._on_session_lost,
                on_viewer_lost=self.admission.assignment.reassign,
            ),
            relays_all=self._relays_all,
        )
        slot.engine.wait("waits for a place in the cluster")
        self.admission.slots.add(slot)
        worker = self._workers[id] = _Worker(slot)
        return worker

    def _release(self, id: str) -> None:
        """Stop an idle worker."""
        logger.info("worker released worker=%s", id)
        worker = self._workers[id]
        self.admission.slots.remove(worker.slot)
        self._placement.stop(id)

    def _issue(self, worker: str, role: Role, session: str, address: str) -> IssuedTicket:
        return self._tickets.issue(worker, role=role, session=session, address=address, now=time.time())

    def _on_event(self, event: PlacementEvent) -> None:
        """Follow a worker from its start to its end."""
        match event:
            case WorkerPending():
                if (worker := self._workers.get(event.worker)) is not None:
                    worker.slot.engine.wait(event.reason)
            case WorkerPlaced():
                self._placed(event)
            case WorkerGone():
                self._gone(event.worker, event.reason)
            case PlacementLost():
                logger.warning("no contact with the cluster, its workers continue: %s", event.reason)
            case PlacementRestored():
                logger.info("contact with the cluster again")
        self._changed.ring()

    def _placed(self, event: WorkerPlaced) -> None:
        """Connect to a worker: one that was started, or one of a front before this one."""
        worker = self._workers.get(event.worker) or self._add(event.worker)
        slot = worker.slot
        if worker.link is not None:
            return
        logger.info("worker placed worker=%s node=%s url=%s", event.worker, event.node, event.url)
        slot.url, slot.node = event.url, event.node
        slot.engine.wait("the worker starts")
        worker.link = WorkerLink(
            event.url,
            self._tickets.secret,
            on_status=lambda status: self._on_status(worker, status),
            on_contract=lambda contract: self._on_contract(worker, contract),
            on_broken=lambda reason: self._on_broken(worker, reason),
        )

    def _gone(self, id: str, reason: str) -> None:
        worker = self._workers.pop(id, None)
        if worker is None:
            return
        if worker.link is not None:
            worker.link.close()
        if worker.slot in self.admission.slots:
            self.admission.slots.remove(worker.slot)
            if not self._stopping:
                logger.warning("worker gone worker=%s node=%s: %s", id, worker.slot.node, reason)
                self._note_failed_start(worker, reason)
        worker.slot.lose(reason)

    def _note_failed_start(self, worker: _Worker, reason: str) -> None:
        """Wait longer before each start after one that failed; give up if none has ever succeeded."""
        if worker.was_ready:
            return
        self._start_after = self._clock.now() + RETRY_S[min(self._failed_starts, len(RETRY_S) - 1)]
        self._failed_starts += 1
        if self._failed_starts >= MOST_FAILED_STARTS and not self._has_been_ready:
            self._failure = LoadError(
                f"{self._failed_starts} workers have ended before they were ready, the last one: {reason}",
                hint="the log has what they printed; `reactor run` without --on ray serves the model on this machine",
            )

    def _give_up_silent(self, now: float) -> float | None:
        """Kill workers that have said nothing for too long; return when the next one has."""
        times = []
        for id, worker in list(self._workers.items()):
            if worker.silent_since is None:
                continue
            if now - worker.silent_since < LOST_AFTER_S:
                times.append(worker.silent_since + LOST_AFTER_S)
                continue
            self._placement.stop(id)
            self._gone(id, f"the worker has said nothing for {LOST_AFTER_S:.0f} s")
        return min(times, default=None)

    def _on_status(self, worker: _Worker, status: WorkerStatus) -> None:
        worker.silent_since = None
        worker.slot.on_status(status)
        if status.phase == EnginePhase.READY:
            worker.was_ready = self._has_been_ready = True
            self._failed_starts = 0
        self._changed.ring()

    def _on_contract(self, worker: _Worker, contract: dict[str, Any]) -> None:
        worker.slot.engine.contract = contract

    def _on_broken(self, worker: _Worker, reason: str) -> None:
        if worker.silent_since is None:
            worker.silent_since = self._clock.now()
        worker.slot.on_no_contact(reason)
        self._changed.ring()

    def _on_change(self) -> None:
        self._changed.ring()

    def _on_ready(self, slot: WorkerSlot, load_s: float) -> None:
        slots = self.admission.slots
        self._operator.on_ready(ServerReady(load_s, slots.ready_count, len(slots), slot.node))

    def _send(self, id: str, message: ToWorker) -> None:
        link = self._workers[id].link
        if link is not None:
            link.send(message)

    def _on_session_lost(self, ticket: str, controller: Client | None, reason: str) -> None:
        """Let the controller of a lost session return to the head of the queue: now, or when it shows its ticket."""
        if controller is not None:
            self.admission.return_to_queue(controller, reason)
            return
        self._lost[ticket] = reason
        if len(self._lost) > MOST_LOST:
            self._lost.popitem(last=False)

    def _why_lost(self, ticket: str) -> str:
        """Return why the session of a ticket was lost; "" if it was not, or if its client has returned before."""
        if not ticket:
            return ""
        try:
            id = self._tickets.read_returned(ticket, time.time()).id
        except TicketRefused:
            return ""
        return self._lost.pop(id, "")
