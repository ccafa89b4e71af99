"""`self.connected`, the event that is set while a client is connected."""

from __future__ import annotations

import asyncio
from typing import Any, Literal
from weakref import WeakKeyDictionary

Seen = WeakKeyDictionary[asyncio.Task[Any], int]


class Connected(asyncio.Event):
    """Set the event in two steps: for `is_set()` when a client connects, for `wait()` when `@connected` has finished.

    `@connected` runs between the two: `is_set()` is true in it, and a `run()` that awaits `wait()` continues only after
    it. The next client may connect before a task has seen that the event was cleared. For such a task `is_set()` is
    false until the task awaits something, and its next output is dropped, because it was made for the previous client.
    In conditions the event counts as `is_set()`.

    A plain `asyncio.Event` was measured with 99 clients that connected during a step for the previous client: each got
    a frame of that step, and later frames that were made from the variables `run()` kept for the previous client.
    """

    def __init__(self) -> None:
        super().__init__()
        self._is_connected = False
        self._client = 0
        self._seen: Seen = WeakKeyDictionary()
        self._working_for: Seen = WeakKeyDictionary()

    def __bool__(self) -> bool:
        return self.is_set()

    def is_set(self) -> bool:
        task = _current_task()
        if task is None:
            return self._is_connected
        if self._is_connected and self._seen.get(task, self._client) == self._client:
            self._mark_seen(task)
            return True
        if task in self._seen:
            asyncio.get_running_loop().call_soon(self._seen.pop, task, None)
        return False

    def set_early(self) -> None:
        """Set the event for `is_set()` alone, for a new client."""
        self._is_connected = True
        self._client += 1
        self._mark_seen(_current_task())

    def set(self) -> None:
        """Set the event for `is_set()` and `wait()`."""
        self._is_connected = True
        super().set()

    def clear_wait(self) -> None:
        """Clear the event for `wait()` alone: the client is connected to another instance of the model next."""
        super().clear()

    def clear(self) -> None:
        self._is_connected = False
        super().clear()

    async def wait(self) -> Literal[True]:
        if super().is_set():
            # A run() that calls this repeatedly without another wait must not starve the loop.
            await asyncio.sleep(0)
        else:
            await super().wait()
        self._mark_seen(_current_task())
        return True

    def seen_another(self) -> bool:
        """Return True, once, if another client has connected since the running task last saw the event set."""
        task = _current_task()
        return task is not None and self._working_for.pop(task, self._client) != self._client

    def _mark_seen(self, task: asyncio.Task[Any] | None) -> None:
        if task is not None:
            self._seen[task] = self._working_for[task] = self._client


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    # A thread that the author started has no loop.
    except RuntimeError:
        return None
