"""Liveness: whether the model's loop runs, where the author's code is, and which session does not end.

Sources of heartbeats answer the server, `EndWatch` writes to the log, and the functions read the stacks of other
threads. The server decides what follows from a missing heartbeat (`server.workers`).
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import selectors
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import CoroutineType, FrameType
from typing import Any

from reactor_runtime.errors import is_in_project, is_ours
from reactor_runtime.ipc.messages import Heartbeat

logger = logging.getLogger(__name__)

REPORT_S = 10.0
DEBUGGERS = ("bdb.py", "pydevd.py")
_ASYNCIO = Path(asyncio.__file__).parent


class HeartbeatSource:
    """Report whether the loop ran between two requests; belongs to the thread that reads the requests.

    `stalled` is called on the loop and returns the stack of author's code that makes no progress in another thread,
    else "".
    """

    def __init__(self, post: Callable[[Callable[[], None]], object], stalled: Callable[[], str]) -> None:
        self._post = post
        self._stalled = stalled
        self._loop_turned = True
        self._stalled_at = ""

    def beat(self) -> Heartbeat:
        """Return the state since the last call."""
        if self._loop_turned:
            self._loop_turned = False
            self._post(self._on_loop_turn)
            return Heartbeat(bool(self._stalled_at), self._stalled_at)
        return _beat_of_blocked_loop()

    def _on_loop_turn(self) -> None:
        self._stalled_at = self._stalled()
        self._loop_turned = True


class LoadingHeartbeatSource:
    """Answer while the model loads: the author's code blocks the main thread, and there is no loop yet."""

    def beat(self) -> Heartbeat:
        return _beat_of_blocked_loop()


def _beat_of_blocked_loop() -> Heartbeat:
    main = threading.main_thread().ident
    return Heartbeat(not is_in_debugger(main), author_stack(main))


class EndWatch:
    """Log a session that does not end after its client has left, with the author's line.

    A thread does this, because the author's code may block the loop. `on_start` and `on_end` belong to the loop that
    serves the session; `on_stop` may be called from any thread, at any time.
    """

    def __init__(self, model: str, *, report_s: float = REPORT_S) -> None:
        self._model = model
        self._report_s = report_s
        # A session may end while another thread reports that it stops.
        self._lock = threading.Lock()
        self._session: str | None = None
        self._ended = threading.Event()
        self._served_in: tuple[int, asyncio.Task[Any] | None] = (0, None)

    def on_start(self, session: str) -> None:
        """Start to watch a session that the calling task serves."""
        with self._lock:
            self._session = session
            self._ended = threading.Event()
            self._served_in = threading.get_ident(), asyncio.current_task()

    def on_end(self) -> None:
        with self._lock:
            self._session = None
            self._ended.set()

    def on_stop(self, session: str) -> None:
        """Start to log every `report_s` until the session ends, because its client has left."""
        with self._lock:
            if session != self._session:
                return
            watch = threading.Thread(target=self._watch, args=(self._ended,), name="reactor-end-watch", daemon=True)
        watch.start()

    def _watch(self, ended: threading.Event) -> None:
        stopped_at = time.monotonic()
        while not ended.wait(self._report_s):
            logger.warning(
                "the session of %s has not ended, %.0f s after its client left; the next one waits. It is here:\n%s",
                self._model,
                time.monotonic() - stopped_at,
                self._stack() or "  in a task that the model started",
            )

    def _stack(self) -> str:
        """Format the stack of the author's code that computes, else of the coroutine that waits."""
        thread, task = self._served_in
        frame = sys._current_frames().get(thread)
        inside = itertools.takewhile(_is_above_the_loop, traceback.walk_stack(frame) if frame is not None else ())
        running = _author_lines(list(inside)[::-1])
        return "".join(traceback.format_list(running or _author_lines(_awaited_frames(task))))


def author_stack(thread: int | None) -> str:
    """Format the frames of a thread as a traceback does, without ours; all frames if none is the author's."""
    frame = _newest_frame(thread)
    if frame is None:
        return ""
    lines = traceback.extract_stack(frame)
    theirs = [line for line in lines if not (is_ours(line.filename) or _starts_code(line.filename))]
    return "".join(traceback.format_list(theirs or lines))


def is_in_our_code(thread: int | None) -> bool:
    """Return whether a thread is in our code, for example waits for room."""
    frame = _newest_frame(thread)
    while frame is not None and frame.f_code.co_filename == threading.__file__:
        frame = frame.f_back
    return frame is not None and is_ours(frame.f_code.co_filename)


def is_in_debugger(thread: int | None) -> bool:
    """Return whether a thread is stopped in a debugger, where it may stay for any time."""
    frame = _newest_frame(thread)
    while frame is not None:
        if frame.f_code.co_filename.endswith(DEBUGGERS):
            return True
        frame = frame.f_back
    return False


def project_code(frame: FrameType | None, project: Path) -> FrameType | None:
    """Return the outermost frame of the project that leads to a frame, with no code of ours between, else None."""
    found = None
    while frame is not None and not _is_machinery(file := frame.f_code.co_filename):
        if is_in_project(file, project):
            found = frame
        frame = frame.f_back
    return found


def _newest_frame(thread: int | None) -> FrameType | None:
    return None if thread is None else sys._current_frames().get(thread)


def _starts_code(filename: str) -> bool:
    """Return whether a file starts programs, threads or loops."""
    return filename.startswith("<frozen ") or filename == threading.__file__ or Path(filename).parent == _ASYNCIO


def _is_above_the_loop(frame: tuple[FrameType, int]) -> bool:
    return not Path(frame[0].f_code.co_filename).is_relative_to(_ASYNCIO)


def _awaited_frames(task: asyncio.Task[Any] | None) -> Iterator[tuple[FrameType, int]]:
    """Yield the frames of a task that waits, outermost first."""
    at: object = task.get_coro() if task is not None else None
    while isinstance(at, CoroutineType):
        if at.cr_frame is not None:
            yield at.cr_frame, at.cr_frame.f_lineno
        at = at.cr_await


def _author_lines(frames: Iterable[tuple[FrameType, int]]) -> list[traceback.FrameSummary]:
    """Return the lines without our own frames and those of the event loop."""
    lines = traceback.StackSummary.extract(iter(frames))
    return [line for line in lines if not _is_machinery(line.filename)]


def _is_machinery(filename: str) -> bool:
    return is_ours(filename) or filename == selectors.__file__ or Path(filename).is_relative_to(_ASYNCIO)
