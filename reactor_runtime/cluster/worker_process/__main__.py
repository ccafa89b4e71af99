"""The process of a worker: today's server for one session, whose clients come with tickets of the front.

It reads a job from standard input, prints one line of JSON when it listens, and ends with its input, by SIGINT or
SIGTERM, or on an order of the front.
"""

from __future__ import annotations

import os
import signal
import ssl
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from reactor_runtime import logs, manifest
from reactor_runtime.cluster.job import WorkerFailed, WorkerJob, WorkerListening, answer_line
from reactor_runtime.cluster.tickets import TicketGate
from reactor_runtime.cluster.worker_process.control import Control
from reactor_runtime.cluster.worker_process.load_lock import GpuLoadLock
from reactor_runtime.cluster.worker_process.worker_gate import WorkerGate
from reactor_runtime.errors import BindError, ReactorError
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


@dataclass(frozen=True, slots=True)
class _Operator:
    """Print where the worker listens; the control socket reports the rest."""

    certificate: Path | None

    def on_listening(self, listening: ServerListening) -> None:
        certificate = "" if self.certificate is None else first_certificate(self.certificate)
        _answer(WorkerListening(listening.port, certificate))

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


class _Stop:
    """Stop the server once, as Ctrl-C does: a second signal would kill it. Call it on any thread."""

    def __init__(self) -> None:
        self._begun = threading.Lock()

    def __call__(self) -> None:
        if self._begun.acquire(blocking=False):
            os.kill(os.getpid(), signal.SIGINT)


def main() -> int:
    """Serve the job on standard input; return the exit code."""
    job = WorkerJob.from_json(sys.stdin.readline())
    stop = _Stop()
    threading.Thread(target=_end_with_input, args=(stop,), name="end with input", daemon=True).start()
    logs.configure(job.log_level, "json" if job.log_format == "json" else "text")
    try:
        _serve(job, stop)
    except ReactorError as error:
        _answer(WorkerFailed(str(error), error.exit_code))
        return error.exit_code
    return 0


def _serve(job: WorkerJob, stop: _Stop) -> None:
    """Serve on the first free port of the job's range."""
    first, last = job.ports
    for port in range(first, last + 1):
        options = job.serve_options(port)
        try:
            with manifest.pointing_at(options.manifest):
                operator = _Operator(options.access.certificate)
                serve(options, operator, lambda options, operator, tls: _service(job, stop, options, operator, tls))
            return
        except BindError:
            if port == last:
                raise


def _service(
    job: WorkerJob, stop: _Stop, options: ServeOptions, operator: Operator, tls: ssl.SSLContext | None
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
    control = Control(job.worker, backend.admission, tickets, settings.clock, stop=stop)
    gate = WorkerGate(tickets, job.secret, is_resumed_by=lambda secret: slots.resumed_by(secret) is not None)
    return Service(backend, operator, tls, gate=gate, routes=[control.route()])


def _answer(answer: WorkerListening | WorkerFailed) -> None:
    """Write a line to whatever started the worker."""
    sys.stdout.write(answer_line(answer))
    sys.stdout.flush()


def _end_with_input(stop: _Stop) -> None:
    """Stop the server when whatever started the worker has gone."""
    while sys.stdin.read(1):
        pass
    stop()


if __name__ == "__main__":
    sys.exit(main())
