"""Fake time: a clock that moves only when it is moved, and the threads and the event loop that follow it.

The loop moves the clock where a real loop would wait. While a worker thread (`asyncio.to_thread`) or a thread of a
block model works, time stands still, so the result does not depend on the speed of this machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import math
import selectors
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar, TypeVarTuple

from reactor_runtime.clock import Timer

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# Passes that `settle` makes: enough, as callbacks here never wait for a thread or a socket.
SETTLING_PASSES = 20
POLL_S = 0.010
PAUSED_POLL_S = 0.100
# After so many passes at one time the clock moves: code that never waits takes time too.
STANDSTILL_PASSES = 200
STANDSTILL_S = 0.001
# The same limit while a thread of the model runs.
BUSY_PASSES = 20_000
# Real time; the loop of a test does not wait longer for a thread.
THREAD_PATIENCE_S = 5.0
# Real time; a thread begins at most so much later because another one runs, which may wait for this one.
TURN_S = 0.05
# On a busy machine each of these short waits takes longer, and the thread gets more time.
PATIENCE_WAITS = 50


async def settle() -> None:
    """Run all callbacks that need no time to pass."""
    for _ in range(SETTLING_PASSES):
        await asyncio.sleep(0)


class FakeTimer:
    """Represent a callback at a deadline, which can be cancelled."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class FakeClock:
    """Stand still until moved; call deadlines in order, exactly on time.

    `spend_in_thread` passes time for the calling thread if it is one of a model's, and returns whether it is.
    """

    def __init__(self, now: float = 1000.0, *, spend_in_thread: Callable[[float], bool] = lambda _: False) -> None:
        self._spend_in_thread = spend_in_thread
        self._now = now
        self._timers: list[tuple[float, int, FakeTimer]] = []
        self._order = itertools.count()

    def now(self) -> float:
        return self._now

    def call_at(self, deadline: float, callback: Callable[[], None]) -> Timer:
        timer = FakeTimer(callback)
        heapq.heappush(self._timers, (deadline, next(self._order), timer))
        return timer

    def close(self) -> None:
        self._timers.clear()

    def spend(self, seconds: float) -> None:
        """Pass time as a computation does.

        On the loop's thread deadlines are called late, at the next move; in a thread of a block model everything else
        continues meanwhile.
        """
        if self._spend_in_thread(seconds):
            return
        self._now += seconds

    @property
    def upcoming(self) -> float | None:
        """Return the next deadline, None without any."""
        while self._timers and self._timers[0][2].callback is None:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def call_next(self) -> None:
        """Move to the next deadline and call it."""
        deadline, _, timer = heapq.heappop(self._timers)
        self._now = max(self._now, deadline)
        if timer.callback is not None:
            timer.callback()

    def move_to(self, now: float) -> None:
        """Move at once and call the deadlines on the way, without a pass of the loop in between."""
        while (deadline := self.upcoming) is not None and deadline <= now:
            self.call_next()
        self._now = max(self._now, now)

    async def advance(self, seconds: float) -> None:
        """Move; the loop settles before, between and after the deadlines on the way."""
        end = self._now + seconds
        await settle()
        while (deadline := self.upcoming) is not None and deadline <= end:
            self.call_next()
            await settle()
        self._now = max(self._now, end)
        await settle()

    @property
    def pending(self) -> int:
        """Return how many deadlines are not cancelled."""
        return sum(timer.callback is not None for _, _, timer in self._timers)


class RunningThreads:
    """Track which threads of the model run; the loop waits until none does. `post` calls back on that loop.

    Threads run one after the other, in the order in which the loop wakes them, so that what they emit has the same
    order in each run.

    A session that polls `should_stop()` waits there until a command or an input comes, or 10 ms have passed, 100 ms
    with monitoring disabled. Otherwise it would poll for ever, because time stands still while it runs.
    """

    def __init__(self, clock: FakeClock, post: Callable[[Callable[[], object]], object]) -> None:
        self._post = post
        self._clock = clock
        self._lock = threading.Lock()
        self._rested = threading.Condition(self._lock)
        # How much work each thread has begun and not ended.
        self._work: weakref.WeakKeyDictionary[threading.Thread, int] = weakref.WeakKeyDictionary()
        self._running: set[threading.Thread] = set()
        self._not_awaited: set[threading.Thread] = set()
        self._polling: list[_FakeGate] = []

    @property
    def running(self) -> bool:
        return bool(self._running)

    def stop_waiting(self) -> None:
        """Stop waiting for the threads that run: they take too long, or wait for other code of the author."""
        with self._lock:
            self._not_awaited |= self._running
            self._running.clear()

    def gate(self) -> _FakeGate:
        return _FakeGate(self)

    def begin_work(self, thread: threading.Thread) -> None:
        with self._lock:
            work = self._work[thread] = self._work.get(thread, 0) + 1
            # A thread with more than this work may wait at a gate.
            if work == 1:
                self._await_others(thread)
                self._running.add(thread)

    def end_work(self, thread: threading.Thread) -> None:
        with self._lock:
            work = self._work[thread] = self._work[thread] - 1
            # The loop may have given the thread more since it got the result.
            if work:
                self._not_awaited.discard(thread)
                self._running.add(thread)
                return
        self.rest(thread)

    def poll(self, *, paused: bool) -> None:
        if threading.current_thread() not in self._work:
            return
        gate = self.gate()
        self._post(lambda: self._polling.append(gate))
        self._wait(gate, PAUSED_POLL_S if paused else POLL_S)

    def spend(self, seconds: float) -> bool:
        """Pass time for the calling thread; return False if it is not one of the model's."""
        if threading.current_thread() not in self._work:
            return False
        self._wait(self.gate(), seconds)
        return True

    def notify_input(self) -> None:
        # A thread that the loop no longer waits for may have waited for this.
        with self._lock:
            self._running |= self._not_awaited
            self._not_awaited.clear()
        polling, self._polling = self._polling, []
        for gate in polling:
            gate.open()

    def resume(self, thread: threading.Thread) -> None:
        with self._lock:
            if thread in self._work:
                self._await_others(thread)
                self._running.add(thread)

    def _await_others(self, thread: threading.Thread) -> None:
        """Wait until no other thread runs, or for a moment; with the lock."""
        ours = {thread, threading.current_thread()}
        self._rested.wait_for(lambda: not self._running - ours, TURN_S)

    def rest(self, thread: threading.Thread) -> None:
        """Count a thread as waiting, and wake the loop to check whether others run."""
        with self._lock:
            self._running.discard(thread)
            self._not_awaited.discard(thread)
            self._rested.notify_all()
        self._post(_wake)

    def _wait(self, gate: _FakeGate, seconds: float) -> None:
        deadline = self._clock.now() + seconds
        self._post(lambda: self._clock.call_at(deadline, gate.open))
        gate.wait()


class _FakeGate:
    """Block the thread that made the gate; the thread counts as running as soon as the loop opens it."""

    def __init__(self, threads: RunningThreads) -> None:
        self._threads = threads
        self._thread = threading.current_thread()
        self._lock = threading.Lock()
        self._opened = threading.Event()

    def wait(self) -> None:
        with self._lock:
            if not self._opened.is_set():
                self._threads.rest(self._thread)
        self._opened.wait()

    def open(self) -> None:
        with self._lock:
            if not self._opened.is_set():
                self._threads.resume(self._thread)
                self._opened.set()


def _wake() -> None:
    """Do nothing; posting it wakes the loop."""


class FakeLoop(asyncio.SelectorEventLoop):
    """Run until nothing is left to do at this time, then move the clock to the next deadline.

    It waits for a thread that works at most `patience_s`, in real time.
    """

    def __init__(self, clock: FakeClock, threads: RunningThreads, *, patience_s: float = THREAD_PATIENCE_S) -> None:
        self._waiting = _Waiting(clock, threads, patience_s)
        super().__init__(self._waiting)
        self._pool = ThreadPoolExecutor(thread_name_prefix="studio")
        self.set_default_executor(self._pool)

    def time(self) -> float:
        return self._waiting.clock.now()

    def run_until(self, done: Callable[[], bool], *, until: float) -> bool:
        """Run until all has settled and `done()` is true, or until the time `until`; return `done()`."""
        self._waiting.goal = _Goal(done, until, self.stop)
        self._waiting.passes = 0
        try:
            with _without_running_loop():
                self.run_forever()
        finally:
            self._waiting.goal = None
        return done()

    def end(self, *, until: float) -> None:
        """Cancel all tasks, wait until they and the threads finish, and close."""
        tasks = asyncio.all_tasks(self)
        for task in tasks:
            task.cancel()
        self.run_until(lambda: all(task.done() for task in tasks), until=until)
        generators = self.create_task(self.shutdown_asyncgens())
        self.run_until(generators.done, until=until)
        self._pool.shutdown(cancel_futures=True)
        self.close()

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        job = super().run_in_executor(executor, func, *args)
        self._waiting.jobs.add(job)
        job.add_done_callback(self._waiting.jobs.discard)
        return job


@contextlib.contextmanager
def _without_running_loop() -> Iterator[None]:
    """Suspend the loop that runs on this thread, as in a cell of a notebook; another one can run in the block."""
    loop = asyncio._get_running_loop()
    task = None if loop is None else asyncio.current_task(loop)
    if loop is not None and task is not None:
        asyncio.tasks._leave_task(loop, task)
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(loop)
        if loop is not None and task is not None:
            asyncio.tasks._enter_task(loop, task)


@dataclass(frozen=True, slots=True)
class _Goal:
    done: Callable[[], bool]
    until: float
    stop: Callable[[], None]


class _Waiting(selectors.DefaultSelector):
    """Poll the file descriptors, and move the clock where a loop would wait for its timers."""

    def __init__(self, clock: FakeClock, threads: RunningThreads, patience_s: float) -> None:
        super().__init__()
        self.clock = clock
        self.threads = threads
        self._patience_s = patience_s
        self.goal: _Goal | None = None
        self.jobs: set[asyncio.Future[Any]] = set()
        self.passes = 0
        self._stands_at = -math.inf

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        # Read before the poll: the callbacks that a thread posts before it rests are then among the events.
        running = self.threads.running
        ready = super().select(0)
        if self._is_standing_still():
            self._pass_time(self.clock.now() + STANDSTILL_S, stop_at_timers=False)
            return ready
        waiting = timeout is None or timeout > 0
        if waiting and not ready and (self.jobs or running):
            ready = self._wait_for_thread()
        if waiting and not ready:
            self.jobs.clear()
            self.threads.stop_waiting()
            self._pass_time(math.inf if timeout is None else self.clock.now() + timeout)
        return ready

    def _wait_for_thread(self) -> list[tuple[selectors.SelectorKey, int]]:
        for _ in range(PATIENCE_WAITS):
            if ready := super().select(self._patience_s / PATIENCE_WAITS):
                return ready
        return []

    def _is_standing_still(self) -> bool:
        """Return whether the loop makes pass after pass without time passing, as it does for code that never waits."""
        if self.clock.now() != self._stands_at:
            self._stands_at, self.passes = self.clock.now(), 0
        self.passes += 1
        return self.passes > (BUSY_PASSES if self.threads.running else STANDSTILL_PASSES)

    def _pass_time(self, deadline: float, *, stop_at_timers: bool = True) -> None:
        assert self.goal is not None, "the loop is run by run_until()"
        upcoming = self.clock.upcoming
        if stop_at_timers and upcoming is not None:
            deadline = min(deadline, upcoming)
        if self.goal.done():
            self.goal.stop()
        elif deadline > self.goal.until:
            self.clock.move_to(self.goal.until)
            self.goal.stop()
        else:
            self.clock.move_to(deadline)
