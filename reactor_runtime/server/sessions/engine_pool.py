"""Makes the engine of each slot on this machine: a supervisor, what delivers its frames, and the slot.

Engines load one after the other, and stop together.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reactor_runtime.config import merged_path
from reactor_runtime.errors import ReactorError, UsageError
from reactor_runtime.ipc.messages import Ended, Load, Message, Reloaded
from reactor_runtime.ipc.process import EngineProcess
from reactor_runtime.manifest import Manifest
from reactor_runtime.server.delivery.cohorts import VideoDelivery
from reactor_runtime.server.delivery.fanout import Fanout
from reactor_runtime.server.delivery.latest_frames import LatestFrames
from reactor_runtime.server.delivery.playout import Playout
from reactor_runtime.server.delivery.subscribers import Subscribers
from reactor_runtime.server.encoding.encoder import Encoder
from reactor_runtime.server.encoding.encodings import video_encodings
from reactor_runtime.server.housekeeping import keep_running
from reactor_runtime.server.options import ReloadReport, ServeOptions
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
    supervisor: Supervisor
    playout: Playout
    slot: EngineSlot
    output: EngineOutput


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
        self._engines = [self._make_engine() for _ in range(self._options.sessions)]

    async def run(self) -> None:
        """Run all engines until cancelled; raise the failure of the last one when none is left."""
        tasks = [asyncio.create_task(self._run_engine(engine)) for engine in self._engines]
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
            ids, mark = engine.slot.ids, engine.output.log_mark
            load = _load_message(options, engine=ids.get("engine", ""), log_mark=mark)
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
        for engine in self._engines:
            engine.slot.reload.send_newest()

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

    def _make_engine(self) -> _Engine:
        settings, number = self._admission.settings, len(self._admission.slots) + 1
        ids, gpu = settings.ids(number), self.gpu_of(number)
        output = EngineOutput("json" if self._options.log_format == "json" else "text", lambda: _log_ids(slot))
        supervisor = Supervisor(
            _load_message(self._options, engine=ids.get("engine", ""), log_mark=output.log_mark),
            settings.clock,
            self._options,
            loading=self._loading,
            start=lambda: EngineProcess(output.fds, self._variables(gpu)),
            ids=lambda: _log_ids(slot),
        )
        subscribers = Subscribers(
            Fanout(settings.clock, _call_soon),
            LatestFrames(self._encoder),
            video=self._video(),
            on_join=lambda client: slot.on_subscriber_joined(client),
            on_leave=lambda client: slot.on_subscriber_left(client),
        )
        playout = Playout(settings.clock, self._encoder, subscribers, supervisor.send, settings.metrics)
        slot = EngineSlot(
            number,
            engine=supervisor,
            subscribers=subscribers,
            playout=playout,
            wait_queue=self._admission.wait_queue,
            settings=settings,
            callbacks=self._admission.slot_callbacks,
            gpu=gpu or os.environ.get("CUDA_VISIBLE_DEVICES", ""),
            on_reload=self._on_reload,
        )
        self._admission.slots.add(slot)
        return _Engine(supervisor, playout, slot, output)

    def _video(self) -> VideoDelivery | None:
        codec, settings = self._options.codec, self._admission.settings
        encodings = video_encodings(codec)
        if not encodings:
            return None
        return VideoDelivery(encodings, self._encoder, settings.clock, settings.metrics, always=codec == "always")

    async def _run_engine(self, engine: _Engine) -> None:
        slot, catch_up = engine.slot, engine.output.catch_up

        def on_ready(load_s: float) -> None:
            catch_up()
            slot.on_engine_ready(load_s)

        def on_message(message: Message) -> None:
            if isinstance(message, Ended):
                catch_up()
            slot.on_engine_message(message)

        def on_lost(how: str) -> None:
            engine.output.catch_up_with_end()
            slot.on_engine_lost(how)

        def on_restart() -> None:
            engine.output.catch_up_with_end()
            slot.on_engine_restart()

        try:
            await engine.supervisor.run(
                EngineCallbacks(
                    on_ready=on_ready,
                    on_bundle=engine.playout.put_bundle,
                    on_message=on_message,
                    on_lost=on_lost,
                    on_contract=slot.on_engine_contract,
                    on_reload=slot.reload.on_engine_reload,
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
            logger.error("this engine can't serve the model, the others continue: %s", error, extra=slot.ids)


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
    )


def _call_soon(callback: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_soon(callback)


def _log_ids(slot: EngineSlot) -> Mapping[str, str]:
    """Return the log fields of the session on a slot, or of the slot itself; any thread."""
    session = slot.session
    return slot.ids if session is None else session.controller.ids
