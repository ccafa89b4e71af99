"""The life of the engine's process: started, listened to, and after a crash started again."""

from __future__ import annotations

import asyncio
import logging
import time
from enum import StrEnum
from typing import Any, Protocol

from reactor_runtime import errors
from reactor_runtime.errors import LoadError, ModelFailed, ReactorError, describe_exit
from reactor_runtime.seam import messages as seam
from reactor_runtime.seam.link import Link
from reactor_runtime.seam.process import EngineProcess
from reactor_runtime.seam.ring import RingReader
from reactor_runtime.server.restarts import Restarts

logger = logging.getLogger(__name__)

STOP_S = 0.8


class EnginePhase(StrEnum):
    """What the engine can do for a client now."""

    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"


class Listener(Protocol):
    """Who is told what the engine says and what becomes of it."""

    def engine_ready(self, load_s: float) -> None: ...

    def engine_said(self, message: seam.Message, ring: RingReader) -> None: ...

    def engine_lost(self, how: str) -> None:
        """The process has ended by itself while it was serving; it is being started again."""


class Supervisor:
    """Keep one engine running; `run` ends only with the reason why the model can't be served."""

    def __init__(self, load: seam.Load, output_fd: int | None = None) -> None:
        self.phase = EnginePhase.LOADING
        self.detail = ""
        self.contract: dict[str, Any] | None = None
        self.restarts = Restarts()
        self.stopping = False  # set it as soon as the server is to stop: from then on an end of the process is expected
        self._load = load
        self._output_fd = output_fd
        self._link: Link | None = None
        self._process: EngineProcess | None = None
        self._loading_since = time.monotonic()
        self._failure: ReactorError | None = None
        self._ready_at: float | None = None

    @property
    def loading_s(self) -> float:
        """How long the model has been loading, in seconds."""
        return time.monotonic() - self._loading_since

    @property
    def busy(self) -> bool:
        """Tell that the engine has a backlog of unread messages: what can be refused should be."""
        return self._link is not None and self._link.backlogged

    def send(self, message: seam.ToEngine) -> None:
        """Tell the engine something; lost when there is none, as its sessions are."""
        if self._link is not None:
            self._link.send(message)

    async def run(self, listener: Listener) -> None:
        """Start the engine, and again after each end; raises what makes that pointless, returns after `stop`."""
        while True:
            how = await self._live(listener)
            if self._is_stopping():
                return
            if self._ready_at is None:
                pause_s = self._pause_after_failed_load(how)
            else:
                pause_s = self.restarts.after_serving(time.monotonic() - self._ready_at)
                logger.error("the model's process %s; it is started again in %.1f s", how, pause_s)
                self._begin_loading()
                listener.engine_lost(how)
            if pause_s:
                self.detail = f"the model's process is started again in {pause_s:.1f} s"
            await asyncio.sleep(pause_s)
            if self._is_stopping():
                return
            self._begin_loading()

    async def stop(self) -> None:
        """End the engine: asked first, then terminated, then killed; takes at most 2 s."""
        self.stopping = True
        process = self._process
        if process is None:
            return
        self.send(seam.Shutdown())
        await asyncio.to_thread(process.end, time.monotonic() + STOP_S)

    def kill(self) -> None:
        """End the engine at once."""
        if self._process is not None:
            self._process.kill()

    async def _live(self, listener: Listener) -> str:
        """Run one process from start to end; says in words how it ended."""
        self._failure, self._ready_at = None, None
        try:
            process = self._process = EngineProcess(self._output_fd)
        except OSError as error:  # no memory or no descriptors left, which may pass
            return f"can't be started ({error.strerror})"
        ring = RingReader(process.memory_fd)
        link = self._link = await Link.open(process.socket, lambda message: self._receive(message, ring, listener))
        try:
            link.send(self._load)
            await link.lost
            if not self.stopping:
                self._begin_loading()  # whoever comes from here on waits for the next process
            return describe_exit(await asyncio.to_thread(process.end, time.monotonic() + STOP_S))
        finally:
            self._link = None
            link.close()
            process.close()

    def _is_stopping(self) -> bool:
        return self.stopping  # asked anew after each wait, which a type checker doesn't expect of an attribute

    def _begin_loading(self) -> None:
        self.phase, self.detail = EnginePhase.LOADING, ""
        self._loading_since = time.monotonic()

    def _receive(self, message: seam.Message, ring: RingReader, listener: Listener) -> None:
        match message:
            case seam.Loading():
                self.detail = message.detail
            case seam.Described():
                self.contract = message.contract
            case seam.Ready():
                self.phase, self._ready_at = EnginePhase.READY, time.monotonic()
                listener.engine_ready(message.load_s)
            case seam.Failed():
                self._failure = errors.from_json(message.error)
            case _:
                listener.engine_said(message, ring)

    def _pause_after_failed_load(self, how: str) -> float:
        """Say how long to wait before the next try; raises why the model can't be served when there is to be none."""
        failure = self._failure or LoadError(f"the model's process {how} while the model was loading")
        pause_s = self.restarts.after_failed_load()
        if pause_s is not None:
            logger.error("the model could not be loaded again, the next try is in %.1f s: %s", pause_s, failure)
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
