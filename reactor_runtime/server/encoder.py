"""Encoding in a few threads beside the event loop; the JPEG library lets go of the interpreter lock meanwhile."""

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

from reactor_runtime.media import jpeg
from reactor_runtime.seam.nudge import SIZE, Nudge
from reactor_runtime.seam.ring import RingReader
from reactor_runtime.server.encoded import Work
from reactor_runtime.server.ladder import RUNGS, TOP

R = TypeVar("R")

MOST_THREADS = 4
END_S = 1.0
FULL = (errno.EAGAIN, errno.EWOULDBLOCK, errno.ENOBUFS)  # macOS says ENOBUFS where Linux says EAGAIN


class Band(NamedTuple):
    """A picture of a moment, or a band of one, that was encoded before the moment's job was there."""

    file: bytes
    work: Work


Ahead = tuple[Band, ...]  # all that the engine nudged for, in its order
Job = Callable[[Ahead | None], R]
Key = tuple[int, int]  # of an engine's life, and of a moment in it


class Nudged(NamedTuple):
    """A moment, and how many nudges its engine gave for it."""

    key: Key
    nudges: int


@dataclass(slots=True)
class _Early:
    """What is known of a moment that threads were nudged for: bands, None for one that failed, and who wants them."""

    bands: dict[int, Band | None] = field(default_factory=dict)
    task: _Task | None = None
    count: int = 0  # of the bands that the task waits for

    @property
    def ahead(self) -> Ahead | None:
        found = [self.bands[index] for index in sorted(self.bands)]
        known = tuple(band for band in found if band is not None)
        return known if len(known) == len(found) else None


class _Task(NamedTuple):
    job: Job[Any]
    done: Callable[[Future[Any]], object]
    loop: asyncio.AbstractEventLoop

    def run(self, ahead: Ahead | None) -> None:
        outcome: Future[Any] = Future()
        try:
            outcome.set_result(self.job(ahead))
        except Exception as error:  # noqa: BLE001  (whoever submitted it is told)
            outcome.set_exception(error)
        with contextlib.suppress(RuntimeError):  # the last jobs may outlive the server's loop
            self.loop.call_soon_threadsafe(self.done, outcome)


class Encoder:
    """Run encoding jobs on as many threads as serve a machine that also runs the model.

    The threads wait on one datagram socket. An engine that has placed a picture, or a band of one, nudges one of them
    through it; a job that is submitted wakes one with an empty datagram.
    """

    def __init__(self) -> None:
        self.engines_end, self._end = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.engines_end.setblocking(False)
        self._rings: dict[int, RingReader] = {}
        self._resting: set[int] = set()
        self._lives = itertools.count(1)
        self._tasks: deque[tuple[_Task, Ahead | None]] = deque()
        self._early: dict[Key, _Early] = {}
        self._lock = threading.Lock()
        self._closed = False
        self.threads = [
            threading.Thread(target=self._work, name=f"reactor-encode-{number}", daemon=True)
            for number in range(_thread_count())
        ]
        for thread in self.threads:
            thread.start()

    def expect(self, life: int, ring: RingReader) -> None:
        """Let an engine's nudges count, whose pictures lie in `ring`."""
        self._rings[life] = ring

    def anticipate(self, life: int, top: bool) -> None:
        """Say whether an engine's pictures are wanted on the top rung: if not, its nudges start nothing."""
        (self._resting.discard if top else self._resting.add)(life)

    def forget(self, life: int) -> None:
        """Forget an engine that has ended, and what was encoded of it that no job will ask for any more."""
        with self._lock:
            self._rings.pop(life, None)
            for key in [key for key, early in self._early.items() if key[0] == life and early.task is None]:
                del self._early[key]
        self._resting.discard(life)

    def next_life(self) -> int:
        """Give a number to an engine's process that is about to start."""
        return next(self._lives)

    @property
    def unasked(self) -> int:
        """How many moments have been encoded that no job has asked for yet."""
        with self._lock:
            return sum(early.task is None for early in self._early.values())

    def submit(self, job: Job[R], done: Callable[[Future[R]], object], nudged: Nudged | None = None) -> None:
        """Start a job and call `done` with its outcome on the running loop, one turn after its end.

        The job of a moment that was `nudged` for gets what was encoded ahead. Each such moment has to have a job, or
        what was encoded of it is kept as long as its engine lives.
        """
        task, ahead = _Task(job, done, asyncio.get_running_loop()), None
        if nudged is not None and nudged.key[0] in self._rings:
            with self._lock:
                early = self._early.setdefault(nudged.key, _Early())
                if len(early.bands) < nudged.nudges:
                    early.task, early.count = task, nudged.nudges  # the thread that encodes the last goes on with it
                    return
                del self._early[nudged.key]
                ahead = early.ahead
        self._tasks.append((task, ahead))
        self._wake()

    def close(self) -> None:
        """Forget the jobs that have not begun, and wait for those that have."""
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
            if error.errno not in FULL:  # with so much there no thread sleeps before it looks for jobs
                raise

    def _work(self) -> None:
        while not self._closed:
            packet = self._end.recv(SIZE)
            if packet:
                self._nudged(Nudge.from_bytes(packet))
            while self._tasks:
                try:
                    task, ahead = self._tasks.popleft()
                except IndexError:
                    break  # another thread was faster
                task.run(ahead)

    def _nudged(self, nudge: Nudge) -> None:
        band = self._encode(nudge)
        key = nudge.life, nudge.moment
        with self._lock:
            early = self._early.setdefault(key, _Early())
            early.bands[nudge.part] = band
            if early.task is None and nudge.life in self._rings:
                return  # its job is on its way
            if early.task is not None and len(early.bands) < early.count:
                return  # other threads are at the rest
            del self._early[key]
        if early.task is not None:
            early.task.run(early.ahead)

    def _encode(self, nudge: Nudge) -> Band | None:
        ring = self._rings.get(nudge.life)
        if ring is None or nudge.life in self._resting:
            return None
        began = time.monotonic()
        try:
            file = jpeg.encode(ring.picture(*nudge.place), quality=RUNGS[TOP].quality)
        except Exception:  # noqa: BLE001  (the job meets it again, and says so)
            return None
        return Band(file, Work(began, time.monotonic(), threading.get_native_id()))


def _thread_count() -> int:
    return min(MOST_THREADS, max(2, len(os.sched_getaffinity(0)) - 1 if hasattr(os, "sched_getaffinity") else 2))
