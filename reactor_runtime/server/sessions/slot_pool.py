"""All slots of a server, and the queries on them: which slot is free, and which one a client controls or watches."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Generic

from reactor_runtime.server.delivery.client import Client
from reactor_runtime.server.sessions.session import SessionPhase
from reactor_runtime.server.sessions.slot import S, Slot, VacantSession
from reactor_runtime.server.workers.engine import EnginePhase


class SlotPool(Generic[S]):
    """Keep the slots in the order of their start; `last_used` is the slot whose session ended most recently.

    With thousands of slots a search among all takes milliseconds, so those that may be free, and the slot of each
    client, are kept; both are checked again when they are used. `more` returns how many slots can be added when
    controllers wait, `unknown` why not all slots are known yet; "" if they are.
    """

    def __init__(
        self, *, more: Callable[[], int] = lambda: 0, unknown: Callable[[], str] = lambda: "", model: str = ""
    ) -> None:
        self._more = more
        self.unknown = unknown
        self._model = model
        self.last_used: S | None = None
        self._slots: dict[int, S] = {}
        # The failures and the number of each slot that may be free: the best is first.
        self._free: list[tuple[int, int]] = []
        self._in_free: set[tuple[int, int]] = set()
        self._slot_of: dict[Client, S] = {}
        # The sessions that may wait for a controller, those that have waited longest first.
        self._vacant: dict[S, VacantSession[S]] = {}
        # The slots whose session ends for a controller that waits.
        self._ending: set[S] = set()

    def __iter__(self) -> Iterator[S]:
        return iter(self._slots.values())

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, slot: S) -> bool:
        return self._slots.get(slot.number) is slot

    def add(self, slot: S) -> None:
        self._slots[slot.number] = slot
        self.offer(slot)

    def remove(self, slot: S) -> None:
        del self._slots[slot.number]
        self._vacant.pop(slot, None)
        self._ending.discard(slot)

    def offer(self, slot: S) -> None:
        """Record that a slot may be free now: its model is ready, or its session has ended."""
        self._ending.discard(slot)
        rank = slot.failed_in_a_row, slot.number
        if rank not in self._in_free:
            self._in_free.add(rank)
            heapq.heappush(self._free, rank)

    def take_free(self, client: Client) -> S | None:
        """Return the best slot that can start a session, which the caller does; None where there is none.

        For a client of a front it is the slot that the front has chosen. Otherwise slots whose sessions have failed
        come last: a slot whose engine fails at once would often be free first, and get every controller.
        """
        if client.slot:
            chosen = self._slots.get(client.slot)
            return chosen if chosen is not None and chosen.session is None and _accepts_sessions(chosen) else None
        while self._free:
            rank = heapq.heappop(self._free)
            self._in_free.discard(rank)
            slot = self._slots.get(rank[1])
            is_free = slot is not None and slot.session is None and _accepts_sessions(slot) and slot.engine.room > 0
            if slot is not None and is_free and slot.failed_in_a_row == rank[0]:
                return slot
        return None

    def offer_vacant(self, session: VacantSession[S]) -> None:
        """Record a session that goes on without a controller."""
        self._vacant.pop(session.slot, None)
        self._vacant[session.slot] = session

    def find_vacant(
        self, client: Client, may_take: Callable[[VacantSession[S]], bool] = lambda _: True
    ) -> VacantSession[S] | None:
        """Return the session that has waited longest for a controller such as this one.

        The caller gives the controller a seat there; the session is found again while it has others. A client of a
        front gets the slot that the front chose; any other client only a session for which `may_take` returns True.
        """

        def suits(each: VacantSession[S]) -> bool:
            if each.take is None or each.seat_for(client) is None:
                return False
            return each.slot.number == client.slot if client.slot else may_take(each)

        return self._find_vacant(suits)

    def end_vacant(self, wanted: int) -> None:
        """End sessions that their controllers have left, so that `wanted` slots become free."""
        while len(self._ending) < wanted and (session := self._find_vacant(lambda each: each.take is None)) is not None:
            del self._vacant[session.slot]
            self._ending.add(session.slot)
            session.end()

    def _find_vacant(self, suits: Callable[[VacantSession[S]], bool]) -> VacantSession[S] | None:
        self._vacant = {slot: each for slot, each in self._vacant.items() if each.is_vacant()}
        return next((each for each in self._vacant.values() if suits(each)), None)

    def bind(self, client: Client, slot: S | None) -> None:
        """Record the slot whose session a client is to control or to watch; None for a client that has gone."""
        if slot is None:
            self._slot_of.pop(client, None)
        else:
            self._slot_of[client] = slot

    @property
    def contract(self) -> dict[str, Any] | None:
        """Return the contract of the model; None until an engine has sent it.

        A slot that drains may have an earlier version of the model.
        """
        known = (slot for slot in self if slot.engine.contract is not None)
        slot = min(known, key=lambda slot: slot.is_draining, default=None)
        return None if slot is None else slot.engine.contract

    @property
    def seats(self) -> int | None:
        """Return how many seats a session has; None until an engine has sent the contract."""
        contract = self.contract
        return None if contract is None else int(contract.get("seats", 1))

    def why_refused(self, seat: int | None, *, stepped: bool) -> str:
        """Return why no session can serve a client that wants this seat, or steps; "" if one can, or may.

        Before the model is loaded the number of seats is unknown, as `load()` may set it.
        """
        seats = self.seats if self.ready_count else None
        if seats is not None and seat is not None and seat >= seats:
            has = "one seat, 0" if seats == 1 else f"the seats 0 to {seats - 1}"
            return f"there is no seat {seat}: a session of this model has {has}"
        if seats is not None and seats > 1 and stepped:
            why = f"a session of this model has {seats} seats, and a stepped one has one controller"
            return f"{why}: connect without generation=stepped, or step the model with PipelineExecutor"
        return ""

    @property
    def tracks(self) -> list[str] | None:
        """Return the names of the output tracks; None until an engine has sent the contract."""
        contract = self.contract
        if contract is None:
            return None
        return [track["name"] for track in contract["tracks"] if track["direction"] == "out"]

    @property
    def vacant_count(self) -> int:
        """Return the number of slots for another controller.

        They have no session, and an engine that is ready or loads, or a session without a controller, or can be added.
        """
        vacant = sum(session.places() for session in self._vacant.values())
        free = Counter(
            slot.engine for slot in self if slot.session is None and slot.engine.phase is not EnginePhase.FAILED
        )
        return vacant + sum(min(count, engine.room) for engine, count in free.items()) + self._more()

    @property
    def limit(self) -> str:
        """Return why a loaded model has a slot that is free, and no room for another session; "" if none has."""
        free = (slot.engine for slot in self if slot.session is None and _accepts_sessions(slot))
        return next((engine.limit for engine in free if not engine.room and engine.limit), "")

    @property
    def fitting(self) -> int:
        """Return how many sessions fit on the models that are loaded."""
        return sum(engine.fitting for engine in {slot.engine for slot in self if _accepts_sessions(slot)})

    @property
    def ready_count(self) -> int:
        """Return the number of slots whose engine is ready, with or without a session."""
        return sum(slot.engine.phase is EnginePhase.READY for slot in self)

    @property
    def default(self) -> S | None:
        """Return the slot for clients that name no session: with the longest running session, or else the last used.

        None where there is no slot.
        """
        started = {
            slot: (session.phase is SessionPhase.STOPPING, session.started_at)
            for slot in self
            if slot.has_started and (session := slot.session) is not None
        }
        if started:
            return min(started, key=lambda slot: started[slot])
        serving = [slot for slot in self if _accepts_sessions(slot)]
        return max(serving or self, key=lambda slot: (slot.session is not None, slot is self.last_used), default=None)

    def watched(self, session_id: str) -> S | None:
        """Return the slot for a client that watches the session of this id, or where there is none the default one."""
        return self.find_session(session_id) or self.default

    def find_session(self, session_id: str) -> S | None:
        """Return the slot with the session of this id, or in the room of this code."""
        named = (
            slot for slot in self if slot.session is not None and session_id in (slot.session.id, slot.session.room)
        )
        return next(named, None) if session_id else None

    def is_running(self, session_id: str) -> bool:
        """Return whether the session of this id has started, and neither it nor its engine is ending."""
        slot = self.find_session(session_id)
        if slot is None or slot.session is None:
            return False
        return slot.has_started and slot.session.phase is SessionPhase.RUNNING

    def may_open(self, client: Client) -> bool:
        """Return whether a client may start a session.

        It may not while its room is open, or may be open in a slot that is not known yet, nor while a session starts
        that has a seat for it: those who have a code, or come at the same time, are to meet. For a client of a front,
        the front has decided.
        """
        if client.slot:
            return True
        is_unknown = bool(client.room and self.unknown())
        return not (is_unknown or self.find_session(client.room) or self.starts_for(client))

    def starts_for(self, client: Client) -> bool:
        """Return whether a session starts that has a seat for this client when it runs."""
        if (self.seats or 1) == 1:
            return False
        sessions = [slot.session for slot in self if slot.session is not None]
        starting = [session for session in sessions if session.phase is SessionPhase.STARTING]
        return any(session.free_seat_for(client) is not None for session in starting)

    def controlled_by(self, client: Client) -> S | None:
        """Return the slot whose session this client controls."""
        slot = self._slot_of.get(client)
        return slot if slot is not None and slot.session is not None and client in slot.session.controllers else None

    def resumed_by(self, secret: str) -> S | None:
        """Return the slot whose session this secret resumes."""
        for slot in self if secret else ():
            if slot.session is not None and slot.session.is_resumed_by(secret):
                return slot
        return None

    def watched_by(self, client: Client) -> S | None:
        """Return the slot that a client is subscribed to."""
        slot = self._slot_of.get(client)
        return slot if slot is not None and client in slot.subscribers else None

    def loading_message(self) -> dict[str, Any] | None:
        """Return the data of the `reactor.session` message for loading; None while a slot serves, or none loads."""
        # An engine that loads while its session remains has just crashed: the message `ended` comes first.
        if any(_accepts_sessions(slot) for slot in self):
            return None
        loading = [slot for slot in self if slot.engine.phase is EnginePhase.LOADING and slot.session is None]
        if not loading:
            unknown = self.unknown()
            return {"phase": "loading", "model": self._model, "detail": unknown} if unknown else None
        slot = max(loading, key=lambda slot: slot.engine.loading_s)
        engine = slot.engine
        return {
            "phase": "loading",
            "model": slot.model_name,
            "detail": engine.detail,
            "progress": engine.progress,
            "elapsed_s": round(engine.loading_s, 1),
        }


def _accepts_sessions(slot: Slot) -> bool:
    return slot.engine.phase is EnginePhase.READY and not slot.is_draining
