"""The engines of one server: each with its hall, loaded one after the other, kept running, stopped together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from reactor_runtime.errors import ClassError, ReactorError
from reactor_runtime.ipc.messages import Load
from reactor_runtime.ipc.process import EngineProcess
from reactor_runtime.server.delivery.fanout import Fanout
from reactor_runtime.server.delivery.latest_frames import LatestFrames
from reactor_runtime.server.delivery.playout import Playout
from reactor_runtime.server.delivery.subscribers import Subscribers
from reactor_runtime.server.encoding.encoder import Encoder
from reactor_runtime.server.housekeeping import keep_running
from reactor_runtime.server.sessions.admission import Admission
from reactor_runtime.server.sessions.slot import Slot
from reactor_runtime.server.workers.log_relay import LogRelay
from reactor_runtime.server.workers.supervisor import EnginePhase, Supervisor

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Engine:
    supervisor: Supervisor
    playout: Playout
    slot: Slot
    relay: LogRelay | None


class Engines:
    """Run as many engines as the lobby's rules say; one that is broken for good leaves the others to serve."""

    def __init__(
        self,
        admission: Admission,
        load: Load,
        encoder: Encoder,
        *,
        step_timeout_s: float,
        load_timeout_s: float,
        gpus: Sequence[str] = (),
    ) -> None:
        self._admission = admission
        self._load = load
        self._encoder = encoder
        self._step_timeout_s = step_timeout_s
        self._load_timeout_s = load_timeout_s
        self._gpus = gpus
        self._loading = asyncio.Lock()
        self._engines = [self._open() for _ in range(admission.rules.engines)]

    async def run(self) -> None:
        """Keep all of them running, until cancelled or until none is left; then raises what was wrong with the last."""
        tasks = [asyncio.create_task(self._keep(engine)) for engine in self._engines]
        tasks += [asyncio.create_task(keep_running(engine.playout.run, "the playout")) for engine in self._engines]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    def expect_end(self) -> None:
        """Take no end of a process for a crash from here on: the server is to stop."""
        for engine in self._engines:
            engine.supervisor.stopping = True

    def drain(self) -> None:
        """Start no process from here on: the sessions that run are the last."""
        for engine in self._engines:
            engine.supervisor.draining = True

    async def stop(self) -> None:
        """End all of them, which takes at most 2 s."""
        await asyncio.gather(*(engine.supervisor.stop() for engine in self._engines))

    def kill(self) -> None:
        """End all of them at once."""
        for engine in self._engines:
            engine.supervisor.kill()

    async def aclose(self) -> None:
        """Pass on what they have printed last."""
        for engine in self._engines:
            if engine.relay is not None:
                await asyncio.to_thread(engine.relay.close)

    def gpu(self, number: int) -> str:
        """Name the GPU that the engine of this number sees, "" where that isn't ours to say; they take turns."""
        return self._gpus[(number - 1) % len(self._gpus)] if self._gpus else ""

    def _open(self) -> _Engine:
        rules, number = self._admission.rules, len(self._admission.slots) + 1
        ids, gpu = rules.ids(number), self.gpu(number)
        relay = LogRelay(lambda: _ids(slot)) if self._load.log_format == "json" else None
        supervisor = Supervisor(
            replace(self._load, engine=ids.get("engine", "")),
            rules.clock,
            encoder=self._encoder,
            loading=self._loading,
            start=partial(
                EngineProcess, None if relay is None else relay.fd, {"CUDA_VISIBLE_DEVICES": gpu} if gpu else None
            ),
            step_timeout_s=self._step_timeout_s,
            load_timeout_s=self._load_timeout_s,
            ids=ids,
        )
        subscribers = Subscribers(Fanout(rules.clock, _soon), LatestFrames(self._encoder))
        playout = Playout(rules.clock, self._encoder, subscribers, supervisor.send, rules.metrics)
        slot = self._admission.add_slot(supervisor, subscribers, playout)
        return _Engine(supervisor, playout, slot, relay)

    async def _keep(self, engine: _Engine) -> None:
        try:
            await engine.supervisor.run(engine.slot)
        except ReactorError as error:
            slots = self._admission.slots
            if not slots.ready and isinstance(error, ClassError):
                raise  # the class is the same for those that have not loaded yet
            if all(slot.engine.phase is EnginePhase.FAILED for slot in slots):
                raise
            logger.error("the model can't be served here, the others go on: %s", error, extra=engine.slot.ids)


def _soon(turn: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_soon(turn)


def _ids(slot: Slot) -> Mapping[str, str]:
    """Say whose session it is, and which engine's; any thread."""
    session = slot.session
    return slot.ids if session is None else session.controller.ids
