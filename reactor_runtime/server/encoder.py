"""Encoding in a few threads beside the event loop; the JPEG library lets go of the interpreter lock meanwhile."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

R = TypeVar("R")

MOST_THREADS = 4


class Encoder:
    """Run encoding jobs, in order of submission, on as many threads as serve a machine that also runs the model."""

    def __init__(self) -> None:
        threads = min(MOST_THREADS, max(2, len(os.sched_getaffinity(0)) - 1 if hasattr(os, "sched_getaffinity") else 2))
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="reactor-encode")

    def submit(self, job: Callable[[], R], done: Callable[[Future[R]], object]) -> None:
        """Start a job and call `done` with its outcome on the running loop, one turn after its end."""
        loop = asyncio.get_running_loop()

        def pass_on(outcome: Future[R]) -> None:
            if not outcome.cancelled() and not loop.is_closed():  # the last jobs may outlive the server's loop
                loop.call_soon_threadsafe(done, outcome)

        self._pool.submit(job).add_done_callback(pass_on)

    def close(self) -> None:
        """Forget the jobs that have not begun."""
        self._pool.shutdown(wait=False, cancel_futures=True)
