"""Keeps an engine running in a process of this machine: starts it, and starts it again after a crash.

One process from start to end is `engine_run.py`; the pauses between processes are `restarts.py`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from reactor_runtime.clock import Clock
from reactor_runtime.errors import LoadError, ModelFailed, ReactorError
from reactor_runtime.ipc import messages as ipc
from reactor_runtime.ipc.process import EngineProcess
from reactor_runtime.ipc.shortage import is_shortage
from reactor_runtime.oom_kills import OomKills
from reactor_runtime.server.options import ServeOptions
from reactor_runtime.server.workers.engine import EngineCallbacks, EnginePhase
from reactor_runtime.server.workers.engine_run import EngineRun, OfEngine
from reactor_runtime.server.workers.reloads import Reloads
from reactor_runtime.server.workers.restarts import Restarts

logger = logging.getLogger(__name__)

MEASURED_FIRST = "the first session is measured before there is a second one"
SHORT_OF = "no memory, descriptor or process is left"


class LoadLock(Protocol):
    """A lock that an engine holds while it loads, as `asyncio.Lock`."""

    def locked(self) -> bool: ...

    async def acquire(self) -> object: ...

    def release(self) -> None: ...


class Supervisor:
    """Keep one engine running; `run` ends only with the reason why the model can't be served.

    The engine loads while the supervisor holds `loading`, a lock that all supervisors of a server share: two engines
    that load at once take longer, and twice the memory of loading.
    """

    def __init__(
        self,
        load: ipc.Load,
        clock: Clock,
        options: ServeOptions,
        *,
        loading: LoadLock,
        start: Callable[..., EngineProcess],
        ids: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self.phase = EnginePhase.LOADING
        self.detail = ""
        self.progress: float | None = None
        self.contract: dict[str, Any] | None = None
        # The one that clients have, while another is loaded.
        self._sent_contract: dict[str, Any] | None = None
        self.config_file = ""
        # One session until it is measured.
        self.fitting, self.limit = 1, ""
        self._restarts = Restarts()
        self._stopping = False
        self._draining = False
        self._load = load
        self._clock = clock
        self._loading = loading
        self._start = start
        self._options = options
        self._ids = ids
        self._engine_run: EngineRun | None = None
        self.reloads = Reloads()
        self._restart: asyncio.Task[None] | None = None
        self._holds_loading = self._awaits_loading = False
        self._loading_since = time.monotonic()
        self._load_s = 0.0

    @property
    def loading_s(self) -> float:
        """Return how long the model has been loading, or took to load, in seconds; 0 before it may load."""
        if self.phase is EnginePhase.READY:
            return self._load_s
        return 0.0 if self._awaits_loading else time.monotonic() - self._loading_since

    @property
    def room(self) -> int:
        """Return how many more sessions may start now."""
        running = 0 if self._engine_run is None else len(self._engine_run.sessions)
        return max(0, self.fitting - running)

    @property
    def failed_loads(self) -> int:
        """Return how many loads have failed since the last one that succeeded."""
        return self._restarts.failed_loads

    @property
    def busy(self) -> bool:
        """Return whether the engine has a backlog of unread messages; a message that may be refused should be."""
        return self._engine_run is not None and self._engine_run.link is not None and self._engine_run.link.backlogged

    def send(self, message: ipc.ToEngine, slot: int = 0) -> None:
        """Queue a message for the session of a slot, or for the engine; it is lost while no process runs."""
        if self._engine_run is not None:
            self._engine_run.send(message, slot)

    async def run(self, callbacks: EngineCallbacks) -> None:
        """Start the engine, and start it again after each end; return after `stop`.

        Raises the reason when the model can't be served.
        """
        self.reloads.report_to(callbacks.on_reload)
        while True:
            self.reloads.saved.clear()
            try:
                pause_s = await self._run_process(callbacks)
            except ReactorError as failure:
                if self._options.reload is None:
                    raise
                pause_s = 0.0
                self._restarts = Restarts()
                self.phase, self.detail, self._awaits_loading = EnginePhase.LOADING, str(failure), True
                callbacks.on_lost("could not load the model, and is started again after the next save")
                await self.reloads.wait_for_save(failure)
                self._awaits_loading = False
            if self._is_last():
                return
            if pause_s:
                self.detail = f"the model's process is started again in {pause_s:.1f} s"
                self.progress = None
            await asyncio.sleep(pause_s)
            if self._is_last():
                return
            self._begin_loading()

    def reload(self, load: ipc.Load, *, everything: bool = False, restart_reason: str = "") -> None:
        """Apply the project's files as they are now; with a `restart_reason` in another process.

        An engine that loads applies them when it is ready.
        """
        self._load = load
        self.reloads.saved.set()
        engine_run = self._engine_run
        if not restart_reason:
            self.reloads.waits = self.phase is not EnginePhase.READY
            self.send(_files_of(load, everything=everything))
        elif engine_run is not None and engine_run.link is not None and self._restart is None:
            self.reloads.report(ipc.Reloaded("restarting", restart_reason))
            # A client that connects from here on waits for the next process.
            self._begin_loading()
            self._restart = asyncio.create_task(engine_run.stop())

    def expect_end(self) -> None:
        """Treat an end of the process as expected from here on, since the server is stopping."""
        self._stopping = True
        # `run` may wait for a save.
        self.reloads.saved.set()

    def drain(self) -> None:
        """Start no other process when this one ends."""
        self._draining = True

    async def stop(self) -> None:
        """End the process: send a shutdown message, then terminate it, then kill it.

        Takes at most 2 s, 7 s with `--record`, up to 30 s more if the model has ranks.
        """
        self.expect_end()
        if self._engine_run is not None:
            await self._engine_run.stop()

    def kill(self) -> None:
        """Kill the process."""
        if self._engine_run is not None:
            self._engine_run.process.kill()

    def memory_bytes(self) -> int | None:
        """Return the memory of the process and its descendants; None where it is unknown."""
        return None if self._engine_run is None else self._engine_run.process.memory_bytes()

    async def _run_process(self, callbacks: EngineCallbacks) -> float:
        """Run one process from start to end; return the pause before the next."""
        await self._acquire_loading()
        if self._is_last():
            self._release_loading()
            return 0.0
        # It reads files.
        oom_kills = await asyncio.to_thread(OomKills)
        try:
            engine_run = self._engine_run = EngineRun(
                partial(self._receive, callbacks),
                self._clock,
                self._start,
                self._options,
                on_bundle=callbacks.on_bundle,
                ids=self._ids,
                oom_kills=oom_kills,
            )
        except OSError as error:
            self._release_loading()
            if is_shortage(error):
                return _pause_after_shortage(self._restarts, self._ids(), error.strerror)
            return self._pause_after_failed_load(LoadError(f"the model's process can't be started: {error.strerror}"))
        try:
            await engine_run.run(self._load)
            if not self._is_last():
                # A client that connects from here on waits for the next process.
                self._begin_loading()
            elif self._draining:
                self.phase = EnginePhase.FAILED
        finally:
            how = await engine_run.end()
            self._release_loading()
        if self._restart is not None:
            await self._restart
            self._restart = None
            if not self._is_last():
                callbacks.on_restart()
                return 0.0
        return 0.0 if self._stopping else self._pause_after_end(engine_run, how, callbacks)

    def _pause_after_end(self, engine_run: EngineRun, how: str, callbacks: EngineCallbacks) -> float:
        """Log and report the unexpected end of a process; return the pause before the next."""
        if engine_run.lacked_resources:
            return _pause_after_shortage(self._restarts, self._ids(), SHORT_OF)
        if engine_run.ready_at is None:
            reason = LoadError(f"the model's process {how} while the model was loading")
            return self._pause_after_failed_load(engine_run.failure or reason)
        pause_s = self._restarts.after_serving(time.monotonic() - engine_run.ready_at)
        if self._draining:
            logger.error("the model's process %s", how, extra=self._ids())
            callbacks.on_lost(how)
        else:
            when = f"in {pause_s:.1f} s" if pause_s else "now"
            logger.error("the model's process %s; it is started again %s", how, when, extra=self._ids())
            callbacks.on_lost(f"{how}; it is started again")
        return pause_s

    async def _acquire_loading(self) -> None:
        """Wait until no other engine loads."""
        if self._loading.locked():
            self._awaits_loading = True
            await self._loading.acquire()
            self._awaits_loading = False
            self._begin_loading()
        else:
            await self._loading.acquire()
        self._holds_loading = True

    def _release_loading(self) -> None:
        if self._holds_loading:
            self._holds_loading = False
            self._loading.release()

    def _is_last(self) -> bool:
        """Return whether no other process is to be started."""
        return self._stopping or self._draining

    def _begin_loading(self) -> None:
        self.phase, self.detail, self.progress = EnginePhase.LOADING, "", None
        self._loading_since = time.monotonic()

    def _send_contract(self, callbacks: EngineCallbacks) -> None:
        """Report the contract if it is another than clients have."""
        before, self._sent_contract = self._sent_contract, None
        if before not in (None, self.contract):
            callbacks.on_contract()

    def _receive(self, callbacks: EngineCallbacks, slot: int, message: OfEngine) -> None:
        match message:
            case ipc.Loading():
                self.detail, self.progress = message.detail, message.progress
                if self.phase is EnginePhase.READY:
                    callbacks.on_reload(message)
            case ipc.Described():
                # Before load(), which may make more tracks, clients keep the contract that they have.
                self._sent_contract = self._sent_contract or self.contract
                self.contract, self.config_file = message.contract, message.config_file
                if self.phase is EnginePhase.READY:
                    self._send_contract(callbacks)
            case ipc.Reloaded("restarting"):
                self.reload(self._load, restart_reason=message.reason)
            case ipc.Reloaded():
                self.reloads.report(message)
            case ipc.Ready():
                self._release_loading()
                self.phase, self._load_s = EnginePhase.READY, message.load_s
                self.fitting, self.limit = 1, MEASURED_FIRST if message.sessions > 1 else ""
                self._restarts.after_load()
                self._send_contract(callbacks)
                callbacks.on_ready(message.load_s, message.sessions)
                if self.reloads.after_ready():
                    self.send(_files_of(self._load))
            case ipc.Capacity():
                self.fitting, self.limit = message.sessions, message.reason
                callbacks.on_room()
            case ipc.Failed():
                logger.debug("the model can't be served: the process ends by itself")
            case ipc.Ended() if message.crashed:
                # A client that connects from here on waits for the next process.
                self._begin_loading()
                callbacks.on_message[slot](message)
            case _:
                callbacks.on_message[slot](message)

    def _pause_after_failed_load(self, failure: ReactorError) -> float:
        """Return the pause before the next load; raise the failure when there is none."""
        pause_s = self._restarts.after_failed_load()
        if pause_s is not None:
            logger.error(
                "the model could not be loaded again, the next try is in %.1f s: %s",
                pause_s,
                failure,
                extra=self._ids(),
            )
            return pause_s
        self.phase = EnginePhase.FAILED
        if self._restarts.failed_loads == 1:
            raise failure
        raise ModelFailed(
            f"after a crash the model could not be loaded again: {failure.message}",
            hint=failure.hint,
            where=failure.where,
            details=failure.details,
            trail=failure.trail,
        )


def _files_of(load: ipc.Load, *, everything: bool = False) -> ipc.ReloadFiles:
    return ipc.ReloadFiles(load.config, load.presets, everything, load.config_file, load.merged_config)


def _pause_after_shortage(restarts: Restarts, ids: Mapping[str, str], reason: str | None) -> float:
    """Return the pause before the next start; a shortage is no failed load."""
    pause_s = restarts.after_shortage()
    logger.error("the model's process can't be started, the next try is in %.1f s: %s", pause_s, reason, extra=ids)
    return pause_s
