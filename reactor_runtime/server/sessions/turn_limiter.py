"""Limits as many turns as controllers wait; a turn itself is in `turn.py`."""

from __future__ import annotations

from typing import Generic

from reactor_runtime.clock import Clock, Timer
from reactor_runtime.server.sessions.session import SessionPhase
from reactor_runtime.server.sessions.slot import S
from reactor_runtime.server.sessions.slot_pool import SlotPool

# Sorting thousands of sessions takes milliseconds.
MOST_AT_ONCE = 64
LATER_S = 0.2


class TurnLimiter(Generic[S]):
    """Limit the turns of the sessions that have run longest: at once, with more than 64 slots at most every 0.2 s."""

    def __init__(self, slots: SlotPool[S], clock: Clock) -> None:
        self._slots = slots
        self._clock = clock
        self._waiting = 0
        self._limits = False
        self._timer: Timer | None = None

    def set_waiting(self, count: int) -> None:
        """Limit `count` turns from now on; call this at each change of the sessions as well."""
        self._waiting = count
        if not count and not self._limits:
            return
        if len(self._slots) <= MOST_AT_ONCE:
            self._apply()
        elif self._timer is None:
            self._timer = self._clock.call_at(self._clock.now() + LATER_S, self._apply)

    def _apply(self) -> None:
        self._timer = None
        self._limits = self._waiting > 0
        sessions = [slot.session for slot in self._slots if slot.session is not None]
        stopping = sum(session.phase is SessionPhase.STOPPING for session in sessions)
        running = [session for session in sessions if session.phase is SessionPhase.RUNNING]
        # A controller may still be on its way to its seat.
        turns = [turn for session in running for turn in session.turns if turn.began_at]
        for rank, (turn, _) in enumerate(sorted(turns, key=lambda each: each.began_at)):
            turn.set_others_waiting(rank < self._waiting - stopping)
