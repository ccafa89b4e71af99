"""The runners that a model starts: their processes end with the engine, and the engine with one that is unhealthy."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable

from reactor_runtime.distributed.errors import RunnerUnhealthy
from reactor_runtime.distributed.owner import GRACE_S, Ranks
from reactor_runtime.ipc.messages import Grace


class ModelRunners:
    """Own the `DistributedRunner`s that `load()` starts.

    `lost` is why the model can't be served any longer, None while it can; `on_lost` is called when that is set, on any
    thread. `send` sends the server how long the end of the process may take.
    """

    def __init__(self, send: Callable[[Grace], object], on_lost: Callable[[RunnerUnhealthy], object]) -> None:
        self.lost: RunnerUnhealthy | None = None
        self._send = send
        self._on_lost = on_lost
        self._ranks: weakref.WeakSet[Ranks] = weakref.WeakSet()

    @property
    def modules(self) -> frozenset[str]:
        """Return the modules of the workers that run in other processes."""
        return frozenset(ranks.module for ranks in self._ranks)

    def on_runner_start(self, ranks: Ranks) -> None:
        """Note that a runner has started; any thread."""
        self._ranks.add(ranks)
        self._send(Grace(GRACE_S))

    def on_runner_lost(self, error: RunnerUnhealthy) -> None:
        """Note that a runner has become unhealthy: only another process can serve the model; any thread."""
        self.lost = error
        self._on_lost(error)

    async def shutdown(self) -> None:
        """End the ranks: the process ends without calling exit handlers."""
        for ranks in tuple(self._ranks):
            await asyncio.to_thread(ranks.shutdown)
