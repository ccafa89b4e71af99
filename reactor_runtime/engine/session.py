"""One controller's time with the model, as the engine sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from reactor_runtime.authoring.messages import ClientInfo
from reactor_runtime.clock import Alarm, Clock

T = TypeVar("T")


class SessionStopped(Exception):
    """The controller has gone while the author's code was waiting."""


class Session:
    """Know who the controller is, how far its events are applied, and whether it is still there.

    Everything here belongs to the model's thread; `alarm` wakes whatever the driver waits for.
    """

    def __init__(self, session_id: str, client: ClientInfo, clock: Clock, started_at_unix: float) -> None:
        self.id = session_id
        self.client = client
        self.alarm = Alarm(clock)
        self.room = Alarm(clock)
        self.started_at = clock.now()
        self.stopping = False
        self.applied = 0
        self._wall_offset_s = started_at_unix - self.started_at
        self._running: asyncio.Task[Any] | None = None

    def stop(self) -> None:
        """End the session: cancel the author's coroutine that is waiting, wake the driver. May be called twice."""
        self.stopping = True
        if self._running is not None:
            self._running.cancel()
        self.wake()

    def wake(self) -> None:
        """Have everybody look again who waits for something of this session."""
        self.alarm.ring()
        self.room.ring()

    def wall_us(self, now: float) -> int:
        """Turn monotonic seconds into microseconds since the epoch."""
        return int((now + self._wall_offset_s) * 1e6)

    async def guard(self, work: Coroutine[Any, Any, T]) -> T:
        """Await a coroutine of the author's; raises SessionStopped when the session stops meanwhile."""
        if self.stopping:
            work.close()
            raise SessionStopped
        task: asyncio.Task[T] = asyncio.create_task(without_exit(work))
        self._running = task
        try:
            return await task
        except asyncio.CancelledError:
            if not task.cancelled() or _is_being_cancelled():
                raise
            if self.stopping:
                raise SessionStopped from None
            raise RuntimeError("the model awaited something that was cancelled") from None
        finally:
            self._running = None


async def without_exit(work: Coroutine[Any, Any, T]) -> T:
    """Keep a `sys.exit()` of the author's from ending the loop along with the task."""
    try:
        return await work
    except SystemExit as error:
        raise RuntimeError(f"the model called sys.exit({error.code!r})") from error


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
