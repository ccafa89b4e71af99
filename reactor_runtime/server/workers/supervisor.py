"""The life of the engine's process: started, listened to, and after a crash started again."""

from __future__ import annotations

import asyncio
import errno
import logging
import time
from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Protocol

from reactor_runtime.clock import Clock
from reactor_runtime.errors import LoadError, ModelFailed, ReactorError
from reactor_runtime.ipc import messages as ipc
from reactor_runtime.ipc.process import EngineProcess
from reactor_runtime.ipc.ring import RingReader
from reactor_runtime.server.encoding.encoder import Encoder
from reactor_runtime.server.workers.engine_run import EngineRun
from reactor_runtime.server.workers.restarts import Restarts

logger = logging.getLogger(__name__)

NO_IDS: Mapping[str, str] = MappingProxyType({})
SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EAGAIN})  # they may pass
SHORT = "the model's process can't be started, the next try is in %.1f s: %s"


class EnginePhase(StrEnum):
    """What the engine can do for a client now."""

    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"


class Listener(Protocol):
    """Who is told what the engine says and what becomes of it."""

    def engine_ready(self, load_s: float) -> None: ...

    def engine_said(self, message: ipc.Message, ring: RingReader) -> None: ...

    def engine_lost(self, how: str) -> None:
        """The process has ended by itself while it was serving; `how`, and whether it is started again, in words."""


class Supervisor:
    """Keep one engine running; `run` ends only with the reason why the model can't be served.

    It loads while it holds `loading`, which it shares with the others: two at once would take longer, and twice the
    memory that loading takes.
    """

    def __init__(
        self,
        load: ipc.Load,
        clock: Clock,
        *,
        encoder: Encoder,
        loading: asyncio.Lock,
        start: Callable[..., EngineProcess],
        step_timeout_s: float = 0.0,
        load_timeout_s: float = 0.0,
        ids: Mapping[str, str] = NO_IDS,
    ) -> None:
        self.phase = EnginePhase.LOADING
        self.detail = ""
        self.contract: dict[str, Any] | None = None
        self.restarts = Restarts()
        self.stopping = False  # set it as soon as the server is to stop: from then on an end of the process is expected
        self.draining = False  # from then on no other process is started when this one ends
        self._load = load
        self._clock = clock
        self._loading = loading
        self._start = start
        self._encoder = encoder
        self._step_timeout_s = step_timeout_s
        self._load_timeout_s = load_timeout_s
        self._ids = ids
        self._engine_run: EngineRun | None = None
        self._loads = self._waits = False
        self._loading_since = time.monotonic()

    @property
    def loading_s(self) -> float:
        """How long the model has been loading, in seconds; 0 while others load that came before."""
        return 0.0 if self._waits else time.monotonic() - self._loading_since

    @property
    def busy(self) -> bool:
        """Tell that the engine has a backlog of unread messages: what can be refused should be."""
        return self._engine_run is not None and self._engine_run.link is not None and self._engine_run.link.backlogged

    def send(self, message: ipc.ToEngine) -> None:
        """Tell the engine something; lost when there is none, as its sessions are."""
        if self._engine_run is not None:
            self._engine_run.send(message)

    async def run(self, listener: Listener) -> None:
        """Start the engine, and again after each end; raises what makes that pointless, returns after `stop`."""
        while True:
            pause_s = await self._live(listener)
            if self._is_last():
                return
            if pause_s:
                self.detail = f"the model's process is started again in {pause_s:.1f} s"
            await asyncio.sleep(pause_s)
            if self._is_last():
                return
            self._begin_loading()

    async def stop(self) -> None:
        """End the engine: asked first, then terminated, then killed; takes at most 2 s."""
        self.stopping = True
        if self._engine_run is not None:
            await self._engine_run.stop()

    def kill(self) -> None:
        """End the engine at once."""
        if self._engine_run is not None:
            self._engine_run.process.kill()

    async def _live(self, listener: Listener) -> float:
        """Run one process from start to end; says how long to wait before the next."""
        await self._begin_turn()
        if self._is_last():
            self._end_turn()
            return 0.0
        try:
            engine_run = self._engine_run = EngineRun(
                lambda message, ring: self._receive(message, ring, listener),
                self._clock,
                self._start,
                step_timeout_s=self._step_timeout_s,
                load_timeout_s=self._load_timeout_s,
                encoder=self._encoder,
                ids=self._ids,
            )
        except OSError as error:
            self._end_turn()
            if error.errno in SHORTAGES:
                pause_s = self.restarts.after_shortage()
                logger.error(SHORT, pause_s, error.strerror, extra=self._ids)
                return pause_s
            return self._pause_after_failed_load(LoadError(f"the model's process can't be started: {error.strerror}"))
        try:
            await self._listen(engine_run)
            if not self._is_last():
                self._begin_loading()  # whoever comes from here on waits for the next process
            elif self.draining:
                self.phase = EnginePhase.FAILED
        finally:
            how = await engine_run.end()
            self._end_turn()
        if self.stopping:
            return 0.0
        if engine_run.ready_at is None:
            reason = LoadError(f"the model's process {how} while the model was loading")
            return self._pause_after_failed_load(engine_run.failure or reason)
        pause_s = self.restarts.after_serving(time.monotonic() - engine_run.ready_at)
        if self.draining:
            logger.error("the model's process %s", how, extra=self._ids)
            listener.engine_lost(how)
        else:
            logger.error("the model's process %s; it is started again in %.1f s", how, pause_s, extra=self._ids)
            listener.engine_lost(f"{how}; it is started again")
        return pause_s

    async def _listen(self, engine_run: EngineRun) -> None:
        """Run the process; a failure of ours costs the engine, and not the server."""
        try:
            await engine_run.run(self._load)
        except Exception:
            logger.exception("the model's process can't be listened to any more: it is ended", extra=self._ids)
            engine_run.process.kill()

    async def _begin_turn(self) -> None:
        """Wait until no other engine loads."""
        if self._loading.locked():
            self._waits = True
            await self._loading.acquire()
            self._waits = False
            self._begin_loading()
        else:
            await self._loading.acquire()
        self._loads = True

    def _end_turn(self) -> None:
        if self._loads:
            self._loads = False
            self._loading.release()

    def _is_last(self) -> bool:
        """Tell that no other process is to follow."""
        return self.stopping or self.draining

    def _begin_loading(self) -> None:
        self.phase, self.detail = EnginePhase.LOADING, ""
        self._loading_since = time.monotonic()

    def _receive(self, message: ipc.Message, ring: RingReader, listener: Listener) -> None:
        match message:
            case ipc.Loading():
                self.detail = message.detail
            case ipc.Described():
                self.contract = message.contract
            case ipc.Ready():
                self._end_turn()
                self.phase = EnginePhase.READY
                self.restarts.loaded()
                listener.engine_ready(message.load_s)
            case ipc.Failed():
                logger.debug("the model can't be served: the process ends by itself")
            case _:
                listener.engine_said(message, ring)

    def _pause_after_failed_load(self, failure: ReactorError) -> float:
        """Say how long to wait before the next try; raises why the model can't be served when there is to be none."""
        pause_s = self.restarts.after_failed_load()
        if pause_s is not None:
            logger.error(
                "the model could not be loaded again, the next try is in %.1f s: %s", pause_s, failure, extra=self._ids
            )
            return pause_s
        self.phase = EnginePhase.FAILED
        if self.restarts.failed_loads == 1:
            raise failure
        raise ModelFailed(
            f"after a crash the model could not be loaded again: {failure.message}",
            hint=failure.hint,
            where=failure.where,
            details=failure.details,
            trail=failure.trail,
        )
