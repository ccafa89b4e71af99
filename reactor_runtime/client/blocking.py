"""The verbs of a client for programs without an event loop: the same session, on a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

from reactor_runtime.client.errors import SessionEnded
from reactor_runtime.client.media import Frame, Sound
from reactor_runtime.client.message import Message, Reply
from reactor_runtime.client.session import Session
from reactor_runtime.client.session_info import SessionInfo
from reactor_runtime.client.status import Status

T = TypeVar("T")

LEAVING_S = 1.0  # what the session's end lets go is done by then; a file that is still on its way is not waited for


class LoopThread:
    """Run an event loop on a thread, for whoever blocks until something there is done."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._closed = False
        self._closing = threading.Lock()  # what is begun before the end is waited for, what comes later is not begun
        self._thread = threading.Thread(target=self._loop.run_forever, name="reactor-client", daemon=True)
        self._thread.start()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what `work` returns; it is cancelled when the wait is interrupted.

        Raises `SessionEnded` once the thread is closed, and when it is closed meanwhile.
        """
        with self._closing:
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

    def each(self, make: Callable[[], AsyncGenerator[T, None]]) -> Iterator[T]:
        """Yield what an iterator there yields."""
        items = make()

        async def step() -> list[T]:
            async for item in items:
                return [item]
            return []

        try:
            while found := self.wait(step()):
                yield found[0]
        except SessionEnded as ended:
            if ended.reason != "closed":
                raise
        finally:
            with contextlib.suppress(SessionEnded):  # the thread has ended, and the iterator with it
                self.wait(items.aclose())

    def call(self, function: Callable[[], T]) -> T:
        """Return what a function returns there."""

        async def work() -> T:
            return function()

        return self.wait(work())

    def close(self) -> None:
        """End the loop and its thread, and every wait with it. Does nothing the second time."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
        asyncio.run_coroutine_threadsafe(_finish(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _finish() -> None:
    """See everything on this loop to its end: what the end of the session doesn't end is cancelled."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        _, late = await asyncio.wait(others, timeout=LEAVING_S)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()


def _closed() -> SessionEnded:
    return SessionEnded("closed", "this client has closed it")


class BlockingSession(SessionInfo):
    """A client's time with a model, without an event loop; `connect` makes it in a `with`.

    Each verb does what that of `Session` does, and blocks where that one is awaited. Any thread may use it; those that
    wait when the session is closed are told `SessionEnded`, and their iterators end.
    """

    def __init__(self, session: Session, thread: LoopThread) -> None:
        super().__init__(session.connection)
        self._session = session
        self._thread = thread

    def ready(self, *, timeout_s: float | None = None) -> None:
        """Block until it is this client's turn. Raises `TimeoutError` when that takes longer than `timeout_s`."""

        async def turn() -> None:
            async with asyncio.timeout(timeout_s):
                await self._session.ready()

        self._thread.wait(turn())

    def send(self, event: str, data: Mapping[str, Any] | None = None, /, **values: Any) -> Reply:
        """Send an event and return its reply once it was applied."""
        return self._thread.wait(self._session.send(event, data, **values))

    def notify(self, event: str, data: Mapping[str, Any] | None = None, /, **values: Any) -> bool:
        """Send an event and return true; return false, and send nothing, while this client controls no session."""
        return self._thread.call(lambda: self._session.notify(event, data, **values))

    def messages(self) -> Iterator[Message]:
        """Yield the model's messages."""
        return self._thread.each(self._session.messages)

    def statuses(self) -> Iterator[Status]:
        """Yield the status and its changes."""
        return self._thread.each(self._session.statuses)

    def frames(self, track: str | None = None, *, decode: bool = True) -> Iterator[Frame]:
        """Yield the newest picture, whenever there is a new one."""
        return self._thread.each(lambda: self._session.frames(track, decode=decode))

    def latest(self, track: str | None = None) -> Frame | None:
        """Return the newest picture there is."""
        return self._thread.call(lambda: self._session.latest(track))

    def frame(self, track: str | None = None, *, after: Reply | None = None) -> Frame:
        """Return the newest picture as soon as there is one; with `after`, one that was made with that event."""
        return self._thread.wait(self._session.frame(track, after=after))

    def sound(self, track: str | None = None) -> Iterator[Sound]:
        """Yield the pieces of a track of sound."""
        return self._thread.each(lambda: self._session.sound(track))

    def publish(self, track: str, content: object) -> Future[bool]:
        """Send a picture or a piece of sound to the model; returns at once, `result()` waits until it has gone."""
        gone: Future[bool] = Future()

        def work() -> None:
            sent = self._session.publish(track, content)
            sent.add_done_callback(lambda sent: gone.set_result(not sent.cancelled() and sent.result()))

        self._thread.call(work)
        return gone

    def upload(
        self,
        content: bytes | str | os.PathLike[str],
        *,
        name: str | None = None,
        content_type: str | None = None,
    ) -> dict[str, str]:
        """Send a file and return what an event's parameter wants in its place."""
        return self._thread.wait(self._session.upload(content, name=name, content_type=content_type))

    def view(self, *, paused: bool = False, max_fps: float | None = None, tracks: list[str] | None = None) -> None:
        """Say what this client wants to be sent from here on."""
        self._thread.call(lambda: self._session.view(paused=paused, max_fps=max_fps, tracks=tracks))

    def here(self) -> None:
        """Answer the server's `idle` notice."""
        self._thread.call(self._session.here)

    def close(self) -> None:
        """Leave: what waits is sent, for a second at most, and the session ends. Does nothing the second time."""
        with contextlib.suppress(SessionEnded):  # the block is over already
            self._thread.wait(self._session.aclose())
