"""A clock that stands still until it is moved."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable

from reactor_runtime.clock import Timer

SETTLING_PASSES = 20  # of the loop: everything here is callbacks, none waits for a thread or a socket


async def settle() -> None:
    """Let everything that can go on without time passing go on."""
    for _ in range(SETTLING_PASSES):
        await asyncio.sleep(0)


class FakeTimer:
    """A deadline that may be cancelled."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class FakeClock:
    """A clock that stands still until it is moved; deadlines are met in order, exactly on time."""

    def __init__(self, now: float = 1000.0) -> None:
        self.spent_in_thread: Callable[[float], bool] = lambda _: False
        self._now = now
        self._timers: list[tuple[float, int, FakeTimer]] = []
        self._order = itertools.count()

    def now(self) -> float:
        return self._now

    def call_at(self, deadline: float, callback: Callable[[], None]) -> Timer:
        timer = FakeTimer(callback)
        heapq.heappush(self._timers, (deadline, next(self._order), timer))
        return timer

    def spend(self, seconds: float) -> None:
        """Let time pass as by a computation.

        Where it holds up the loop, deadlines are met late, at the next move; in a thread of a block model all else goes
        on meanwhile.
        """
        if self.spent_in_thread(seconds):
            return
        self._now += seconds

    @property
    def upcoming(self) -> float | None:
        """The next deadline somebody waits for."""
        while self._timers and self._timers[0][2].callback is None:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def meet_next(self) -> None:
        """Move on to the next deadline and meet it."""
        deadline, _, timer = heapq.heappop(self._timers)
        self._now = max(self._now, deadline)
        if timer.callback is not None:
            timer.callback()

    def move_to(self, now: float) -> None:
        """Move on at once, meeting the deadlines on the way; no loop gets a word in between."""
        while (deadline := self.upcoming) is not None and deadline <= now:
            self.meet_next()
        self._now = max(self._now, now)

    async def advance(self, seconds: float) -> None:
        """Move on, letting the loop settle before, between and after the deadlines on the way."""
        end = self._now + seconds
        await settle()
        while (deadline := self.upcoming) is not None and deadline <= end:
            self.meet_next()
            await settle()
        self._now = max(self._now, end)
        await settle()

    @property
    def pending(self) -> int:
        """How many deadlines somebody still waits for."""
        return sum(timer.callback is not None for _, _, timer in self._timers)
