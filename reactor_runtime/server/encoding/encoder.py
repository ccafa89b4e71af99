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

from reactor_runtime.ipc.encode_hint import SIZE, EncodeHint
from reactor_runtime.ipc.ring import RingReader
from reactor_runtime.media import jpeg
from reactor_runtime.server.encoding.encoded import Work
from reactor_runtime.server.encoding.ladder import RUNGS, TOP

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


class HintedBundle(NamedTuple):
    """A moment, and how many nudges its engine gave for it."""

    key: Key
    hints: int


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

    def expect(self, engine_run: int, ring: RingReader) -> None:
        """Let an engine's nudges count, whose pictures lie in `ring`."""
        self._rings[engine_run] = ring

    def anticipate(self, engine_run: int, top: bool) -> None:
        """Say whether an engine's pictures are wanted on the top rung: if not, its nudges start nothing."""
        (self._resting.discard if top else self._resting.add)(engine_run)

    def forget(self, engine_run: int) -> None:
        """Forget an engine that has ended, and what was encoded of it that no job will ask for any more."""
        with self._lock:
            self._rings.pop(engine_run, None)
            for key in [key for key, early in self._early.items() if key[0] == engine_run and early.task is None]:
                del self._early[key]
        self._resting.discard(engine_run)

    def next_run(self) -> int:
        """Give a number to an engine's process that is about to start."""
        return next(self._lives)

    @property
    def unasked(self) -> int:
        """How many moments have been encoded that no job has asked for yet."""
        with self._lock:
            return sum(early.task is None for early in self._early.values())

    def submit(self, job: Job[R], done: Callable[[Future[R]], object], hinted: HintedBundle | None = None) -> None:
        """Start a job and call `done` with its outcome on the running loop, one turn after its end.

        The job of a moment that was `nudged` for gets what was encoded ahead. Each such moment has to have a job, or
        what was encoded of it is kept as long as its engine lives.
        """
        task, ahead = _Task(job, done, asyncio.get_running_loop()), None
        if hinted is not None and hinted.key[0] in self._rings:
            with self._lock:
                early = self._early.setdefault(hinted.key, _Early())
                if len(early.bands) < hinted.hints:
                    early.task, early.count = task, hinted.hints  # the thread that encodes the last goes on with it
                    return
                del self._early[hinted.key]
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
                self._hinted(EncodeHint.from_bytes(packet))
            while self._tasks:
                try:
                    task, ahead = self._tasks.popleft()
                except IndexError:
                    break  # another thread was faster
                task.run(ahead)

    def _hinted(self, hint: EncodeHint) -> None:
        band = self._encode(hint)
        key = hint.engine_run, hint.bundle
        with self._lock:
            early = self._early.setdefault(key, _Early())
            early.bands[hint.part] = band
            if early.task is None and hint.engine_run in self._rings:
                return  # its job is on its way
            if early.task is not None and len(early.bands) < early.count:
                return  # other threads are at the rest
            del self._early[key]
        if early.task is not None:
            early.task.run(early.ahead)

    def _encode(self, hint: EncodeHint) -> Band | None:
        ring = self._rings.get(hint.engine_run)
        if ring is None or hint.engine_run in self._resting:
            return None
        began = time.monotonic()
        try:
            file = jpeg.encode(ring.picture(*hint.place), quality=RUNGS[TOP].quality)
        except Exception:  # noqa: BLE001  (the job meets it again, and says so)
            return None
        return Band(file, Work(began, time.monotonic(), threading.get_native_id()))


def _thread_count() -> int:
    return min(MOST_THREADS, max(2, len(os.sched_getaffinity(0)) - 1 if hasattr(os, "sched_getaffinity") else 2))
