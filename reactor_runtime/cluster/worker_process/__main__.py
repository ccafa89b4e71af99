"""Runs the worker process: the server of a loaded model, which admits clients by ticket.

It reads a job from standard input, prints a line of JSON when it listens, and another if it fails. It ends on an order
of the front, by a signal, or when its input ends. Without an order its sessions are lost, so connections break.
"""

from __future__ import annotations

import contextlib
import logging
import os
import ssl
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from reactor_runtime import manifest
from reactor_runtime.cluster.job import WorkerFailed, WorkerJob, WorkerListening, answer_line
from reactor_runtime.cluster.tickets import TicketGate
from reactor_runtime.cluster.worker_process.control import ControlSocket
from reactor_runtime.cluster.worker_process.load_lock import GpuLoadLock
from reactor_runtime.cluster.worker_process.worker_gate import WorkerGate
from reactor_runtime.errors import BindError, ReactorError
from reactor_runtime.logs.handler import configure_logs
from reactor_runtime.server.backend import EngineBackend
from reactor_runtime.server.options import (
    LoadingProgress,
    Operator,
    ReloadReport,
    ServeOptions,
    ServerListening,
    ServerReady,
    ServerStatistics,
)
from reactor_runtime.server.run import Service, serve
from reactor_runtime.server.security.certificate import first_certificate
from reactor_runtime.server.sessions.engine_slot import EngineSlot
from reactor_runtime.server.sessions.slot import SlotSettings

# This module runs as `__main__`.
logger = logging.getLogger("reactor_runtime.cluster.worker_process")


@dataclass(frozen=True, slots=True)
class _Operator:
    """Print where the worker listens, and kill it with its input; the control socket reports the rest."""

    certificate: Path | None

    def on_listening(self, listening: ServerListening) -> None:
        certificate = "" if self.certificate is None else first_certificate(self.certificate)
        _answer(WorkerListening(listening.port, certificate))
        threading.Thread(target=_end_with_input, args=(listening.kill,), name="end with input", daemon=True).start()

    def on_loading(self, loading: LoadingProgress) -> None:
        pass

    def on_ready(self, ready: ServerReady) -> None:
        pass

    def on_reload(self, report: ReloadReport) -> None:
        pass

    def on_tick(self, statistics: Callable[[], ServerStatistics]) -> None:
        pass

    def on_exit(self) -> None:
        pass


def main() -> int:
    """Serve the job on standard input; return the exit code."""
    job = WorkerJob.from_json(sys.stdin.readline())
    configure_logs(job.options["log_level"], job.options["log_format"])
    _take_normal_priority()
    try:
        _serve(job)
    except ReactorError as error:
        _answer(WorkerFailed(str(error), error.exit_code))
        return error.exit_code
    return 0


def _take_normal_priority() -> None:
    """Set niceness 0 for this process and those that it starts; log a warning if that is not permitted.

    Ray runs its workers with niceness 15.
    """
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    if niceness <= 0:
        return
    try:
        os.setpriority(os.PRIO_PROCESS, 0, 0)
    except PermissionError:
        logger.warning(
            "Ray runs this worker with niceness %d, so frames are late while other programs use the CPU; "
            "set RAY_worker_niceness=0 where you start Ray on this node",
            niceness,
        )


def _serve(job: WorkerJob) -> None:
    """Serve on the first free port of the job's range."""
    first, last = job.ports
    for port in range(first, last + 1):
        options = job.serve_options(port)
        try:
            with manifest.pointing_at(options.manifest):
                serve(options, _Operator(options.access.certificate), partial(_service, job))
            return
        except BindError as error:
            if port == last:
                ports = f"none of --worker-ports {first}-{last} can be used, the last one: " if last else ""
                raise BindError(f"{ports}{error.message}") from error


def _service(
    job: WorkerJob, options: ServeOptions, operator: Operator, tls: ssl.SSLContext | None
) -> Service[EngineSlot]:
    settings = SlotSettings.of(options)
    backend = EngineBackend(
        settings,
        operator,
        on_change=lambda: control.report(),
        loading=GpuLoadLock(os.environ.get("CUDA_VISIBLE_DEVICES", "")),
    )
    slots = backend.admission.slots
    tickets = TicketGate(job.secret, job.cluster, job.worker)
    control = ControlSocket(
        backend.admission,
        tickets,
        settings.clock,
        build=job.build,
        drain=lambda: service.drain(),
        stop=lambda: service.stop(),
        abort=lambda: service.stop(breaks=True),
    )
    gate = WorkerGate(
        tickets,
        job.secret,
        is_resumed_by=lambda secret: slots.resumed_by(secret) is not None,
        is_running=slots.is_running,
    )
    # After an end without an order of the front, clients go back to it, and get the next free worker.
    service = Service(backend, operator, tls, gate=gate, routes=[control.route()], breaks_on_signal=True)
    return service


def _answer(answer: WorkerListening | WorkerFailed) -> None:
    """Write a line to standard output, for the actor."""
    sys.stdout.write(answer_line(answer))
    sys.stdout.flush()


def _end_with_input(kill: Callable[[], object]) -> None:
    """Kill the server when standard input ends, unless it stops already.

    The input ends when Ray has ended the actor. An orderly end would report to clients that their sessions are over,
    and not that they are lost.
    """
    while sys.stdin.read(1):
        pass
    # The server has ended by itself.
    with contextlib.suppress(RuntimeError):
        kill()


if __name__ == "__main__":
    sys.exit(main())
