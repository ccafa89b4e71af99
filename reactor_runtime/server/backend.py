"""Runs the slots of a server: the protocol that `run.py` needs, and the backend with engines of this machine.

A backend makes its slots, adds them to admission, and starts and stops what they run on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from starlette.routing import BaseRoute

from reactor_runtime.errors import ModelFailed
from reactor_runtime.server.encoding.encoder import Encoder
from reactor_runtime.server.housekeeping import keep_running
from reactor_runtime.server.options import Operator, ReloadReport, ServerStatistics
from reactor_runtime.server.routes.uploads import UploadRoute
from reactor_runtime.server.routes.websocket import MessageRouter
from reactor_runtime.server.sessions.admission import Admission
from reactor_runtime.server.sessions.engine_pool import EnginePool
from reactor_runtime.server.sessions.engine_slot import EngineSlot
from reactor_runtime.server.sessions.inbound import Inbound
from reactor_runtime.server.sessions.project_reload import ProjectReload
from reactor_runtime.server.sessions.slot import S, SlotSettings
from reactor_runtime.server.sessions.summary import Summary
from reactor_runtime.server.workers.supervisor import LoadLock


class Backend(Protocol[S]):
    """The slots of a server, and what they run on; use on the server's loop."""

    @property
    def admission(self) -> Admission[S]: ...

    @property
    def inbound(self) -> MessageRouter:
        """Routes what clients send to the models of their sessions."""

    @property
    def reloads(self) -> bool:
        """Return whether the project is reloaded while it is served."""

    def routes(self) -> list[BaseRoute]:
        """Return the routes that only this backend has."""

    def statistics(self) -> ServerStatistics: ...

    async def run(self) -> None:
        """Run until cancelled; raise the reason if the model can't be served."""

    def reload(self) -> None:
        """Execute all modules of the project again; do nothing without --reload."""

    def expect_end(self) -> None:
        """Treat each end of a slot as expected from here on, since the server is stopping."""

    def drain(self) -> None:
        """Load the model no more: the sessions that run are the last."""

    async def stop(self) -> None:
        """End what the slots run on."""

    def kill(self) -> None:
        """Kill what the slots run on, at once."""

    async def aclose(self) -> None:
        """Free everything else, after `stop`."""


class EngineBackend:
    """Run the engines of a server on this machine, with the uploads to them and the reload of their code.

    Calls `on_change` whenever a slot or the wait queue has changed. Engines load one after the other, in the order in
    which they get the lock `loading`.
    """

    def __init__(
        self,
        settings: SlotSettings,
        operator: Operator,
        *,
        on_change: Callable[[], None] = lambda: None,
        loading: LoadLock | None = None,
    ) -> None:
        options = settings.options
        self._operator = operator
        self._encoder = Encoder()
        self.admission = Admission[EngineSlot](settings, on_slot_ready=self._on_ready, on_change=on_change)
        self.inbound = Inbound(self.admission)
        self._engines = EnginePool(self.admission, self._encoder, on_reload=self._on_reload, loading=loading)
        self._reload = None if options.reload is None else ProjectReload(options, options.reload, self._engines)
        self._reloading: set[asyncio.Task[None]] = set()
        self._uploads = UploadRoute(self.admission)
        self._summary = Summary(self.admission, settings.clock)
        self.expect_end = self._engines.expect_end
        self.drain = self._engines.drain
        self.stop = self._engines.stop
        self.kill = self._engines.kill
        self.statistics = self._summary.read

    @property
    def reloads(self) -> bool:
        return self._reload is not None

    def routes(self) -> list[BaseRoute]:
        return [self._uploads.route()]

    async def run(self) -> None:
        others = [asyncio.create_task(keep_running(self._clean, "removing files of killed servers"))]
        if self._reload is not None:
            others.append(asyncio.create_task(keep_running(self._reload.run, "watching the project's files")))
        try:
            await self._engines.run()
        finally:
            others += self._reloading
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

    def reload(self) -> None:
        if self._reload is not None:
            task = asyncio.create_task(self._reload.reload(everything=True))
            self._reloading.add(task)
            task.add_done_callback(self._reloading.discard)

    async def aclose(self) -> None:
        await self._uploads.aclose()
        await asyncio.to_thread(self._encoder.close)
        await self._engines.aclose()

    async def _clean(self) -> None:
        await asyncio.to_thread(self._uploads.clean)

    def _on_reload(self, slot: EngineSlot, report: ReloadReport) -> None:
        # All engines run the same code. An exception of a running model is in the log already, with its traceback.
        if slot.number == 1 and not isinstance(report.error, ModelFailed):
            self._operator.on_reload(report)

    def _on_ready(self, slot: EngineSlot, load_s: float) -> None:
        self._operator.on_ready(self._engines.report_ready(slot, load_s))
