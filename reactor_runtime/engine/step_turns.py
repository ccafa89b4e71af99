"""The turns of the sessions that share a loaded model: which one makes the next step on the model's thread.

`StepOrder` decides, and `StepTurns` waits; a model that serves one session at a time has neither.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

S = TypeVar("S", bound=Hashable)

# Timers that became due during a step are called two iterations of the loop after it, and their sessions then ask.
SETTLED = 3


def call_settled(call: Callable[[], object], iterations: int = SETTLED) -> None:
    """Call a function when all sessions whose timers are due have asked for their step."""
    if iterations:
        asyncio.get_running_loop().call_soon(call_settled, call, iterations - 1)
    else:
        call()


@dataclass(frozen=True, slots=True)
class _Asked:
    deadline: float
    wanted_at: float


class StepOrder(Generic[S]):
    """Choose the session whose frames are due first. Pure; times are monotonic seconds.

    A session whose last step ended after another session wanted to begin comes after that session, however early its
    frames are due: otherwise a session that is always late would have all turns. So each session delays another by one
    step at most, including a step that runs when the other session wants to begin.
    """

    def __init__(self) -> None:
        self._asked: dict[S, _Asked] = {}
        # When the last step of each session has ended.
        self._ended: dict[S, float] = {}

    def __bool__(self) -> bool:
        return bool(self._asked)

    def ask(self, session: S, *, deadline: float, wanted_at: float) -> None:
        """Add a session that has wanted since `wanted_at` to make a step whose frames are due at `deadline`."""
        self._asked[session] = _Asked(deadline, max(wanted_at, self._last_end(session)))

    def withdraw(self, session: S) -> None:
        """Remove a session that wants no step any more."""
        self._asked.pop(session, None)

    def take_next(self) -> S:
        """Remove and return the session that has the next turn; at least one has asked."""
        # The session with this time is always eligible: it wants a step only after its last one has ended.
        longest = min(asked.wanted_at for asked in self._asked.values())
        first = min(
            (each for each in self._asked if self._last_end(each) <= longest),
            key=lambda each: self._asked[each].deadline,
        )
        del self._asked[first]
        return first

    def end(self, session: S, now: float) -> None:
        """Record when the step of a session has ended."""
        self._ended[session] = now

    def _last_end(self, session: S) -> float:
        return self._ended.get(session, -math.inf)


class StepTurns:
    """Grant the turn to make a step to one session at a time; belongs to the loop of the sessions."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._order: StepOrder[int] = StepOrder()
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._holder: int | None = None
        self._settling = False

    async def take(self, session: int, *, deadline: float, wanted_at: float) -> None:
        """Wait for the turn of a session, which `release` ends."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting[session] = turn
        self._order.ask(session, deadline=deadline, wanted_at=wanted_at)
        self._grant_soon()
        try:
            await turn
        except asyncio.CancelledError:
            self._withdraw(session)
            raise

    def release(self, session: int) -> None:
        """End the turn; do nothing if the session has none."""
        if self._holder == session:
            self._holder = None
            self._order.end(session, self._now())
            self._grant_soon()

    def _withdraw(self, session: int) -> None:
        self._waiting.pop(session, None)
        self._order.withdraw(session)
        self.release(session)

    def _grant_soon(self) -> None:
        """Choose among the sessions that ask, once all whose timers are due have asked."""
        if self._holder is None and self._order and not self._settling:
            self._settling = True
            call_settled(self._grant)

    def _grant(self) -> None:
        self._settling = False
        if self._holder is None and self._order:
            self._holder = self._order.take_next()
            self._waiting.pop(self._holder).set_result(None)


class StepTurn:
    """Take the turns of the sessions of one slot.

    `due_at` is when the frames of the next step are due, `wanted_at` since when the step could begin. `on_timed` gets
    the seconds that each step took, its number of frames, and how many sessions were in its batch.
    """

    def __init__(
        self,
        turns: StepTurns,
        session: int,
        on_timed: Callable[[float, int, int], None] = lambda _seconds, _frames, _sessions: None,
    ) -> None:
        self.due_at = self.wanted_at = 0.0
        self.on_timed = on_timed
        self._turns = turns
        self._session = session

    async def take(self) -> None:
        """Wait for the turn."""
        await self._turns.take(self._session, deadline=self.due_at, wanted_at=self.wanted_at)

    def release(self) -> None:
        """End the turn; do nothing if the session has none."""
        self._turns.release(self._session)
