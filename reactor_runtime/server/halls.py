"""The halls of a server together: which of them is free, whose a session is, and which is shown to a passer-by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reactor_runtime.server.connection import Connection
from reactor_runtime.server.hall import Hall
from reactor_runtime.server.session import SessionPhase
from reactor_runtime.server.supervisor import EnginePhase


class Halls:
    """Find halls; at least one is there before anybody asks. `last` is where a session has ended last."""

    def __init__(self) -> None:
        self.last: Hall | None = None
        self._halls: list[Hall] = []

    def __iter__(self) -> Iterator[Hall]:
        return iter(self._halls)

    def __len__(self) -> int:
        return len(self._halls)

    def add(self, hall: Hall) -> None:
        self._halls.append(hall)

    @property
    def contract(self) -> dict[str, Any] | None:
        """What the engines have said of the model, None before the first has."""
        return next((hall.engine.contract for hall in self if hall.engine.contract is not None), None)

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
        return sum(hall.session is None and hall.engine.phase is not EnginePhase.FAILED for hall in self)

    @property
    def ready(self) -> int:
        """How many have an engine that serves."""
        return sum(hall.engine.phase is EnginePhase.READY for hall in self)

    @property
    def free(self) -> list[Hall]:
        """Those a session can begin in, the best first.

        Where sessions have failed comes last: a broken engine, always the first to be free, would else get them all.
        """
        free = [hall for hall in self if hall.session is None and hall.engine.phase is EnginePhase.READY]
        return sorted(free, key=lambda hall: hall.failed_in_a_row)

    @property
    def first(self) -> Hall:
        """The one that is shown to whoever names none: where a session has run longest, or was last."""
        on = {
            hall: (session.phase is SessionPhase.STOPPING, session.started_at)
            for hall in self
            if hall.is_on and (session := hall.session) is not None
        }
        if on:
            return min(on, key=lambda hall: on[hall])
        ready = [hall for hall in self if hall.engine.phase is EnginePhase.READY]
        return max(ready or self, key=lambda hall: (hall.session is not None, hall is self.last))

    def showing(self, session: str) -> Hall | None:
        """Find where the session of this id is."""
        return next((hall for hall in self if hall.session is not None and hall.session.id == session), None)

    def controlled_by(self, connection: Connection) -> Hall | None:
        """Find where the session is this controller's."""
        for hall in self:
            if hall.session is not None and hall.session.controller is connection:
                return hall
        return None

    def resumed_by(self, secret: str) -> Hall | None:
        """Find where the controller is who brings this secret."""
        for hall in self if secret else ():
            if hall.session is not None and hall.session.is_resumed_by(secret):
                return hall
        return None

    def watched_by(self, connection: Connection) -> Hall | None:
        """Find what a client sees."""
        return next((hall for hall in self if connection in hall.audience), None)

    def loading_phase(self) -> dict[str, Any] | None:
        """Say how far loading is, as `reactor.session` does; None unless everybody has to wait for it."""
        # where there is a session still, its process has just ended: `ended` comes first
        loading = [hall.engine for hall in self if hall.engine.phase is EnginePhase.LOADING and hall.session is None]
        if self.ready or not loading:
            return None
        engine = max(loading, key=lambda engine: engine.loading_s)
        return {"phase": "loading", "detail": engine.detail, "elapsed_s": round(engine.loading_s, 1)}
