"""The messages between a front and its Ray driver: a line of JSON each, on the driver's standard input and output."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TypeAlias

from reactor_runtime.cluster.codec import MessageCodec
from reactor_runtime.cluster.placement.placement import (
    PlacementLost,
    PlacementRestored,
    WorkerEvent,
    WorkerGone,
    WorkerPending,
    WorkerPlaced,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverJob:
    """Name the Ray to connect to, and the resources of each worker.

    Ray is started on this machine if `address` is "", with enough logical resources for `most` workers; its files are
    in the directory `files`, which is removed after its end. The directory `project` is copied to the nodes unless it
    is "", and the `requirements`, lines of a requirements file of pip, are installed there. If `secret` is "" but
    needed, the driver reads it from workers that run, and fails if none answers.
    """

    address: str
    cluster: str
    project: str = ""
    requirements: tuple[str, ...] = ()
    gpus: float = 0.0
    cpus: float = 0.0
    most: int = 0
    files: str = ""
    secret: str = ""
    needs_secret: bool = True

    @property
    def namespace(self) -> str:
        """Return the namespace of Ray in which the workers of the cluster have their names."""
        return f"reactor-{re.sub(r'[^A-Za-z0-9_.-]', '-', self.cluster)}"

    @property
    def removal(self) -> str:
        """Return the command that ends the workers of the cluster."""
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
    """Report the connection to Ray, the workers that were found there, and their secret; "" without one."""

    workers: tuple[str, ...]
    secret: str


@dataclass(frozen=True, slots=True)
class DriverFailed:
    """Report that the driver can't use Ray and ends; unless the failure `is_final`, another driver may succeed."""

    error: str
    hint: str
    is_final: bool


ToDriver: TypeAlias = DriverJob | StartWorker | StopWorker | RemoveWorkers
FromDriver: TypeAlias = DriverConnected | DriverFailed | WorkerEvent

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
