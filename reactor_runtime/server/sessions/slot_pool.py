"""The halls of a server together: which of them is free, whose a session is, and which is shown to a passer-by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reactor_runtime.server.delivery.client import Client
from reactor_runtime.server.sessions.session import SessionPhase
from reactor_runtime.server.sessions.slot import Slot
from reactor_runtime.server.workers.supervisor import EnginePhase


class SlotPool:
    """Find halls; at least one is there before anybody asks. `last` is where a session has ended last."""

    def __init__(self) -> None:
        self.last: Slot | None = None
        self._slots: list[Slot] = []

    def __iter__(self) -> Iterator[Slot]:
        return iter(self._slots)

    def __len__(self) -> int:
        return len(self._slots)

    def add(self, slot: Slot) -> None:
        self._slots.append(slot)

    @property
    def contract(self) -> dict[str, Any] | None:
        """What the engines have said of the model, None before the first has."""
        return next((slot.engine.contract for slot in self if slot.engine.contract is not None), None)

    @property
    def tracks(self) -> list[str] | None:
        """The names of the tracks that clients are sent, None while they are not known."""
        contract = self.contract
        if contract is None:
            return None
        return [track["name"] for track in contract["tracks"] if track["direction"] == "out"]

    @property
    def empty(self) -> int:
        """How many have no session, though they may still load."""
        return sum(slot.session is None and slot.engine.phase is not EnginePhase.FAILED for slot in self)

    @property
    def ready(self) -> int:
        """How many have an engine that serves."""
        return sum(slot.engine.phase is EnginePhase.READY for slot in self)

    @property
    def free(self) -> list[Slot]:
        """Those a session can begin in, the best first.

        Where sessions have failed comes last: a broken engine, always the first to be free, would else get them all.
        """
        free = [slot for slot in self if slot.session is None and slot.engine.phase is EnginePhase.READY]
        return sorted(free, key=lambda slot: slot.failed_in_a_row)

    @property
    def first(self) -> Slot:
        """The one that is shown to whoever names none: where a session has run longest, or was last."""
        on = {
            slot: (session.phase is SessionPhase.STOPPING, session.started_at)
            for slot in self
            if slot.is_on and (session := slot.session) is not None
        }
        if on:
            return min(on, key=lambda slot: on[slot])
        ready = [slot for slot in self if slot.engine.phase is EnginePhase.READY]
        return max(ready or self, key=lambda slot: (slot.session is not None, slot is self.last))

    def showing(self, session: str) -> Slot | None:
        """Find where the session of this id is."""
        return next((slot for slot in self if slot.session is not None and slot.session.id == session), None)

    def controlled_by(self, client: Client) -> Slot | None:
        """Find where the session is this controller's."""
        for slot in self:
            if slot.session is not None and slot.session.controller is client:
                return slot
        return None

    def resumed_by(self, secret: str) -> Slot | None:
        """Find where the controller is who brings this secret."""
        for slot in self if secret else ():
            if slot.session is not None and slot.session.is_resumed_by(secret):
                return slot
        return None

    def watched_by(self, client: Client) -> Slot | None:
        """Find what a client sees."""
        return next((slot for slot in self if client in slot.subscribers), None)

    def loading_phase(self) -> dict[str, Any] | None:
        """Say how far loading is, as `reactor.session` does; None unless everybody has to wait for it."""
        # where there is a session still, its process has just ended: `ended` comes first
        loading = [slot.engine for slot in self if slot.engine.phase is EnginePhase.LOADING and slot.session is None]
        if self.ready or not loading:
            return None
        engine = max(loading, key=lambda engine: engine.loading_s)
        return {"phase": "loading", "detail": engine.detail, "elapsed_s": round(engine.loading_s, 1)}
