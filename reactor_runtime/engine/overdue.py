"""Says in the log that a session doesn't end though its client has left, and where the author's code is meanwhile."""

from __future__ import annotations

import asyncio
import itertools
import logging
import selectors
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CoroutineType, FrameType
from typing import Any

from reactor_runtime.errors import is_ours

logger = logging.getLogger(__name__)

REPORT_S = 10.0
_ASYNCIO = Path(asyncio.__file__).parent


class Overdue:
    """Watch the end of one session after the other, from a thread: the author's code may hold the loop.

    `begin` and `end` belong to the loop that serves the session; `stopping` may come from any thread, at any time.
    """

    def __init__(self, model: str, *, report_s: float = REPORT_S) -> None:
        self._model = model
        self._report_s = report_s
        self._lock = threading.Lock()  # a session may end while another thread hears that it is to be stopped
        self._session: str | None = None
        self._ended = threading.Event()
        self._serving: tuple[int, asyncio.Task[Any] | None] = (0, None)

    def begin(self, session: str) -> None:
        """A session is served from here on, by the task that calls."""
        with self._lock:
            self._session = session
            self._ended = threading.Event()
            self._serving = threading.get_ident(), asyncio.current_task()

    def end(self) -> None:
        with self._lock:
            self._session = None
            self._ended.set()

    def stopping(self, session: str) -> None:
        """The client has left: the session should end soon."""
        with self._lock:
            if session != self._session:
                return
            watch = threading.Thread(target=self._watch, args=(self._ended,), name="reactor-overdue", daemon=True)
        watch.start()

    def _watch(self, ended: threading.Event) -> None:
        stopped_at = time.monotonic()
        while not ended.wait(self._report_s):
            logger.warning(
                "the session of %s has not ended, %.0f s after its client left; the next one waits. It is here:\n%s",
                self._model,
                time.monotonic() - stopped_at,
                self._stack() or "  in a task of the model's",
            )

    def _stack(self) -> str:
        """Say where the author's code is, as a traceback does: what it computes, or else what it awaits."""
        thread, task = self._serving
        frame = sys._current_frames().get(thread)
        inside = itertools.takewhile(_inside_the_loop, traceback.walk_stack(frame) if frame is not None else ())
        running = _of_author(list(inside)[::-1])
        return "".join(traceback.format_list(running or _of_author(_awaited(task))))


def _inside_the_loop(frame: tuple[FrameType, int]) -> bool:
    return not Path(frame[0].f_code.co_filename).is_relative_to(_ASYNCIO)


def _awaited(task: asyncio.Task[Any] | None) -> Iterator[tuple[FrameType, int]]:
    """List the frames of a task that waits, outermost first."""
    at: object = task.get_coro() if task is not None else None
    while isinstance(at, CoroutineType):
        if at.cr_frame is not None:
            yield at.cr_frame, at.cr_frame.f_lineno
        at = at.cr_await


def _of_author(frames: Iterable[tuple[FrameType, int]]) -> list[traceback.FrameSummary]:
    """Leave out our own frames and those of the event loop."""
    lines = traceback.StackSummary.extract(iter(frames))
    return [line for line in lines if not _is_machinery(line.filename)]


def _is_machinery(filename: str) -> bool:
    return is_ours(filename) or filename == selectors.__file__ or Path(filename).is_relative_to(_ASYNCIO)
