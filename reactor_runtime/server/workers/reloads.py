"""Reports the outcomes of reloads of one engine, and what waits for the next save."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from reactor_runtime import errors
from reactor_runtime.ipc.messages import Reloaded


class Reloads:
    """Report outcomes of reloads.

    `saved` is set when files have changed, and `waits` is true if the engine has to apply them when it has loaded.
    """

    def __init__(self) -> None:
        self.saved = asyncio.Event()
        self.waits = False
        self._unfinished = False
        self._on_reload: Callable[[Reloaded], None] = lambda _: None

    def report_to(self, on_reload: Callable[[Reloaded], None]) -> None:
        """Call `on_reload` with each outcome from now on."""
        self._on_reload = on_reload

    def report(self, reloaded: Reloaded) -> None:
        """Report an outcome; "unchanged" is omitted after "applied", and otherwise reported as "applied"."""
        if reloaded.status == "unchanged":
            if not self._unfinished:
                return
            reloaded = Reloaded("applied")
        self._unfinished = reloaded.status != "applied"
        self._on_reload(reloaded)

    async def wait_for_save(self, failure: errors.ReactorError) -> None:
        """Report why the model can't be loaded, and wait until files have changed since `saved` was cleared."""
        self.report(Reloaded("failed", error=errors.to_json(failure)))
        await self.saved.wait()

    def after_ready(self) -> bool:
        """Report the end of a restart; return whether files have changed while the engine loaded."""
        self.report(Reloaded("unchanged"))
        waited, self.waits = self.waits, False
        return waited
