"""Whether a client is connected, as `self.connected` tells it."""

from __future__ import annotations

import asyncio
from typing import Any, Literal
from weakref import WeakKeyDictionary

Seen = WeakKeyDictionary[asyncio.Task[Any], int]


class Connected(asyncio.Event):
    """An Event in two steps: set for those who look as soon as a client is there, for those who wait when it is ready.

    Between the two `@connected` runs: it may look, and a `run()` that waits goes on only after it has finished.
    The next client may come so soon that a task had no chance to see the Event cleared in between. Such a task finds it
    cleared when it looks next, until it waits or gives way; and what it had begun is not for the new client.
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
        """Let those who look see the client."""
        self._here = True
        self._client += 1
        self._look(_current_task())

    def release(self) -> None:
        """Let those go on who wait for the client."""
        self._here = True
        super().set()

    def clear(self) -> None:
        self._here = False
        super().clear()

    async def wait(self) -> Literal[True]:
        if super().is_set():
            await asyncio.sleep(0)  # a run() that comes back here at once, time and again, leaves room for all else
        else:
            await super().wait()
        self._look(_current_task())
        return True

    def seen_another(self) -> bool:
        """Tell whether the task that runs has, since it last asked this, seen a client and none after it."""
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
