"""Startup of a front: connects to Ray, and serves the workers there until a signal."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from dataclasses import asdict, replace
from functools import partial

from reactor_runtime.cluster.build import build_of
from reactor_runtime.cluster.front.fleet import WorkerFleet
from reactor_runtime.cluster.front.worker_slot import WorkerSlot
from reactor_runtime.cluster.job import WorkerJob
from reactor_runtime.cluster.messages import FrontIdentity
from reactor_runtime.cluster.options import ClusterOptions
from reactor_runtime.cluster.placement.driver_messages import DriverJob, RemoveWorkers
from reactor_runtime.cluster.placement.placement import WorkerEvent, WorkerGone
from reactor_runtime.cluster.placement.ray_placement import REMOVE_S, DriverProcess, RayPlacement
from reactor_runtime.cluster.tickets import TicketIssuer
from reactor_runtime.server.net.listening import is_loopback
from reactor_runtime.server.options import ANY_SERVER, Operator, ServeOptions
from reactor_runtime.server.run import Service, serve
from reactor_runtime.server.sessions.slot import SlotSettings

# A start that fails on a busy machine often succeeds the second time.
LOCAL_STARTS = 2
LOOPBACK = "127.0.0.1"
ANY_ADDRESS = "0.0.0.0"


def serve_front(options: ServeOptions, cluster: ClusterOptions, operator: Operator) -> None:
    """Serve a project with workers on Ray until a signal, as `serve` does with engines; use on the main thread.

    Listens first, and connects to Ray meanwhile. Raises UsageError if Ray can't be used, and what `serve` raises.
    """
    options = replace(options, access=replace(options.access, connects_to=ANY_SERVER))
    job = common_job(options, cluster)
    placement = RayPlacement(
        make_driver=partial(_make_driver, options, cluster),
        make_job=lambda worker, secret: replace(job, worker=worker, secret=secret).to_json(),
        # A cluster may be unreachable for a while; a local Ray that does not start needs a correction.
        attempts=0 if cluster.address else LOCAL_STARTS,
    )
    try:
        serve(
            options,
            operator,
            lambda options, operator, tls: _service(options, cluster, operator, tls, placement, job.build),
        )
    finally:
        placement.kill()


def remove_workers(name: str, address: str) -> tuple[int, int]:
    """Kill all workers of a cluster, also those without a front; return how many there were, and how many have ended.

    Raises UsageError if Ray can't be used.
    """
    driver = DriverProcess(DriverJob(address=address, cluster=name, needs_secret=False))
    try:
        found = driver.connect().workers
        driver.send(RemoveWorkers())
        ended = asyncio.run(_ended(driver))
    finally:
        driver.kill()
    return len(found), len(ended.intersection(found))


async def _ended(driver: DriverProcess) -> set[str]:
    """Return the workers that a driver reports as gone until it ends."""
    ended = set[str]()

    def add(event: WorkerEvent) -> None:
        if isinstance(event, WorkerGone):
            ended.add(event.worker)

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(REMOVE_S):
            await driver.follow(add)
    return ended


def _make_driver(options: ServeOptions, cluster: ClusterOptions, secret: str) -> DriverProcess:
    job = DriverJob(
        address=cluster.address,
        cluster=cluster.name,
        project=str(options.manifest.project.resolve()) if _copies_project(cluster) else "",
        requirements=cluster.requirements,
        gpus=cluster.gpus_per_session,
        cpus=cluster.cpus_per_session,
        most=cluster.scaling.most,
        secret=secret,
    )
    return DriverProcess(job, as_json=options.log_format == "json")


def relays_all_clients(options: ServeOptions, cluster: ClusterOptions) -> bool:
    """Return whether all clients are relayed.

    The workers of a Ray on this machine listen on loopback, where clients of other machines can't reach them.
    """
    has_others = bool(options.access.proxies) or not is_loopback(options.host)
    return cluster.relays_all or (has_others and not cluster.address and not cluster.worker_url)


def _copies_project(cluster: ClusterOptions) -> bool:
    """Return whether Ray copies the project: a Ray on this machine uses it where it is."""
    return bool(cluster.address) and not cluster.is_on_nodes


def common_job(options: ServeOptions, cluster: ClusterOptions) -> WorkerJob:
    """Return the job of all workers, without the id and the secret of one."""
    project = options.manifest.project.resolve()
    job = WorkerJob.of(
        options,
        cluster=cluster.name,
        worker="",
        secret="",
        # Ray starts an actor in its copy of the project.
        project="." if _copies_project(cluster) else str(project),
        host=ANY_ADDRESS if cluster.address else LOOPBACK,
        ports=cluster.worker_ports,
        url=cluster.worker_url,
    )
    certificate = options.access.certificate
    of_build = {
        **asdict(job),
        "certificate": "" if certificate is None else certificate.read_text(),
        "resources": (cluster.gpus_per_session, cluster.cpus_per_session, cluster.requirements),
    }
    return replace(job, build=build_of(project, of_build))


def _service(
    options: ServeOptions,
    cluster: ClusterOptions,
    operator: Operator,
    tls: ssl.SSLContext | None,
    placement: RayPlacement,
    build: str,
) -> Service[WorkerSlot]:
    front = FrontIdentity.of_this_process()
    fleet = WorkerFleet(
        SlotSettings.of(options),
        operator,
        placement=placement,
        scaling=cluster.scaling,
        front=front,
        build=build,
        make_tickets=lambda secret: TicketIssuer(secret, cluster.name, front.id),
        relays_all=relays_all_clients(options, cluster),
    )
    return Service(fleet, operator, tls)
