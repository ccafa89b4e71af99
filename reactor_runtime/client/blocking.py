"""`BlockingSession`, for programs without an event loop: the methods of `Session`, run on an event loop in a thread."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Any, TypeVar

from reactor_runtime.client.errors import SessionEnded
from reactor_runtime.client.media import Frame, Sound
from reactor_runtime.client.messages import Message, ModelContract, ReloadNotice, Reply
from reactor_runtime.client.session import Session
from reactor_runtime.client.session_values import SessionValues
from reactor_runtime.client.status import Status
from reactor_runtime.client.steps import Commands, StepsResult

T = TypeVar("T")

# After this time unfinished calls, such as an upload, are cancelled.
CLOSING_S = 1.0


class LoopThread:
    """Run an event loop on a thread; callers on other threads block until their work on the loop is done."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._closed = False
        # Work that is submitted before `close` is waited for; later work is not started.
        self._submit_lock = threading.Lock()
        self._thread = threading.Thread(target=self._loop.run_forever, name="reactor-client", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of `work`; an interrupted wait cancels it.

        Raises `SessionEnded` if the thread is closed before it is done.
        """
        with self._submit_lock:
            if self._closed:
                work.close()
                raise _closed()
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except CancelledError:
            raise _closed() from None
        finally:
            future.cancel()

    def iterate(self, make: Callable[[], AsyncGenerator[T, None]]) -> Iterator[T]:
        """Yield the items of an asynchronous iterator."""
        items = make()

        async def step() -> list[T]:
            async for item in items:
                return [item]
            return []

        try:
            while found := self.run(step()):
                yield found[0]
        except SessionEnded as ended:
            if ended.reason != "closed":
                raise
        finally:
            # After `close` the loop has ended, and the iterator with it.
            with contextlib.suppress(SessionEnded):
                self.run(items.aclose())

    def call(self, function: Callable[[], T]) -> T:
        """Return the result of a function that is called on the loop."""

        async def work() -> T:
            return function()

        return self.run(work())

    def close(self) -> None:
        """End the loop, its thread and all waits. Idempotent."""
        with self._submit_lock:
            if self._closed:
                return
            self._closed = True
        asyncio.run_coroutine_threadsafe(_finish_tasks(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _finish_tasks() -> None:
    """Wait for the other tasks of this loop, and cancel those that take longer than `CLOSING_S`."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        _, late = await asyncio.wait(others, timeout=CLOSING_S)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()


def _closed() -> SessionEnded:
    return SessionEnded("closed", "this client has closed it")


class BlockingSession(SessionValues):
    """A client's session with a model, without an event loop; `connect` makes it in a `with`.

    Each method does the same as that of `Session`, and blocks where that one is awaited. Any thread may call them;
    when the session is closed, waiting calls raise `SessionEnded`, and iterators end.
    """

    def __init__(self, session: Session, thread: LoopThread) -> None:
        super().__init__(session.connection)
        self._session = session
        self._thread = thread

    def ready(self, *, timeout_s: float | None = None) -> None:
        """Block until it is this client's turn. Raises `TimeoutError` after `timeout_s`."""

        async def wait() -> None:
            async with asyncio.timeout(timeout_s):
                await self._session.ready()

        self._thread.run(wait())

    def send(self, event: str, data: Mapping[str, Any] | None = None, /, **values: Any) -> Reply:
        """Send an event and return its reply once it was applied."""
        return self._thread.run(self._session.send(event, data, **values))

    def step(
        self,
        n: int = 1,
        *,
        state: Mapping[str, Any] | None = None,
        commands: Commands = (),
        media: Mapping[str, Iterable[object]] | None = None,
        reset: bool = False,
        seed: int | None = None,
    ) -> StepsResult:
        """Make exactly `n` steps of a stepped session, and return all that they have made."""
        return self._thread.run(
            self._session.step(n, state=state, commands=commands, media=media, reset=reset, seed=seed)
        )

    def notify(self, event: str, data: Mapping[str, Any] | None = None, /, **values: Any) -> bool:
        """Send an event without a reply; return false, and send nothing, while this client may not send events."""
        return self._thread.call(lambda: self._session.notify(event, data, **values))

    def messages(self) -> Iterator[Message]:
        """Yield the model's messages."""
        return self._thread.iterate(self._session.messages)

    def statuses(self) -> Iterator[Status]:
        """Yield the status and its changes."""
        return self._thread.iterate(self._session.statuses)

    def contracts(self) -> Iterator[ModelContract]:
        """Yield the tracks and schema of the model, and their changes."""
        return self._thread.iterate(self._session.contracts)

    def reloads(self) -> Iterator[ReloadNotice]:
        """Yield the last reload and each later one."""
        return self._thread.iterate(self._session.reloads)

    def frames(self, track: str | None = None, *, decode: bool = True) -> Iterator[Frame]:
        """Yield the newest frame, then each time a newer one has arrived the newest."""
        return self._thread.iterate(lambda: self._session.frames(track, decode=decode))

    def latest(self, track: str | None = None) -> Frame | None:
        """Return the newest frame at once, None before the first."""
        return self._thread.call(lambda: self._session.latest(track))

    def frame(self, track: str | None = None, *, after: Reply | None = None) -> Frame:
        """Return the newest frame, waiting for the first; with `after`, for the first one made with that event."""
        return self._thread.run(self._session.frame(track, after=after))

    def sound(self, track: str | None = None) -> Iterator[Sound]:
        """Yield the pieces of an audio track."""
        return self._thread.iterate(lambda: self._session.sound(track))

    def publish(
        self,
        track: str,
        content: object,
        *,
        metadata: Mapping[str, Any] | bytes | None = None,
        capture_time_us: int | None = None,
    ) -> Future[bool]:
        """Send a frame or a piece of sound to the model; returns at once, `result()` waits until it was sent."""
        sent: Future[bool] = Future()

        def work() -> None:
            publishing = self._session.publish(track, content, metadata=metadata, capture_time_us=capture_time_us)
            publishing.add_done_callback(lambda done: sent.set_result(not done.cancelled() and done.result()))

        self._thread.call(work)
        return sent

    def upload(
        self,
        content: bytes | str | os.PathLike[str],
        *,
        name: str | None = None,
        content_type: str | None = None,
    ) -> dict[str, str]:
        """Send a file and return the value for an event's parameter."""
        return self._thread.run(self._session.upload(content, name=name, content_type=content_type))

    def view(
        self,
        *,
        paused: bool = False,
        max_fps: float | None = None,
        tracks: list[str] | None = None,
        codecs: list[str] | None = None,
        seat: int | None = None,
    ) -> None:
        """Set what the server sends from now on."""
        self._thread.call(
            lambda: self._session.view(paused=paused, max_fps=max_fps, tracks=tracks, codecs=codecs, seat=seat)
        )

    def request_key(self, track: str) -> None:
        """Request that the video stream of a track begins anew."""
        self._thread.call(lambda: self._session.request_key(track))

    def here(self) -> None:
        """Answer the server's `idle` notice."""
        self._thread.call(self._session.here)

    def reload(self) -> None:
        """Reload the project's files."""
        self._thread.call(self._session.reload)

    def keep(self) -> Path:
        """Save a recording of the session up to now, and return its path on the server's machine."""
        return self._thread.run(self._session.keep())

    def expect_types(self, types: str) -> None:
        """Log a warning once if the model has other types than a generated client, which calls this."""
        self._thread.call(lambda: self._session.expect_types(types))

    def close(self) -> None:
        """Send what is queued, for a second at most, then end the session. Idempotent."""
        # The `with` block may have ended, and the thread with it.
        with contextlib.suppress(SessionEnded):
            self._thread.run(self._session.aclose())
