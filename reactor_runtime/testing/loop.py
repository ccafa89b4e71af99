"""An event loop on a fake clock: where others wait, it moves the clock to the next deadline.

`asyncio.sleep` and timeouts follow the fake clock too. While a worker thread (`asyncio.to_thread`) or a thread of a
block model is at work time stands still, so that what comes of it doesn't depend on how fast this machine is.
"""

from __future__ import annotations

import asyncio
import math
import selectors
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar, TypeVarTuple

from reactor_runtime.testing.clock import FakeClock
from reactor_runtime.testing.turns import FakeTurns

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

STANDSTILL_PASSES = 200
STANDSTILL_S = 0.001  # passes after so many passes of the loop: code that never waits takes time, too
BUSY_PASSES = 20_000  # while a thread of the model runs: only one that never rests makes so many
THREAD_PATIENCE_S = 5.0  # of real time; who works on longer is left to


class FakeLoop(asyncio.SelectorEventLoop):
    """Run until nothing more can happen without time passing, then let it pass as fast as nothing happens."""

    def __init__(self, clock: FakeClock, turns: FakeTurns) -> None:
        self._waiting = _Waiting(clock, turns)
        super().__init__(self._waiting)
        turns.post = self.call_soon_threadsafe
        self._threads = ThreadPoolExecutor(thread_name_prefix="studio")
        self.set_default_executor(self._threads)

    def time(self) -> float:
        return self._waiting.clock.now()

    def go_on(self, done: Callable[[], bool], *, until: float) -> bool:
        """Run until all has settled and it is `done()`, or until the clock says `until`; tell whether it is done."""
        self._waiting.goal = _Goal(done, until, self.stop)
        self._waiting.passes = 0
        try:
            self.run_forever()
        finally:
            self._waiting.goal = None
        return done()

    def end(self, *, until: float) -> None:
        """Cancel what still runs, let it and its threads finish, and close."""
        tasks = asyncio.all_tasks(self)
        for task in tasks:
            task.cancel()
        self.go_on(lambda: all(task.done() for task in tasks), until=until)
        generators = self.create_task(self.shutdown_asyncgens())
        self.go_on(generators.done, until=until)
        self._threads.shutdown(cancel_futures=True)
        self.close()

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        job = super().run_in_executor(executor, func, *args)
        self._waiting.jobs.add(job)
        job.add_done_callback(self._waiting.jobs.discard)
        return job


@dataclass(frozen=True, slots=True)
class _Goal:
    done: Callable[[], bool]
    until: float
    stop: Callable[[], None]


class _Waiting(selectors.DefaultSelector):
    """Look whether there is something to read, and move the clock where a loop would wait for its timers."""

    def __init__(self, clock: FakeClock, turns: FakeTurns) -> None:
        super().__init__()
        self.clock = clock
        self.turns = turns
        self.goal: _Goal | None = None
        self.jobs: set[asyncio.Future[Any]] = set()
        self.passes = 0
        self._stands_at = -math.inf

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        running = self.turns.running  # asked before: what a thread posts before it rests is there to be read then
        ready = super().select(0)
        if self._stands_still():
            self._pass_time(self.clock.now() + STANDSTILL_S, meeting=False)
            return ready
        waiting = timeout is None or timeout > 0
        if waiting and not ready and (self.jobs or running):
            ready = super().select(THREAD_PATIENCE_S)
        if waiting and not ready:
            self.jobs.clear()
            self.turns.give_up()
            self._pass_time(math.inf if timeout is None else self.clock.now() + timeout)
        return ready

    def _stands_still(self) -> bool:
        """Tell whether the loop goes round and round at the same time, as it does for code that never waits."""
        if self.clock.now() != self._stands_at:
            self._stands_at, self.passes = self.clock.now(), 0
        self.passes += 1
        return self.passes > (BUSY_PASSES if self.turns.running else STANDSTILL_PASSES)

    def _pass_time(self, deadline: float, *, meeting: bool = True) -> None:
        assert self.goal is not None, "the loop is run by go_on()"
        upcoming = self.clock.upcoming
        if meeting and upcoming is not None:
            deadline = min(deadline, upcoming)
        if self.goal.done():
            self.goal.stop()
        elif deadline > self.goal.until:
            self.clock.move_to(self.goal.until)
            self.goal.stop()
        else:
            self.clock.move_to(deadline)
