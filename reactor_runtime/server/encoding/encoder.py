"""Encoder threads beside the event loop, which run jobs and encode bands that the engine hints at.

The image library releases the interpreter lock meanwhile. The contents of a job are left to `jobs.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from reactor_runtime.ipc.encode_hint import SIZE, EncodeHint
from reactor_runtime.ipc.ring import RingReader
from reactor_runtime.server.encoding.encoded import Work
from reactor_runtime.server.encoding.encodings import DEFAULT
from reactor_runtime.server.encoding.track_encoding import TOP

R = TypeVar("R")

MOST_THREADS = 4
END_S = 1.0
# macOS reports ENOBUFS where Linux reports EAGAIN
FULL = (errno.EAGAIN, errno.EWOULDBLOCK, errno.ENOBUFS)


class EncodedBand(NamedTuple):
    """A frame of a bundle, or a band of one, that was encoded before the bundle's job was submitted."""

    file: bytes
    work: Work


# all bands of a bundle that the engine hinted at, in its order
BandsAhead = tuple[EncodedBand, ...]
Job = Callable[[BandsAhead | None], R]
# an engine run and the number of a bundle in it
Key = tuple[int, int]


class HintedBundle(NamedTuple):
    """A bundle and the number of encode hints that its engine sent for it."""

    key: Key
    hints: int


@dataclass(slots=True)
class _HintedWork:
    """The bands of a bundle that were encoded on hints, None for one that failed, and the task that waits for them."""

    bands: dict[int, EncodedBand | None] = field(default_factory=dict)
    task: _Task | None = None
    expected_bands: int = 0

    @property
    def ahead(self) -> BandsAhead | None:
        """All bands in order, None if one failed."""
        found = [self.bands[index] for index in sorted(self.bands)]
        known = tuple(band for band in found if band is not None)
        return known if len(known) == len(found) else None


class _Task(NamedTuple):
    job: Job[Any]
    done: Callable[[Future[Any]], object]
    loop: asyncio.AbstractEventLoop

    def run(self, ahead: BandsAhead | None) -> None:
        outcome: Future[Any] = Future()
        try:
            outcome.set_result(self.job(ahead))
        # the outcome carries the error to the submitter
        except Exception as error:  # noqa: BLE001
            outcome.set_exception(error)
        # the last jobs may outlive the server's loop
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.done, outcome)


class Encoder:
    """Run encoding jobs on two to four threads, which leaves processors to the model.

    The threads wait on one datagram socket. An engine that has placed a frame, or a band of one, in shared memory sends
    a hint through it, and one thread encodes that part; a submitted job wakes a thread with an empty datagram.
    """

    def __init__(self) -> None:
        self.engines_end, self._end = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.engines_end.setblocking(False)
        self._rings: dict[int, RingReader] = {}
        self._without_ahead: set[int] = set()
        self._engine_runs = itertools.count(1)
        self._tasks: deque[tuple[_Task, BandsAhead | None]] = deque()
        self._hinted_work: dict[Key, _HintedWork] = {}
        self._lock = threading.Lock()
        self._closed = False
        self.threads = [
            threading.Thread(target=self._run_thread, name=f"reactor-encode-{number}", daemon=True)
            for number in range(_thread_count())
        ]
        for thread in self.threads:
            thread.start()

    def add_engine(self, engine_run: int, ring: RingReader) -> None:
        """Encode on the hints of an engine, whose pixels are in `ring`."""
        self._rings[engine_run] = ring

    def set_ahead(self, engine_run: int, wanted: bool) -> None:
        """Turn encoding ahead on or off for an engine.

        Hints encode the top rung of the default encoding, which may not be in use.
        """
        (self._without_ahead.discard if wanted else self._without_ahead.add)(engine_run)

    def remove_engine(self, engine_run: int) -> None:
        """Ignore the hints of an engine that has ended, and drop its bands that no job waits for."""
        with self._lock:
            self._rings.pop(engine_run, None)
            for key in [key for key, work in self._hinted_work.items() if key[0] == engine_run and work.task is None]:
                del self._hinted_work[key]
        self._without_ahead.discard(engine_run)

    def next_engine_run(self) -> int:
        """Return a new number for an engine process that is about to start."""
        return next(self._engine_runs)

    @property
    def unclaimed(self) -> int:
        """The number of bundles encoded on hints whose job has not been submitted."""
        with self._lock:
            return sum(work.task is None for work in self._hinted_work.values())

    def submit(self, job: Job[R], done: Callable[[Future[R]], object], hinted: HintedBundle | None = None) -> None:
        """Start a job, and call `done` with its outcome on the running loop, one turn after its end.

        The job of a `hinted` bundle receives the bands that were encoded ahead. Every hinted bundle needs a job:
        otherwise its bands are kept until its engine ends.
        """
        task, ahead = _Task(job, done, asyncio.get_running_loop()), None
        if hinted is not None and hinted.key[0] in self._rings:
            with self._lock:
                work = self._hinted_work.setdefault(hinted.key, _HintedWork())
                if len(work.bands) < hinted.hints:
                    # the thread that encodes the last band runs the task
                    work.task, work.expected_bands = task, hinted.hints
                    return
                del self._hinted_work[hinted.key]
                ahead = work.ahead
        self._tasks.append((task, ahead))
        self._wake()

    def close(self) -> None:
        """Drop the jobs that have not started, and wait up to 1 s for each thread."""
        self._closed = True
        self._tasks.clear()
        for _ in self.threads:
            self._wake()
        for thread in self.threads:
            thread.join(END_S)
        self.engines_end.close()
        self._end.close()

    def _wake(self) -> None:
        try:
            self.engines_end.send(b"")
        except OSError as error:
            # a full queue keeps every thread awake
            if error.errno not in FULL:
                raise

    def _run_thread(self) -> None:
        while not self._closed:
            packet = self._end.recv(SIZE)
            if packet:
                self._encode_hinted(EncodeHint.from_bytes(packet))
            while self._tasks:
                try:
                    task, ahead = self._tasks.popleft()
                except IndexError:
                    # another thread was faster
                    break
                task.run(ahead)

    def _encode_hinted(self, hint: EncodeHint) -> None:
        band = self._encode_band(hint)
        key = hint.engine_run, hint.bundle
        with self._lock:
            work = self._hinted_work.setdefault(key, _HintedWork())
            work.bands[hint.part] = band
            # the job has not been submitted yet
            if work.task is None and hint.engine_run in self._rings:
                return
            # other threads encode the rest
            if work.task is not None and len(work.bands) < work.expected_bands:
                return
            del self._hinted_work[key]
        if work.task is not None:
            work.task.run(work.ahead)

    def _encode_band(self, hint: EncodeHint) -> EncodedBand | None:
        ring = self._rings.get(hint.engine_run)
        if ring is None or hint.engine_run in self._without_ahead:
            return None
        began = time.monotonic()
        try:
            file = DEFAULT.encode(ring.frame(*hint.place), TOP)
        # the job encodes this part again and reports the error
        except Exception:  # noqa: BLE001
            return None
        return EncodedBand(file, Work(began, time.monotonic(), threading.get_native_id()))


def _thread_count() -> int:
    return min(MOST_THREADS, max(2, len(os.sched_getaffinity(0)) - 1 if hasattr(os, "sched_getaffinity") else 2))
