"""The messages between a front and its Ray driver: a line of JSON each, on the driver's standard input and output."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TypeAlias

from reactor_runtime.cluster.codec import MessageCodec
from reactor_runtime.cluster.placement.placement import (
    PlacementEvent,
    PlacementLost,
    PlacementRestored,
    WorkerGone,
    WorkerPending,
    WorkerPlaced,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverJob:
    """The Ray to connect to, and the resources of each worker.

    Ray is started on this machine if `address` is "", with enough logical resources for `most` workers. Copy the
    directory `project` to the nodes unless it is "". The `requirements`, lines of a requirements file of pip,
    are installed there. Unless `secret` is known or not needed, the driver reads it from workers that run, and fails if
    none answers.
    """

    address: str
    cluster: str
    project: str = ""
    requirements: tuple[str, ...] = ()
    gpus: float = 0.0
    cpus: float = 0.0
    most: int = 0
    secret: str = ""
    needs_secret: bool = True

    @property
    def namespace(self) -> str:
        """The namespace of Ray in which the workers of the cluster have their names."""
        return f"reactor-{re.sub(r'[^A-Za-z0-9_.-]', '-', self.cluster)}"

    @property
    def removal(self) -> str:
        """The command that ends the workers of the cluster."""
        return f"reactor down --cluster {shlex.quote(self.cluster)} --ray-address {self.address}"


@dataclass(frozen=True, slots=True)
class StartWorker:
    """Request a place for a worker, and start it there with a job in JSON."""

    worker: str
    job: str


@dataclass(frozen=True, slots=True)
class StopWorker:
    """Kill a worker."""

    worker: str


@dataclass(frozen=True, slots=True)
class RemoveWorkers:
    """Kill all workers and end.

    When the input ends without this message, the driver ends and leaves the workers running.
    """


@dataclass(frozen=True, slots=True)
class DriverConnected:
    """The driver is connected to Ray; it found these workers, and their secret, which is "" without one."""

    workers: tuple[str, ...]
    secret: str


@dataclass(frozen=True, slots=True)
class DriverFailed:
    """The driver can't use Ray, and ends."""

    error: str
    hint: str


ToDriver: TypeAlias = DriverJob | StartWorker | StopWorker | RemoveWorkers
FromDriver: TypeAlias = DriverConnected | DriverFailed | PlacementEvent

TO_DRIVER = MessageCodec[ToDriver](
    {"job": DriverJob, "start": StartWorker, "stop": StopWorker, "remove": RemoveWorkers}
)
FROM_DRIVER = MessageCodec[FromDriver](
    {
        "connected": DriverConnected,
        "failed": DriverFailed,
        "pending": WorkerPending,
        "placed": WorkerPlaced,
        "gone": WorkerGone,
        "lost": PlacementLost,
        "restored": PlacementRestored,
    }
)
