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

logger = logging.getLogger(__name__)

STOP_S = 0.8
LONGEST_PAUSE_S = 30.0
STEADY_S = 30.0


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
        """Start the engine, and again after each crash; raises what makes that pointless, returns after `stop`."""
        crashes = 0
        while True:
            status = await self._live(listener)
            if self.stopping:
                return
            how = describe_exit(status)
            if self._failure is not None or self._ready_at is None:
                raise self._give_up(how, first=crashes == 0)
            crashes = 0 if time.monotonic() - self._ready_at > STEADY_S else crashes
            pause_s = min(LONGEST_PAUSE_S, 0.5 * 2 ** (crashes - 1)) if crashes else 0.0
            crashes += 1
            logger.error("the model's process %s; it is started again in %.1f s", how, pause_s)
            self.phase, self.detail = EnginePhase.LOADING, ""
            self._loading_since = time.monotonic()
            listener.engine_lost(how)
            await asyncio.sleep(pause_s)

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

    async def _live(self, listener: Listener) -> int:
        """Run one process from start to end; returns its exit status."""
        self._failure, self._ready_at = None, None
        process = self._process = EngineProcess(self._output_fd)
        ring = RingReader(process.memory_fd)
        link = self._link = await Link.open(process.socket, lambda message: self._receive(message, ring, listener))
        try:
            link.send(self._load)
            await link.lost
            if not self.stopping:
                self.phase = EnginePhase.LOADING  # whoever comes from here on waits for the next process
                self._loading_since = time.monotonic()
            return await asyncio.to_thread(process.end, time.monotonic() + STOP_S)
        finally:
            self._link = None
            link.close()
            process.close()

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

    def _give_up(self, how: str, *, first: bool) -> ReactorError:
        self.phase = EnginePhase.FAILED
        failure = self._failure or LoadError(f"the model's process {how} while the model was loading")
        if first:
            return failure
        return ModelFailed(
            f"after a crash the model could not be loaded again: {failure.message}",
            hint=failure.hint,
            where=failure.where,
            details=failure.details,
            trail=failure.trail,
        )
