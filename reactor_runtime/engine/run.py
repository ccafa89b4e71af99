"""The engine's process from start to end: load the model, then serve until the server ends the process.

One thread reads the messages of the server (`engine.ipc_reader`); all else, the author's code included, runs on the
main thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from reactor_runtime import errors
from reactor_runtime.authoring import importing
from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.model_config import model_config
from reactor_runtime.authoring.presets import check_presets
from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.clock import SystemClock
from reactor_runtime.distributed.owner import owned_by
from reactor_runtime.engine import author
from reactor_runtime.engine.capacity import read_memory
from reactor_runtime.engine.host import Host
from reactor_runtime.engine.host_parts import HostParts, Outlet
from reactor_runtime.engine.ipc_reader import IpcReader
from reactor_runtime.engine.leaks import LeakGuard, read_usage, record_task_starts, thread_starts_recorded
from reactor_runtime.engine.log_ids import LogIds
from reactor_runtime.engine.output.sink import IpcSink
from reactor_runtime.engine.progress import Progress, watch_output
from reactor_runtime.engine.reload.modules import ProjectModules
from reactor_runtime.engine.reload.reloader import ReloadSettings, describe
from reactor_runtime.engine.reload.save_watch import SaveWatch
from reactor_runtime.engine.served import ServedModel, Version
from reactor_runtime.engine.trace import TraceRecorder
from reactor_runtime.ipc import messages as ipc
from reactor_runtime.ipc.channel import Channel
from reactor_runtime.ipc.credits import CREDITS_BYTES, CreditReader
from reactor_runtime.ipc.log_packets import PacketWriter, PieceKind
from reactor_runtime.ipc.ring import RingWriter
from reactor_runtime.logs import prints, streams
from reactor_runtime.logs.handler import configure_logs

if TYPE_CHECKING:
    from reactor_runtime.engine.recorder import Recorder

logger = logging.getLogger(__name__)


def run_engine(channel: Channel, memory_fd: int) -> int:
    """Load the model that the server names and serve its sessions; return the exit code of the process."""
    incoming = iter(channel)
    _, load = next(incoming, (0, None))
    if not isinstance(load, ipc.Load):
        return 1
    with thread_starts_recorded():
        return _run(load, channel, incoming, memory_fd)


def _run(load: ipc.Load, channel: Channel, incoming: Iterator[tuple[int, ipc.Message]], memory_fd: int) -> int:
    log_ids = LogIds()
    log_format: Literal["text", "json"] = "json" if load.log_format == "json" else "text"
    configure_logs(load.log_level, log_format, ids=log_ids, engine=load.engine, write=_packet_writer(load))
    reader = _start_reader(channel, incoming)
    clock = SystemClock()
    began = time.monotonic()
    runner = asyncio.Runner()
    try:
        # What an async load() starts continues on the loop of the sessions.
        host, recorders = _load(load, channel, memory_fd, clock, log_ids, runner.run)
    except errors.ReactorError as error:
        return _report(channel, error)

    async def serve() -> int:
        record_task_starts(asyncio.get_running_loop())
        try:
            await host.warm_up(lambda step, steps: channel.send(_warming_up(step, steps)))
        except errors.LoadError as error:
            return _report(channel, error)
        loop = asyncio.get_running_loop()
        on_save = _start_save_watch(load, channel, host, loop)
        reader.attach(loop, host, keep=functools.partial(_keep, recorders), on_save=on_save)
        channel.send(ipc.Ready(time.monotonic() - began, len(host.slots)))
        await host.serve()
        for recorder in recorders:
            recorder.close()
        clock.close()
        return 1 if host.crashed else 0

    with runner:
        return runner.run(serve())


def _packet_writer(load: ipc.Load) -> Callable[[str, str], None] | None:
    """Return the function that writes log lines as packets; None if the log's stream is no pipe of the server."""
    if not load.log_mark:
        return None
    stream, printed = streams.direct(sys.stderr), streams.installed()
    # A copy: the model may redirect the descriptor, for example to a file.
    packets = PacketWriter(os.dup(stream.fileno()), load.log_mark, after=stream)
    return lambda lines, name: packets.write(lines, PieceKind.PRINTED if name in printed else PieceKind.LOGGED)


def _start_save_watch(
    load: ipc.Load, channel: Channel, host: Host, loop: asyncio.AbstractEventLoop
) -> Callable[[Callable[[], None]], object] | None:
    """Return the function that applies each save; None without hot reload."""
    reloader = host.reloader
    if reloader is None:
        return None
    watch = SaveWatch(
        loop.call_soon_threadsafe,
        channel.send,
        project=Path(load.project),
        is_busy=lambda: reloader.pending or reloader.on_trial,
        is_loading=lambda: host.loads_again,
    )
    watch.start()
    return watch.on_save


def _report(channel: Channel, error: errors.ReactorError) -> int:
    """Send the reason why the model can't be served; return the exit code of the process."""
    channel.send(ipc.Failed(errors.to_json(error)))
    return error.exit_code


def _warming_up(step: int, steps: int) -> ipc.Loading:
    return ipc.Loading(f"warming up {step} of {steps}", round((step - 1) / steps, 2))


def _start_reader(channel: Channel, incoming: Iterator[tuple[int, ipc.Message]]) -> IpcReader:
    reader = IpcReader(channel)
    threading.Thread(target=reader.run, args=(incoming,), name="reactor-ipc", daemon=True).start()
    return reader


def _load(
    load: ipc.Load,
    channel: Channel,
    memory_fd: int,
    clock: SystemClock,
    log_ids: LogIds,
    run: Callable[[Coroutine[Any, Any, Any]], Any],
) -> tuple[Host, list[Recorder]]:
    """Import, check, make and load the model; raise a ReactorError that points at the author's line."""
    project = Path(load.project)
    standard_streams = streams.installed()
    if load.log_format == "json":
        prints.log_prints(standard_streams)
    progress = Progress(lambda line, fraction: channel.send(ipc.Loading(line, fraction)))
    outputs = list(standard_streams.values())
    modules = ProjectModules(project)
    if load.reload:
        modules.record()
    with watch_output(progress.add_line, outputs):
        contract = _import_model(load, progress)
        channel.send(describe(contract))
    given = author.given_config(load)
    config = model_config(contract.model, given, project)

    @contextlib.contextmanager
    def loading_again(contract: Contract) -> Iterator[None]:
        with _progress_reported(contract.model, progress, outputs), owned_by(host.runners):
            yield

    settings = ReloadSettings(
        modules=modules,
        place=(load.module, load.class_name),
        config=given,
        keeps_sessions=True,
        while_loading=loading_again,
    )
    sessions = load.sessions or contract.sessions_per_model
    reloads_in_place = load.reload and sessions == 1
    with _progress_reported(contract.model, progress, outputs):
        model = author.make_model(contract, config.values, project)
        recorders = _recorders(load, channel, config.values, sessions)
        host = Host(
            ServedModel(Version(model, contract, config.values)),
            _outlets(load, channel, memory_fd, clock, recorders, sessions),
            HostParts(
                clock=clock,
                project=project,
                ids=log_ids,
                reload=settings if reloads_in_place else None,
                read_memory=read_memory,
            ),
            # A recorder closes its file some time after the session.
            leaks=LeakGuard(lambda: read_usage({fd for each in recorders for fd in each.descriptors})),
            ends_at_crash=True,
        )
        with owned_by(host.runners):
            author.call_load(model, config, project, run)
        host.serve_loaded()
        contract.style.check_loaded(model)
        loaded = host.slots[0].served.contract
        if loaded is not contract:
            channel.send(describe(loaded))
        if sessions > 1:
            author.check_copy(host.served.version)
    return host, recorders


def _import_model(load: ipc.Load, progress: Progress) -> Contract:
    """Import the author's class, and check it and the presets of the project."""
    project = Path(load.project)
    # Libraries such as PyTorch take seconds, and write nothing.
    progress.add_line(f"importing {load.module}")
    model_class = importing.import_class(project, load.module, load.class_name)
    progress.add_line("")
    contract = Contract.of(model_class)
    contract.style.check_finished(model_class)
    check_presets(contract, load.presets, project)
    for warning in contract.warnings:
        logger.warning("%s", warning)
    if contract.unmoderated:
        values = ", ".join(contract.unmoderated)
        logger.info("not moderated, because %s has no method moderate: %s", model_class.__name__, values)
    return contract


@contextlib.contextmanager
def _progress_reported(model: type[Model], progress: Progress, outputs: list[streams.StandardStream]) -> Iterator[None]:
    """Report the progress that the model gives, and the lines that it writes to `outputs`."""
    # Of the class, because a VideoModel loads in its __init__.
    model._reactor_on_load_progress = progress.report
    with watch_output(progress.add_line, outputs):
        yield
    model._reactor_on_load_progress = None


def _outlets(
    load: ipc.Load, channel: Channel, memory_fd: int, clock: SystemClock, recorders: list[Recorder], sessions: int
) -> list[Outlet]:
    """Return the outlet of each slot; the slots share the memory for frames."""
    ring = RingWriter(memory_fd, CREDITS_BYTES)
    outlets = []
    for slot in range(sessions):
        send = functools.partial(channel.send, slot=slot)
        outlets.append(
            Outlet(
                sink=IpcSink(channel, ring, slot),
                lend=ring.lend,
                credits=CreditReader(memory_fd, send, slot),
                trace=TraceRecorder(clock, send) if load.trace else None,
                logs=recorders[slot] if recorders else None,
            )
        )
    return outlets


def _keep(recorders: list[Recorder], slot: int, session: str) -> None:
    if recorders:
        recorders[slot].keep(session)


def _recorders(load: ipc.Load, channel: Channel, config: dict[str, Any], sessions: int) -> list[Recorder]:
    """Return the recorder of each slot; none without --record and --reload."""
    if not load.record:
        return []
    # Imports the format of the files, which takes an eighth of the engine's start.
    from reactor_runtime.engine.recorder import Recorder, RecordOptions

    options = RecordOptions(Path(load.record), video=load.record_video, only_kept=load.record_only_kept)
    return [
        Recorder(options, config, Path(load.project), on_kept=functools.partial(channel.send, slot=slot))
        for slot in range(sessions)
    ]
