"""Makes the engine of each slot on this machine: a supervisor, what delivers its frames, and the slot.

Engines load one after the other, and stop together.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from reactor_runtime.config import merged_path
from reactor_runtime.errors import ReactorError, UsageError
from reactor_runtime.ipc.messages import Bundle, Ended, Load, Loading, OfSession, Reloaded
from reactor_runtime.ipc.process import EngineProcess
from reactor_runtime.ipc.ring import RingReader
from reactor_runtime.manifest import Manifest
from reactor_runtime.server.delivery.cohorts import VideoDelivery
from reactor_runtime.server.delivery.fanout import Fanout
from reactor_runtime.server.delivery.latest_frames import LatestFrames
from reactor_runtime.server.delivery.playout import Playout
from reactor_runtime.server.delivery.seated_subscribers import SeatedSubscribers
from reactor_runtime.server.delivery.subscribers import Subscribers
from reactor_runtime.server.encoding.encoder import Encoder
from reactor_runtime.server.encoding.encodings import video_encodings
from reactor_runtime.server.housekeeping import keep_running
from reactor_runtime.server.options import ReloadReport, ServeOptions, ServerReady
from reactor_runtime.server.sessions.admission import Admission
from reactor_runtime.server.sessions.engine_slot import EngineSlot
from reactor_runtime.server.workers.engine import EngineCallbacks, EnginePhase
from reactor_runtime.server.workers.engine_output import EngineOutput
from reactor_runtime.server.workers.supervisor import LoadLock, Supervisor

logger = logging.getLogger(__name__)

# Of sessions that are kept, without --record.
RECORDINGS = "recordings"


@dataclass(frozen=True, slots=True)
class _Engine:
    """Hold a loaded model and the slots that share it; callbacks for these are in the same order."""

    number: int
    supervisor: Supervisor
    output: EngineOutput
    ids: dict[str, str]
    slots: list[EngineSlot] = field(default_factory=list)
    on_bundle: list[Callable[[Bundle, RingReader], None]] = field(default_factory=list)
    on_message: list[Callable[[OfSession], None]] = field(default_factory=list)

    def log_ids(self) -> Mapping[str, str]:
        """Return the log fields of the only session, or else of the engine; any thread."""
        sessions = [session for slot in tuple(self.slots) if (session := slot.session) is not None]
        return sessions[0].controller.ids if len(sessions) == 1 else self.ids


class EnginePool:
    """Run the engines of a server; when one can't be served any more, the others continue."""

    def __init__(
        self,
        admission: Admission[EngineSlot],
        encoder: Encoder,
        *,
        on_reload: Callable[[EngineSlot, ReloadReport], None] = lambda *_: None,
        loading: LoadLock | None = None,
    ) -> None:
        self._admission = admission
        self._on_reload = on_reload
        self._options = admission.settings.options
        self._encoder = encoder
        self._loading: LoadLock = asyncio.Lock() if loading is None else loading
        # Of the slots so far.
        self._numbers = itertools.count(1)
        self._playouts: dict[EngineSlot, Playout] = {}
        # The tasks of the playouts, while the pool runs.
        self._playing: dict[EngineSlot, asyncio.Task[None]] | None = None
        self._engines = [self._make_engine(number) for number in range(1, self._options.sessions + 1)]

    async def run(self) -> None:
        """Run all engines until cancelled; raise the failure of the last one when none is left."""
        tasks = [asyncio.create_task(self._run_engine(engine)) for engine in self._engines]
        self._playing = {slot: _play(playout) for slot, playout in self._playouts.items()}
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        finally:
            tasks += self._playing.values()
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    def expect_end(self) -> None:
        """Treat each end of an engine as expected from here on, since the server is stopping."""
        for engine in self._engines:
            engine.supervisor.expect_end()

    def drain(self) -> None:
        """Start no engine from here on: the sessions that run are the last."""
        for engine in self._engines:
            engine.supervisor.drain()

    async def stop(self) -> None:
        """End all engines; takes at most 2 s, 7 s with `--record`, up to 30 s more with ranks."""
        await asyncio.gather(*(engine.supervisor.stop() for engine in self._engines))

    def kill(self) -> None:
        """Kill all engines."""
        for engine in self._engines:
            engine.supervisor.kill()
        self._remove_merged_config()

    def _remove_merged_config(self) -> None:
        if self._options.merged_config is not None:
            self._options.merged_config.unlink(missing_ok=True)

    def reload(
        self, manifest: Manifest, config: dict[str, Any] | None, *, everything: bool, restart_reason: str
    ) -> None:
        """Apply the project's files in all engines; with a `restart_reason` in new processes."""
        merged = self._options.merged_config
        if merged is not None and manifest.config_path != self._options.manifest.config_path:
            self._remove_merged_config()
            merged = None if manifest.config_path is None else merged_path(manifest.config_path)
        options = self._options = replace(self._options, manifest=manifest, config=config, merged_config=merged)
        for engine in self._engines:
            load = _load_message(options, engine=engine.ids.get("engine", ""), log_mark=engine.output.log_mark)
            engine.supervisor.reload(load, everything=everything, restart_reason=restart_reason)

    @property
    def config_files(self) -> set[str]:
        """Return the config files that the classes name, relative to the project."""
        return {engine.supervisor.config_file for engine in self._engines} - {""}

    def report_reload(self, reloaded: Reloaded) -> None:
        """Report the outcome of a reload that concerns no engine."""
        for engine in self._engines:
            engine.supervisor.reloads.report(reloaded)

    def send_reloads_again(self) -> None:
        """Send the newest outcome of each engine again: the page reads the manifest's texts after each."""
        for slot in self._playouts:
            slot.reload.send_newest()

    async def aclose(self) -> None:
        """Log what the engines printed last, and remove what they have written."""
        for engine in self._engines:
            await asyncio.to_thread(engine.output.close)
        await asyncio.to_thread(self._remove_merged_config)

    def gpu_of(self, number: int) -> str:
        """Return the GPU for the engine of this number, in rotation; "" where no GPUs are assigned."""
        gpus = self._options.gpus
        return gpus[(number - 1) % len(gpus)] if gpus else ""

    def _variables(self, gpu: str) -> dict[str, str]:
        """Return the environment variables of an engine that starts now."""
        manifest = self._options.manifest
        return {**manifest.missing_variables(os.environ), **({"CUDA_VISIBLE_DEVICES": gpu} if gpu else {})}

    def report_ready(self, slot: EngineSlot, load_s: float) -> ServerReady:
        """Return the report about the engine of a slot, which has loaded its model."""
        ready = sum(engine.supervisor.phase is EnginePhase.READY for engine in self._engines)
        engine = next(engine for engine in self._engines if slot in engine.slots)
        return ServerReady(load_s, ready, len(self._engines), self.gpu_of(engine.number), len(engine.slots))

    def _make_engine(self, number: int) -> _Engine:
        settings = self._admission.settings
        ids, gpu = settings.ids(number), self.gpu_of(number)
        output = EngineOutput("json" if self._options.log_format == "json" else "text", lambda: engine.log_ids())
        supervisor = Supervisor(
            _load_message(self._options, engine=ids.get("engine", ""), log_mark=output.log_mark),
            settings.clock,
            self._options,
            loading=self._loading,
            start=lambda: EngineProcess(output.fds, self._variables(gpu)),
            ids=lambda: engine.log_ids(),
        )
        engine = _Engine(number, supervisor, output, ids)
        # Its class may say that more sessions share a loaded model, which is known when it is loaded.
        self._add_slot(engine)
        return engine

    def _add_slot(self, engine: _Engine) -> None:
        """Add a slot for one more session on the model of an engine."""
        settings, supervisor = self._admission.settings, engine.supervisor
        send = partial(supervisor.send, slot=len(engine.slots))
        subscribers = SeatedSubscribers(
            lambda: Subscribers(Fanout(settings.clock, _call_soon), LatestFrames(self._encoder), video=self._video()),
            on_join=lambda client: slot.on_subscriber_joined(client),
            on_leave=lambda client: slot.on_subscriber_left(client),
        )
        playout = Playout(settings.clock, self._encoder, subscribers, send, settings.metrics)
        slot = EngineSlot(
            next(self._numbers),
            engine=supervisor,
            send=send,
            ids=engine.ids,
            subscribers=subscribers,
            playout=playout,
            wait_queue=self._admission.wait_queue,
            settings=settings,
            callbacks=self._admission.slot_callbacks,
            gpu=self.gpu_of(engine.number) or os.environ.get("CUDA_VISIBLE_DEVICES", ""),
            has_memory=not engine.slots,
            on_reload=self._on_reload,
        )

        def on_message(message: OfSession) -> None:
            if isinstance(message, Ended):
                engine.output.catch_up()
            slot.on_engine_message(message)

        engine.slots.append(slot)
        engine.on_bundle.append(playout.put_bundle)
        engine.on_message.append(on_message)
        self._playouts[slot] = playout
        self._admission.slots.add(slot)
        if self._playing is not None:
            self._playing[slot] = _play(playout)

    def _remove_slot(self, engine: _Engine) -> None:
        """Remove the last slot of an engine, which has no session: new code has fewer."""
        slot = engine.slots.pop()
        # They are assigned to another slot when the pool reports this engine as ready.
        for client in slot.subscribers:
            self._admission.assignment.unsubscribe(client)
        engine.on_bundle.pop()
        engine.on_message.pop()
        del self._playouts[slot]
        self._admission.slots.remove(slot)
        if self._playing is not None:
            self._playing.pop(slot).cancel()

    def _video(self) -> VideoDelivery | None:
        codec, settings = self._options.codec, self._admission.settings
        encodings = video_encodings(codec)
        if not encodings:
            return None
        return VideoDelivery(encodings, self._encoder, settings.clock, settings.metrics, always=codec == "always")

    async def _run_engine(self, engine: _Engine) -> None:
        output = engine.output

        def on_ready(load_s: float, sessions: int) -> None:
            output.catch_up()
            while len(engine.slots) < sessions:
                self._add_slot(engine)
            while len(engine.slots) > sessions:
                self._remove_slot(engine)
            for slot in engine.slots:
                slot.on_engine_ready(load_s if slot is engine.slots[0] else None)

        def on_lost(how: str) -> None:
            output.catch_up_with_end()
            for slot in engine.slots:
                slot.on_engine_lost(how)

        def on_restart() -> None:
            output.catch_up_with_end()
            for slot in engine.slots:
                slot.on_engine_restart()

        def on_room() -> None:
            for slot in engine.slots:
                if slot.session is None:
                    slot.on_engine_room()

        def on_contract() -> None:
            for slot in engine.slots:
                slot.on_engine_contract()

        def on_reload(message: Reloaded | Loading) -> None:
            for slot in engine.slots:
                slot.reload.on_engine_reload(message)

        try:
            await engine.supervisor.run(
                EngineCallbacks(
                    on_ready=on_ready,
                    on_bundle=engine.on_bundle,
                    on_message=engine.on_message,
                    on_lost=on_lost,
                    on_room=on_room,
                    on_contract=on_contract,
                    on_reload=on_reload,
                    on_restart=on_restart,
                )
            )
        except ReactorError as error:
            slots = self._admission.slots
            # Engines that have not loaded yet would fail on the same class or manifest.
            if not slots.ready_count and isinstance(error, UsageError):
                raise
            if all(each.engine.phase is EnginePhase.FAILED for each in slots):
                raise
            logger.error("this engine can't serve the model, the others continue: %s", error, extra=engine.ids)


def _play(playout: Playout) -> asyncio.Task[None]:
    return asyncio.create_task(keep_running(playout.run, "the playout"))


def _load_message(options: ServeOptions, *, engine: str, log_mark: str) -> Load:
    manifest = options.manifest
    record, only_kept = options.record, False
    if record is None and options.reload is not None:
        # The folder of a class from a notebook is temporary.
        folder = Path.cwd() if manifest.model_at is None else manifest.project
        record, only_kept = folder / RECORDINGS, True
    return Load(
        str(manifest.project),
        manifest.module,
        manifest.class_name,
        options.config,
        options.log_level,
        options.log_format,
        options.trace is not None,
        engine=engine,
        log_mark=log_mark,
        record="" if record is None else str(record.absolute()),
        record_video=options.record_video,
        record_only_kept=only_kept,
        presets=dict(manifest.page_settings.presets),
        reload=options.reload is not None,
        config_file="" if manifest.config_path is None else str(manifest.config_path),
        merged_config="" if options.merged_config is None else str(options.merged_config),
        sessions=options.sessions_per_model,
    )


def _call_soon(callback: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_soon(callback)
