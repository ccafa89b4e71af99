"""Whether a client is connected, as `self.connected` tells it."""

from __future__ import annotations

import asyncio
from typing import Literal


class Presence(asyncio.Event):
    """An Event in two steps: set for those who look as soon as a client is there, for those who wait when it is ready.

    Between the two `@connected` runs: it may look, and a `run()` that waits goes on only after it has finished.
    """

    def __init__(self) -> None:
        super().__init__()
        self._here = False

    def is_set(self) -> bool:
        return self._here

    def arrive(self) -> None:
        """Let those who look see the client."""
        self._here = True

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
            return True
        return await super().wait()
