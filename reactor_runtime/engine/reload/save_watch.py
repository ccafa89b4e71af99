"""Code that has not returned after a save: a thread reports its line, and ends it at the next save.

The author's code may hold the loop for ever, as `while True: pass` does; no reload could be applied then.
"""

from __future__ import annotations

import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from types import FrameType

from reactor_runtime import errors
from reactor_runtime.engine.liveness import is_in_debugger, project_code
from reactor_runtime.ipc.messages import Reloaded

PATIENCE_S = 2.0
PAUSE_S = 0.25
# How often, and how long, the main thread is interrupted; it may be in our code each time.
TRIES, TRY_S = 20, 0.1
# No common library uses it.
SIGNAL = signal.SIGUSR2


class CodeEnded(BaseException):
    """End the author's code because the files were saved again; BaseException, so that `except Exception` passes it."""

    def __init__(self) -> None:
        super().__init__("it had not returned, and was ended by the next save")


class _Event(Enum):
    SAVED = 1
    # The loop has turned, with a reload that is unfinished, or without one.
    BUSY = 2
    DONE = 3


class SaveWatch:
    """Watch the loop after each save until the new code is kept or given up; `on_save` belongs to the reader's thread.

    `post` calls back on the loop, `send` sends to the server, `is_busy` returns whether a reload is unfinished, and
    `is_loading` whether a model loads again, which may take any time.
    """

    def __init__(
        self,
        post: Callable[[Callable[[], None]], object],
        send: Callable[[Reloaded], object],
        *,
        project: Path,
        is_busy: Callable[[], bool],
        is_loading: Callable[[], bool],
    ) -> None:
        self._post = post
        self._send = send
        self._project = project.resolve()
        self._is_busy = is_busy
        self._is_loading = is_loading
        self._events: queue.SimpleQueue[_Event] = queue.SimpleQueue()
        # How many saves there were, on the reader's thread, and how many of them the loop has received.
        self._saves = self._received = 0
        # The code that is to end, and no other.
        self._target: FrameType | None = None

    def start(self) -> None:
        """Start the thread, and let it interrupt the main thread, which calls this."""
        signal.signal(SIGNAL, self._end_code)
        threading.Thread(target=self._run, name="reactor-save-watch", daemon=True).start()

    def on_save(self, apply: Callable[[], object]) -> None:
        """Call `apply` on the loop, watch from here on, and end code that was reported before."""
        self._saves += 1

        def receive() -> None:
            # First: the new code may hold the loop.
            self._received += 1
            apply()

        self._post(receive)
        self._events.put(_Event.SAVED)

    def _run(self) -> None:
        while True:
            self._events.get()
            self._watch()

    def _watch(self) -> None:
        while True:
            self._post(lambda: self._events.put(_Event.BUSY if self._is_busy() else _Event.DONE))
            if (self._next(PATIENCE_S) or self._wait_for_turn()) is _Event.DONE:
                return
            threading.Event().wait(PAUSE_S)

    def _wait_for_turn(self) -> _Event:
        """Report the code that holds the loop, and end it at the next save."""
        saves = self._saves
        if self._received < saves and (self._is_busy() or self._is_loading()):
            # It is the code of an earlier save.
            self._interrupt()
        else:
            self._report()
        while (event := self._events.get()) is _Event.SAVED:
            if self._saves > saves and not is_in_debugger(threading.main_thread().ident):
                self._interrupt()
        return event

    def _next(self, timeout_s: float) -> _Event | None:
        """Return the next turn of the loop; None if none came in time."""
        try:
            while (event := self._events.get(timeout=timeout_s)) is _Event.SAVED:
                pass
        except queue.Empty:
            return None
        return event

    def _report(self) -> None:
        if self._is_loading():
            return
        trail = errors.author_trail(traceback.extract_stack(_main_frame()), self._project)
        where = trail[-1] if trail else None
        what = "the model" if where is None else f"{Path(where.file).name}:{where.line}"
        error = errors.ClassError(f"{what} has not returned", hint="save again to restart", where=where, trail=trail)
        self._send(Reloaded("failed", error=errors.to_json(error)))

    def _end_code(self, _number: int, frame: FrameType | None) -> None:
        """Raise CodeEnded in the code that is to end, and in what it calls, but not in ours and not in the loop."""
        code = project_code(frame, self._project)
        if code is not None and code is self._target:
            raise CodeEnded

    def _interrupt(self) -> None:
        """End the author's code at its line; restart the process if that has no effect, as in a library.

        Only the code that ran when this was called is ended; what runs after it may take any time.
        """
        for _ in range(TRIES):
            self._target = self._target or project_code(_main_frame(), self._project)
            signal.pthread_kill(threading.main_thread().ident or 0, SIGNAL)
            if (event := self._next(TRY_S)) is not None:
                self._events.put(event)
                break
        else:
            if self._target is None or any(frame is self._target for frame, _ in traceback.walk_stack(_main_frame())):
                self._send(Reloaded("restarting", "the model has not returned, and does not end"))
        self._target = None


def _main_frame() -> FrameType | None:
    return sys._current_frames().get(threading.main_thread().ident or 0)
