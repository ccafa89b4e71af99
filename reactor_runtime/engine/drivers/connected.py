"""Whether a client is connected: the event `self.connected`."""

from __future__ import annotations

import asyncio
from typing import Any, Literal
from weakref import WeakKeyDictionary

Seen = WeakKeyDictionary[asyncio.Task[Any], int]


class Connected(asyncio.Event):
    """Be set in two steps: for `is_set()` when a client connects, for `wait()` when `@connected` has finished.

    `@connected` runs between the two: `is_set()` is true in it, and a `run()` that waits continues only after it. The
    next client may come before a task could see the event cleared. For such a task `is_set()` is false once more, until
    it waits or yields to the loop, and what it had begun is not for the new client.
    """

    def __init__(self) -> None:
        super().__init__()
        self._here = False
        self._client = 0
        self._seen: Seen = WeakKeyDictionary()
        self._working_for: Seen = WeakKeyDictionary()

    def is_set(self) -> bool:
        task = _current_task()
        if task is None:
            return self._here
        if self._here and self._seen.get(task, self._client) == self._client:
            self._look(task)
            return True
        if task in self._seen:
            asyncio.get_running_loop().call_soon(self._seen.pop, task, None)
        return False

    def arrive(self) -> None:
        """Set the event for tasks that call `is_set()`."""
        self._here = True
        self._client += 1
        self._look(_current_task())

    def release(self) -> None:
        """Set the event for tasks that `wait()`."""
        self._here = True
        super().set()

    def clear(self) -> None:
        self._here = False
        super().clear()

    async def wait(self) -> Literal[True]:
        if super().is_set():
            # a run() that calls this again and again without waiting must not starve the loop
            await asyncio.sleep(0)
        else:
            await super().wait()
        self._look(_current_task())
        return True

    def seen_another(self) -> bool:
        """Return whether the running task has, since its last call, seen a client that is no longer the current one."""
        task = _current_task()
        return task is not None and self._working_for.pop(task, self._client) != self._client

    def _look(self, task: asyncio.Task[Any] | None) -> None:
        if task is not None:
            self._seen[task] = self._working_for[task] = self._client


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # a thread of the author's
        return None
