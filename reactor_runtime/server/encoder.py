"""Encoding in a few threads beside the event loop; the JPEG library lets go of the interpreter lock meanwhile."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

MOST_THREADS = 4


class Encoder:
    """Run encoding jobs, in order of submission, on as many threads as serve a machine that also runs the model."""

    def __init__(self) -> None:
        threads = min(MOST_THREADS, max(2, len(os.sched_getaffinity(0)) - 1 if hasattr(os, "sched_getaffinity") else 2))
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="reactor-encode")

    def submit(self, job: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[R]:
        """Start a job; the future belongs to the running loop and is never cancelled: the job reads borrowed memory."""
        return asyncio.wrap_future(self._pool.submit(job, *args, **kwargs))

    def close(self) -> None:
        """Forget the jobs that have not begun."""
        self._pool.shutdown(wait=False, cancel_futures=True)
