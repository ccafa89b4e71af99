"""Follows one worker: its slots, and the link to it once it is placed."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from reactor_runtime.cluster.front.access import WorkerAccess
from reactor_runtime.cluster.front.link import WorkerLink
from reactor_runtime.cluster.front.scaling import WorkerState
from reactor_runtime.cluster.front.takeover import Takeover
from reactor_runtime.cluster.front.worker_engine import NO_CONTACT, WorkerEngine
from reactor_runtime.cluster.front.worker_session import WorkerSeat, WorkerTurns
from reactor_runtime.cluster.front.worker_slot import WorkerSlot
from reactor_runtime.cluster.messages import Abort, Drain, FrontIdentity, Stop, ToWorker, WorkerStatus
from reactor_runtime.cluster.placement.placement import WorkerPlaced
from reactor_runtime.server.delivery.client import Client
from reactor_runtime.server.sessions.admission import Loss
from reactor_runtime.server.sessions.slot import SlotCallbacks, SlotSettings
from reactor_runtime.server.workers.engine import EnginePhase

logger = logging.getLogger(__name__)

# Time without a status after which the worker is killed.
LOST_AFTER_S = 5.0
OUTDATED = "a worker has another version of the project, or other options"


class ControlLink(Protocol):
    """Connect to a worker, again whenever the connection breaks."""

    def send(self, message: ToWorker) -> None:
        """Send a message if there is a connection."""

    def close(self) -> None:
        """End the connection; may be called twice."""

    async def aclose(self) -> None:
        """Wait until the worker, which was stopped, has ended the connection; end it if that takes too long."""


class RemoteWorker:
    """Follow a worker; calls `on_change` when the plan of the fleet may change. Use on the front's loop.

    `on_slot` is called with each slot, of which there is one until the worker has loaded its model; `next_number`
    returns the number for it. `is_requested` is whether this front has requested the place of the worker, and not an
    earlier one. `build` is that of the workers that this front starts; a worker that `is_outdated` has another one, and
    drains.
    """

    def __init__(
        self,
        id: str,
        *,
        access: WorkerAccess,
        secret: str,
        front: FrontIdentity,
        build: str,
        settings: SlotSettings,
        callbacks: SlotCallbacks[WorkerSlot],
        on_seat_lost: Callable[[WorkerSeat, Client | None, Loss], None],
        on_viewers_lost: Callable[[], None],
        on_change: Callable[[], None],
        takeover: Takeover,
        next_number: Callable[[], int],
        on_slot: Callable[[WorkerSlot], None],
        make_link: Callable[..., ControlLink] = WorkerLink,
        is_requested: bool = False,
    ) -> None:
        self.id = id
        self.secret = secret
        self.silent_since: float | None = None
        self.no_contact = ""
        self.is_outdated = False
        self._is_requested = is_requested
        self._is_ending = False
        self.engine = WorkerEngine(settings.clock.now, lambda: sum(slot.session is not None for slot in self.slots))
        self.slots: list[WorkerSlot] = []
        self._turns = WorkerTurns(self.send)
        self._make_slot = partial(
            WorkerSlot,
            worker=id,
            engine=self.engine,
            turns=self._turns,
            access=access,
            settings=settings,
            callbacks=callbacks,
            send=self.send,
            on_seat_lost=on_seat_lost,
            on_viewers_lost=on_viewers_lost,
        )
        self._next_number = next_number
        self._on_slot = on_slot
        self._callbacks = callbacks
        self._access = access
        self._front = front
        self._build = build
        self._now = settings.clock.now
        self._on_change = on_change
        self._takeover = takeover
        self._make_link = make_link
        self._link: ControlLink | None = None
        self._add_slot()

    def _add_slot(self) -> None:
        slot = self._make_slot(self._next_number(), place=len(self.slots) + 1)
        self.slots.append(slot)
        self._on_slot(slot)

    @property
    def has_session(self) -> bool:
        return any(slot.session is not None for slot in self.slots)

    @property
    def state(self) -> WorkerState:
        """Return the state of the worker for the plan of the fleet."""
        is_idle = not self.has_session and self.engine.phase is EnginePhase.READY
        idle_since = max(self.engine.ready_since, *(slot.idle_since for slot in self.slots))
        sessions = sum(slot.session is not None for slot in self.slots)
        return WorkerState(
            self.id,
            busy=self.has_session,
            idle_since=idle_since if is_idle else None,
            requested=self._is_requested and self._link is None,
            room=max(0, self.engine.capacity - sessions) if self.engine.phase is EnginePhase.READY else 0,
        )

    @property
    def address(self) -> str:
        """Return the URL of the worker for the front; "" until it is placed."""
        return self._access.address

    @property
    def node(self) -> str:
        """Return the machine of the worker; "" until it is placed."""
        return self._access.node

    @property
    def tls(self) -> ssl.SSLContext | None:
        """Return the context for connections to the worker."""
        return self._access.tls

    @property
    def is_placed(self) -> bool:
        return self._link is not None

    @property
    def lost_at(self) -> float | None:
        """Return when a worker that is silent now counts as lost."""
        return None if self.silent_since is None else self.silent_since + LOST_AFTER_S

    def connect(self, placed: WorkerPlaced) -> None:
        """Connect to the worker at its place; do nothing if it was reported before."""
        if self._link is not None:
            return
        logger.info("worker placed worker=%s node=%s url=%s", self.id, placed.node, placed.url)
        self._access.set_place(placed)
        self.engine.mark_unavailable("the worker starts")
        self._link = self._make_link(
            placed.address,
            self.secret,
            front=self._front,
            on_status=self._status_received,
            on_contract=self._contract_received,
            on_broken=self._link_broken,
            on_refused=self._refused,
            tls=self._access.tls,
        )

    def send(self, message: ToWorker) -> None:
        """Send a message if there is a connection."""
        self._is_ending = self._is_ending or isinstance(message, Drain | Stop)
        if self._link is not None:
            self._link.send(message)

    def lose(self, reason: str) -> None:
        """End what the front has of a worker that has gone."""
        if self._link is not None:
            # The scheduler may report a worker as gone while it still runs.
            self._link.send(Abort())
            self._link.close()
        for slot in self.slots:
            slot.lose(reason)

    def leave(self) -> None:
        """Close the link to a worker that another front has."""
        if self._link is not None:
            self._link.close()

    async def aclose(self) -> None:
        """Close the link to a worker that was stopped."""
        if self._link is not None:
            await self._link.aclose()

    def _status_received(self, status: WorkerStatus) -> None:
        if self.silent_since is not None:
            self._turns.send_again()
        was_outdated, self.is_outdated = self.is_outdated, status.build != self._build
        self._follow(replace(status, draining=True) if self.is_outdated else status)
        if self.is_outdated and not was_outdated:
            end = "with its last session" if self.has_session else "now"
            logger.info("%s, and ends %s worker=%s node=%s", OUTDATED, end, self.id, self.node)
        # Only after a status that could be used: another one counts as silence.
        self.silent_since = None
        self._takeover.record_contact(self.id)
        self._on_change()

    def _follow(self, status: WorkerStatus) -> None:
        """Follow the worker's model and its sessions."""
        engine, slots = self.engine, len(self.slots)
        before, was_loaded, room, had_contact = engine.phase, engine.is_loaded, engine.room, engine.has_contact
        engine.update(status)
        while len(self.slots) < len(status.slots):
            self._add_slot()
        for slot, of_slot in zip(self.slots, status.slots, strict=False):
            slot.adopt(of_slot)
        for slot, of_slot in zip(self.slots, status.slots, strict=False):
            slot.on_status(of_slot, status.released, has_returned=not had_contact)
        if before is EnginePhase.READY and not engine.is_loaded:
            self._callbacks.on_lost()
        elif engine.is_loaded and (before is not EnginePhase.READY or slots < len(self.slots) or room < engine.room):
            # Each slot is offered again: another number of sessions fits.
            for slot in self.slots:
                load_s = status.loading_s if slot is self.slots[0] and not was_loaded else None
                self._callbacks.on_ready(slot, load_s)

    def _refused(self, other: FrontIdentity) -> None:
        self._takeover.other = other
        self._on_change()

    def _contract_received(self, contract: dict[str, Any]) -> None:
        self.engine.contract = contract

    def _link_broken(self, reason: str) -> None:
        if self.silent_since is None and not self._is_ending:
            logger.warning("no contact with a worker worker=%s node=%s: %s", self.id, self.node, reason)
        if self.silent_since is None:
            self.silent_since = self._now()
        self.no_contact = reason
        self.engine.lose_contact(NO_CONTACT)
        self._callbacks.on_lost()
        self._on_change()
