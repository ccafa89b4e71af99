"""Whether a client is connected, as `self.connected` tells it."""

from __future__ import annotations

import asyncio
from typing import Any, Literal
from weakref import WeakKeyDictionary


class Presence(asyncio.Event):
    """An Event in two steps: set for those who look as soon as a client is there, for those who wait when it is ready.

    Between the two `@connected` runs: it may look, and a `run()` that waits goes on only after it has finished.
    It remembers who saw which client, so that nobody is shown what was made for the one before.
    """

    def __init__(self) -> None:
        super().__init__()
        self._here = False
        self._clients = 0
        self._seen: WeakKeyDictionary[asyncio.Task[Any], int] = WeakKeyDictionary()

    def is_set(self) -> bool:
        if self._here:
            self._look()
        return self._here

    def arrive(self) -> None:
        """Let those who look see the client."""
        self._here = True
        self._clients += 1

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
        self._look()
        return True

    def seen_another(self) -> bool:
        """Tell whether the task that runs has, since it last asked this, seen a client and none after it."""
        task = _current_task()
        seen = None if task is None else self._seen.pop(task, None)
        return seen is not None and seen != self._clients

    def _look(self) -> None:
        task = _current_task()
        if task is not None:
            self._seen[task] = self._clients


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # a thread of the author's
        return None
