"""Encoder threads beside the event loop. The image library releases the interpreter's lock meanwhile.

A short job that comes alone runs on the loop: waking a thread, and the loop again, costs a third of a small frame.

The contents of a job are left to `jobs.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import Generic, TypeVar

R = TypeVar("R")

MOST_THREADS = 4
END_S = 1.0
# The part of the loop's time for jobs on it, and how much unused time may be spent at once: 480p at 60 fps needs 6 %.
LOOP_SHARE = 0.1
LOOP_AT_ONCE_S = 0.1


class Encoder:
    """Run encoding jobs on two to four threads, which leaves processors to the model; `submit` belongs to one loop."""

    def __init__(self) -> None:
        # None ends a thread
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._closed = False
        # The jobs that threads run, or will.
        self._on_threads = 0
        # The time left for jobs on the loop, and when it was added to.
        self._loop_left_s, self._loop_at = LOOP_AT_ONCE_S, time.monotonic()
        self.threads = [
            threading.Thread(target=self._run_thread, name=f"reactor-encode-{number}", daemon=True)
            for number in range(_thread_count())
        ]
        for thread in self.threads:
            thread.start()

    def submit(
        self,
        jobs: Sequence[Callable[[], R]],
        done: Callable[[Future[list[R]]], object],
        *,
        short: bool = False,
        copies: bool = False,
    ) -> None:
        """Start jobs, and call `done` on the running loop when all have ended.

        The outcome is their results in the order of the jobs, or the error of one that failed. A `short` job may delay
        the loop; it does while no thread is at work, for at most a tenth of the loop's time. One that `copies` takes
        less time than waking a thread, so it does also while threads are at work.
        """
        loop = asyncio.get_running_loop()
        on_loop_now = short and len(jobs) == 1 and (copies or not self._on_threads)
        if on_loop_now and self._may_use_loop(time.monotonic()):
            loop.call_soon(self._run_on_loop, JobBatch(jobs, done))
            return

        def on_loop(outcome: Future[list[R]]) -> None:
            self._on_threads -= len(jobs)
            done(outcome)

        def on_all_ended(outcome: Future[list[R]]) -> None:
            # The last jobs may end after the server's loop.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(on_loop, outcome)

        batch = JobBatch(jobs, on_all_ended)
        self._on_threads += len(jobs)
        for index in range(len(jobs)):
            self._queue.put(partial(batch.run_job, index))

    def _run_on_loop(self, batch: JobBatch[R]) -> None:
        began = time.monotonic()
        batch.run_job(0)
        self._loop_left_s -= time.monotonic() - began

    def _may_use_loop(self, now: float) -> bool:
        self._loop_left_s = min(LOOP_AT_ONCE_S, self._loop_left_s + (now - self._loop_at) * LOOP_SHARE)
        self._loop_at = now
        return self._loop_left_s > 0

    def close(self) -> None:
        """Drop the jobs that have not started, and wait up to 1 s for each thread."""
        self._closed = True
        for _ in self.threads:
            self._queue.put(None)
        for thread in self.threads:
            thread.join(END_S)

    def _run_thread(self) -> None:
        while (task := self._queue.get()) is not None:
            if not self._closed:
                task()


class JobBatch(Generic[R]):
    """Jobs that may run on several threads; the thread of the last one reports the outcome of all."""

    def __init__(self, jobs: Sequence[Callable[[], R]], on_all_ended: Callable[[Future[list[R]]], object]) -> None:
        self._jobs = jobs
        self._on_all_ended = on_all_ended
        self._results: dict[int, R] = {}
        self._error: Exception | None = None
        self._running = len(jobs)
        self._lock = threading.Lock()

    def run_job(self, index: int) -> None:
        """Run one of the jobs; raises nothing."""
        try:
            self._results[index] = self._jobs[index]()
        # The outcome has the error for the submitter.
        except Exception as error:  # noqa: BLE001
            self._error = error
        with self._lock:
            self._running -= 1
            if self._running:
                return
        outcome: Future[list[R]] = Future()
        if self._error is None:
            outcome.set_result([self._results[index] for index in range(len(self._jobs))])
        else:
            outcome.set_exception(self._error)
        self._on_all_ended(outcome)


def _thread_count() -> int:
    return min(MOST_THREADS, max(2, len(os.sched_getaffinity(0)) - 1 if hasattr(os, "sched_getaffinity") else 2))
