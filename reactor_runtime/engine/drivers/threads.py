"""Threads for the author's code, beside the loop that serves the model.

A fake clock stands still while such a thread runs, so `ThreadTracker` is called when a thread begins, waits, continues
and ends.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from reactor_runtime.engine.liveness import author_stack, is_in_debugger, is_in_our_code

JOIN_S = 1.0

Job = tuple[Callable[[], object], "asyncio.Future[Any]"]
# Makes a coroutine of the author.
Work = Callable[[], Coroutine[Any, Any, object]]


class Gate(Protocol):
    """Block one thread, once, until the loop opens the gate, which may be before and more than once."""

    def wait(self) -> None: ...

    def open(self) -> None: ...


class ThreadTracker(Protocol):
    """Track which of the author's threads run; a thread calls all methods itself but those marked as the loop's."""

    def gate(self) -> Gate: ...

    def begin_work(self, thread: threading.Thread) -> None:
        """Count a thread that is about to get work; called on the loop."""

    def end_work(self, thread: threading.Thread) -> None:
        """Count the work as done; its result was posted to the loop."""

    def poll(self, *, paused: bool) -> None:
        """Wait, on a fake clock, in a `should_stop()` without output since the last one."""

    def notify_input(self) -> None:
        """Wake sessions in `poll`, for a command or an input; called on the loop."""


class UntrackedThreads:
    """Do nothing: a real clock needs no count of threads."""

    def gate(self) -> Gate:
        return _EventGate()

    def begin_work(self, thread: threading.Thread) -> None: ...

    def end_work(self, thread: threading.Thread) -> None: ...

    def poll(self, *, paused: bool) -> None: ...

    def notify_input(self) -> None: ...


class _EventGate:
    def __init__(self) -> None:
        self._event = threading.Event()

    def wait(self) -> None:
        self._event.wait()

    def open(self) -> None:
        self._event.set()


class AuthorThread:
    """Run the author's code in one daemon thread, started with the first work; belongs to the loop's thread.

    It is a daemon so that code that never ends does not prevent the end of the process.
    """

    def __init__(self, name: str, threads: ThreadTracker) -> None:
        self._name = name
        self.begun = 0
        self._threads = threads
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._newest: asyncio.Future[Any] | None = None

    @property
    def busy(self) -> bool:
        """Return whether work is unfinished."""
        return self._newest is not None and not self._newest.done()

    def run(self, work: Callable[[], object]) -> asyncio.Future[Any]:
        """Run `work` after all earlier work; its result or exception becomes the future's."""
        loop = asyncio.get_running_loop()
        done = self._newest = loop.create_future()
        if self._thread is None:
            self._thread = threading.Thread(target=self._body, args=(loop,), name=self._name, daemon=True)
            self._thread.start()
        self.begun += 1
        self._threads.begin_work(self._thread)
        self._jobs.put((work, done))
        return done

    def stack(self) -> str:
        """Format the current stack of the author's code, as a traceback does."""
        return "" if self._thread is None else author_stack(self._thread.ident)

    @property
    def waits(self) -> bool:
        """Return whether the thread waits in our code or is stopped in a debugger."""
        thread = None if self._thread is None else self._thread.ident
        return is_in_our_code(thread) or is_in_debugger(thread)

    def close(self) -> None:
        """End the thread: at once if it is idle, else after its work."""
        if self._thread is not None:
            self._jobs.put(None)
            if not self.busy:
                self._thread.join(JOIN_S)

    def _body(self, loop: asyncio.AbstractEventLoop) -> None:
        thread = threading.current_thread()
        while (job := self._jobs.get()) is not None:
            _do(loop, *job)
            # It would keep the author's result or exception alive.
            del job
            self._threads.end_work(thread)


class AuthorLoop:
    """Run coroutines of the author on an event loop of their own, in a daemon thread; belongs to the model's thread."""

    def __init__(self, name: str, threads: ThreadTracker) -> None:
        self._name = name
        self._threads = threads
        self._thread: threading.Thread | None = None
        self._started = threading.Event()
        # Set by the thread before `_started`.
        self._loop: asyncio.AbstractEventLoop
        self._closed: asyncio.Event
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Start the thread, if it does not run."""
        if self._thread is None:
            self._started.clear()
            self._thread = threading.Thread(target=self._body, name=self._name, daemon=True)
            self._thread.start()
            self._started.wait()

    def run(self, work: Work, loop: asyncio.AbstractEventLoop) -> asyncio.Future[Any]:
        """Start the coroutine that `work` makes; its result or exception becomes that of a future on `loop`.

        Cancelling the future cancels the coroutine, and has its effect here even if the coroutine never waits.
        """
        self.start()
        assert self._thread is not None, "start() makes it"
        done = loop.create_future()
        self._threads.begin_work(self._thread)
        self._loop.call_soon_threadsafe(self._begin, work, loop, done)
        return done

    def close(self) -> None:
        """Cancel what runs, and end the thread; idempotent."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._loop.call_soon_threadsafe(self._closed.set)
            thread.join(JOIN_S)

    def _body(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._closed = asyncio.get_running_loop(), asyncio.Event()
        self._started.set()
        await self._closed.wait()

    def _begin(self, work: Work, loop: asyncio.AbstractEventLoop, done: asyncio.Future[Any]) -> None:
        task = asyncio.create_task(self._do(work, loop, done))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        _post(loop, lambda: done.add_done_callback(lambda _: _cancel(self._loop, task)))

    async def _do(self, work: Work, loop: asyncio.AbstractEventLoop, done: asyncio.Future[Any]) -> None:
        result: object = None
        failure: Exception | None = None
        try:
            result = await work()
        # The future raises it; it is cancelled before this task is.
        except BaseException as error:  # noqa: BLE001
            failure = _as_exception(error)
        _post(loop, lambda: _settle(done, result, failure))
        self._threads.end_work(threading.current_thread())


def _cancel(loop: asyncio.AbstractEventLoop, task: asyncio.Task[None]) -> None:
    if not task.done() and not loop.is_closed():
        loop.call_soon_threadsafe(task.cancel)


def _post(loop: asyncio.AbstractEventLoop, callback: Callable[[], object]) -> None:
    """Call back on the loop; do nothing if it is closed, because then the model has ended."""
    try:
        loop.call_soon_threadsafe(callback)
    except RuntimeError:
        if not loop.is_closed():
            raise


def _do(loop: asyncio.AbstractEventLoop, work: Callable[[], object], done: asyncio.Future[Any]) -> None:
    result: object = None
    failure: Exception | None = None
    try:
        result = work()
    # The future raises it.
    except BaseException as error:  # noqa: BLE001
        failure = _as_exception(error)
    _post(loop, lambda: _settle(done, result, failure))


def _settle(done: asyncio.Future[Any], result: object, failure: Exception | None) -> None:
    if done.done():
        return
    if failure is None:
        done.set_result(result)
    else:
        done.set_exception(failure)


def _as_exception(error: BaseException) -> Exception:
    """Convert exceptions that a future can't hold, or that would end the program, to RuntimeError."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    what = f"called sys.exit({error.code!r})" if isinstance(error, SystemExit) else f"raised {type(error).__name__}"
    return RuntimeError(f"the model {what}").with_traceback(error.__traceback__)
