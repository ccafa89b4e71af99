"""Encoding in a few threads beside the event loop; the JPEG library lets go of the interpreter lock meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from reactor_runtime.media import jpeg
from reactor_runtime.seam.nudge import MOST_BYTES, Nudge
from reactor_runtime.seam.ring import RingReader
from reactor_runtime.server.ladder import RUNGS, TOP

R = TypeVar("R")

MOST_THREADS = 4
END_S = 1.0


class Ahead(NamedTuple):
    """The pictures of a moment that were encoded before its job was there, in its order; when, and by which thread."""

    files: tuple[bytes, ...]
    began: float
    ended: float
    thread: int


Job = Callable[[Ahead | None], R]
Key = tuple[int, int]  # of an engine's life, and of a moment in it


@dataclass(slots=True)
class _Early:
    """What is known of a moment that threads were nudged for: the files, the job that wants them, or neither yet."""

    ahead: Ahead | None = None
    ended: bool = False
    task: _Task | None = None


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
        if not self.loop.is_closed():  # the last jobs may outlive the server's loop
            self.loop.call_soon_threadsafe(self.done, outcome)


class Encoder:
    """Run encoding jobs on as many threads as serve a machine that also runs the model.

    The threads wait on one datagram socket. An engine that has placed pictures nudges one of them through it; a job
    that is submitted wakes one with an empty datagram.
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

    def submit(self, job: Job[R], done: Callable[[Future[R]], object], key: Key | None = None) -> None:
        """Start a job and call `done` with its outcome on the running loop, one turn after its end.

        With the `key` of a moment that its engine has nudged for, the job gets what was encoded ahead. Each such moment
        has to have a job, or what was encoded of it is kept as long as its engine lives.
        """
        task, ahead = _Task(job, done, asyncio.get_running_loop()), None
        if key is not None and key[0] in self._rings:
            with self._lock:
                early = self._early.setdefault(key, _Early())
                if not early.ended:
                    early.task = task  # the thread that encodes goes on with it
                    return
                del self._early[key]
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
        with contextlib.suppress(BlockingIOError):  # with so much there no thread sleeps before it looks for jobs
            self.engines_end.send(b"")

    def _work(self) -> None:
        while not self._closed:
            packet = self._end.recv(MOST_BYTES)
            if packet:
                self._nudged(Nudge.from_bytes(packet))
            while self._tasks:
                try:
                    task, ahead = self._tasks.popleft()
                except IndexError:
                    break  # another thread was faster
                task.run(ahead)

    def _nudged(self, nudge: Nudge) -> None:
        ahead = self._encode(nudge)
        key = nudge.life, nudge.moment
        with self._lock:
            early = self._early.setdefault(key, _Early())
            early.ahead, early.ended = ahead, True
            if early.task is not None or nudge.life not in self._rings:
                del self._early[key]
        if early.task is not None:
            early.task.run(ahead)

    def _encode(self, nudge: Nudge) -> Ahead | None:
        ring = self._rings.get(nudge.life)
        if ring is None or nudge.life in self._resting:
            return None
        began = time.monotonic()
        try:
            files = tuple(jpeg.encode(ring.picture(*place), quality=RUNGS[TOP].quality) for place in nudge.places)
        except Exception:  # noqa: BLE001  (the job meets it again, and says so)
            return None
        return Ahead(files, began, time.monotonic(), threading.get_native_id())


def _thread_count() -> int:
    return min(MOST_THREADS, max(2, len(os.sched_getaffinity(0)) - 1 if hasattr(os, "sched_getaffinity") else 2))
