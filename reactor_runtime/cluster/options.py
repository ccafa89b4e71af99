"""The options of a cluster, beside those of the server."""

from __future__ import annotations

from dataclasses import dataclass

from reactor_runtime.cluster.front.scaling import Scaling


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """Configure where workers run and how clients get to them.

    `address` is that of Ray; with "" Ray is started on this machine. Workers listen on a port of the range
    `worker_ports`, (0, 0) is any free one. Clients connect to `worker_url`, with {host}, {node} and {port}; "" is the
    address of the worker's node. Ray copies the project to the nodes unless it `is_on_nodes`, at the same path, and
    installs the `requirements` there, lines of a requirements file of pip.
    """

    name: str
    scaling: Scaling
    address: str = ""
    gpus_per_session: float = 0.0
    cpus_per_session: float = 1.0
    relays_all: bool = False
    worker_ports: tuple[int, int] = (0, 0)
    worker_url: str = ""
    is_on_nodes: bool = False
    requirements: tuple[str, ...] = ()
