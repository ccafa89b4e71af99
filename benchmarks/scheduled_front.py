"""`python -m benchmarks.scheduled_front JOB`: a front whose workers are started by whatever listens on a port.

The front may be killed: the scheduler of the workers is another process, as Ray is. They exchange the messages of the
Ray driver. JOB has the fields of `FrontJob` in JSON.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import ssl
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchmarks.serving import MODEL
from reactor_runtime import config, manifest
from reactor_runtime.cluster.front.fleet import WorkerFleet
from reactor_runtime.cluster.front.scaling import Scaling
from reactor_runtime.cluster.front.worker_slot import WorkerSlot
from reactor_runtime.cluster.job import WorkerJob
from reactor_runtime.cluster.messages import FrontIdentity
from reactor_runtime.cluster.placement.driver_messages import (
    FROM_DRIVER,
    TO_DRIVER,
    DriverConnected,
    DriverFailed,
    RemoveWorkers,
    StartWorker,
    StopWorker,
    ToDriver,
)
from reactor_runtime.cluster.placement.placement import PlacementConnected, PlacementEvent
from reactor_runtime.cluster.tickets import TicketIssuer
from reactor_runtime.server.options import Operator, ServeOptions
from reactor_runtime.server.run import Service, serve
from reactor_runtime.server.sessions.slot import SlotSettings
from tests.cluster.simulation import SilentOperator

SECRET = "5" * 64
CLUSTER = "benchmark"


@dataclass(frozen=True, slots=True)
class FrontJob:
    """The ports of the front and of its scheduler, the number of workers, and the config and drain time of each."""

    port: int
    scheduler: int
    workers: int
    config: Mapping[str, float]
    drain_timeout_s: float


class ScheduledPlacement:
    """Pass orders to the scheduler on `connection`, and its reports to the front."""

    def __init__(self, connection: socket.socket, make_job: Callable[[str], WorkerJob]) -> None:
        self._connection = connection
        self._make_job = make_job

    def start(self, worker: str) -> None:
        self._send(StartWorker(worker, self._make_job(worker).to_json()))

    def stop(self, worker: str) -> None:
        self._send(StopWorker(worker))

    async def run(self, on_event: Callable[[PlacementEvent], None]) -> None:
        reader, _ = await asyncio.open_connection(sock=self._connection.dup())
        async for line in reader:
            event = FROM_DRIVER.decode(line)
            assert not isinstance(event, DriverFailed), "it needs no Ray"
            on_event(PlacementConnected(event.workers, SECRET) if isinstance(event, DriverConnected) else event)

    async def aclose(self) -> None:
        self._send(RemoveWorkers())

    def kill(self) -> None: ...

    def _send(self, order: ToDriver) -> None:
        # A few short lines fit into the buffer of the socket.
        self._connection.send(f"{TO_DRIVER.encode(order)}\n".encode())


def main() -> None:
    job = FrontJob(**json.loads(sys.argv[1]))
    logging.disable(logging.CRITICAL)
    project = manifest.load(MODEL)
    options = ServeOptions(
        manifest=project,
        config={**config.load(project.config_path), **job.config},
        port=job.port,
        drain_timeout_s=job.drain_timeout_s,
        log_level="error",
    )

    def make_job(worker: str) -> WorkerJob:
        return WorkerJob.of(options, cluster=CLUSTER, worker=worker, secret=SECRET, project=str(MODEL))

    def service(options: ServeOptions, operator: Operator, _tls: ssl.SSLContext | None) -> Service[WorkerSlot]:
        front = FrontIdentity.of_this_process()
        connection = socket.create_connection(("127.0.0.1", job.scheduler))
        fleet = WorkerFleet(
            SlotSettings.of(options),
            operator,
            placement=ScheduledPlacement(connection, make_job),
            scaling=Scaling(least=job.workers, most=job.workers),
            front=front,
            build="",
            make_tickets=lambda secret: TicketIssuer(secret, CLUSTER, front.id),
        )
        return Service(fleet, operator)

    serve(options, SilentOperator(), service)


if __name__ == "__main__":
    main()
