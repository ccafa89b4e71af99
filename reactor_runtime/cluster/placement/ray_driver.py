"""Runs the Ray driver in a process of its own, because Ray kills a driver that loses its cluster.

It reads a job and then orders from standard input, and writes events to standard output, a line each. The output of
Ray and the logs of the workers that it started go to standard error.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import re
import shutil
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from io import FileIO
from pathlib import Path
from typing import Any

from reactor_runtime.cluster.placement.driver_messages import (
    FROM_DRIVER,
    TO_DRIVER,
    DriverConnected,
    DriverFailed,
    DriverJob,
    FromDriver,
    RemoveWorkers,
    StartWorker,
    StopWorker,
    ToDriver,
)
from reactor_runtime.cluster.placement.placement import (
    PlacementLost,
    PlacementRestored,
    WorkerGone,
    WorkerPending,
    WorkerPlaced,
)

logger = logging.getLogger(__name__)

PENDING_S = 2.0
PENDING_AGAIN_S = 10.0
CHECK_S = 2.0
ANSWER_S = 5.0
UNAVAILABLE_S = 2.0
SECRET_S = 10.0
# The front waits for the end of this process for `ray_placement.REMOVE_S`, which is longer.
ACTORS_END_S = 8.0
PROBE_S = 5.0
EXCLUDED = [".git", ".venv", "venv", "node_modules", "__pycache__", "*.mcap"]
TOKEN_FILE = "~/.ray/auth_token"
TOKEN_HINT = "if the cluster requires a token, copy its ~/.ray/auth_token to this machine, or set RAY_AUTH_TOKEN"
# Ray's own limits: its agent has 15 s to start, and all its processes have 30 s.
NOT_STARTED_HINT = (
    "Ray gives up after 15 to 30 s, which a busy machine may need: try again when it is idle, or serve without Ray, "
    "with `reactor run --sessions N`"
)
NOT_ON_NODES = "No module named 'reactor_runtime'"
# Packages such as PyTorch have gigabytes.
INSTALL_S = 1800
INSTALLING = "Ray installs the packages of --requirements on its node"
FROM_PIP = "ERROR: "
# Older versions of Ray have no exception of their own for it.
ABOUT_TOKEN = re.compile(r"\b(?:unauthenticated|authentication|token)\b", re.IGNORECASE)
OTHER_VERSION = "Version mismatch"
NODE = re.compile(r"\[Node ([^\]\s]+)\]")


class RayDriver:
    """Start, follow and kill the actors of workers; use on one event loop, connected to Ray."""

    def __init__(self, job: DriverJob, send: Callable[[FromDriver], None]) -> None:
        import ray

        from reactor_runtime.cluster.placement.ray_actor import WorkerActor

        self._job = job
        self._send = send
        self._remote_class = ray.remote(WorkerActor)
        self._actors: dict[str, Any] = {}
        self._following: dict[str, asyncio.Task[None]] = {}

    async def run(self, orders: asyncio.StreamReader) -> None:
        """Find the workers of earlier drivers, and follow the orders until they end."""
        found = await asyncio.to_thread(_find_actors)
        secret = self._job.secret
        if found and not secret and self._job.needs_secret:
            secret = await asyncio.to_thread(_read_secret, list(found.values()))
            if not secret:
                self._send(_no_answer(self._job, len(found)))
                return
        self._send(DriverConnected(tuple(found), secret))
        for worker, actor in found.items():
            self._follow_actor(worker, actor)
        checking = asyncio.create_task(self._check_contact())
        try:
            async for line in orders:
                if await self._execute(TO_DRIVER.decode(line)):
                    return
        finally:
            checking.cancel()

    async def _execute(self, order: ToDriver) -> bool:
        """Execute an order; return whether it is the last one."""
        match order:
            case StartWorker():
                try:
                    self._follow_actor(order.worker, self._start(order))
                except Exception as error:  # noqa: BLE001  (Ray may raise any exception)
                    self._send(WorkerGone(order.worker, _cause(error)))
            case StopWorker():
                self._kill_worker(order.worker)
                if order.worker not in self._following:
                    self._send(WorkerGone(order.worker, "it has ended"))
            case RemoveWorkers():
                await self._remove_all()
                return True
        return False

    def _start(self, order: StartWorker) -> Any:
        return self._remote_class.options(
            name=order.worker,
            lifetime="detached",
            num_gpus=self._job.gpus,
            num_cpus=self._job.cpus,
            max_restarts=0,
            max_task_retries=0,
            scheduling_strategy="SPREAD",
        ).remote(order.job)

    def _follow_actor(self, worker: str, actor: Any) -> None:
        self._actors[worker] = actor
        task = self._following[worker] = asyncio.create_task(self._report(worker, actor))
        task.add_done_callback(lambda _: self._following.pop(worker, None))

    async def _report(self, worker: str, actor: Any) -> None:
        """Report where a worker runs, and why it has ended."""
        try:
            pending = asyncio.create_task(self._report_pending(worker))
            try:
                await _answer(actor.__ray_ready__)
            finally:
                pending.cancel()
            place = await _answer(actor.start)
            if place is not None:
                self._send(WorkerPlaced(worker, *place))
            reason = await _answer(actor.wait_end)
        except Exception as error:  # noqa: BLE001  (Ray may raise any exception)
            reason = _cause(error)
        self._kill_worker(worker)
        self._send(WorkerGone(worker, reason))

    async def _report_pending(self, worker: str) -> None:
        wait_s = PENDING_S
        while True:
            await asyncio.sleep(wait_s)
            wait_s = PENDING_AGAIN_S
            try:
                reason: str = await asyncio.to_thread(self._why_pending)
            except Exception as error:  # noqa: BLE001  (Ray may raise any exception)
                reason = _cause(error)
            self._send(WorkerPending(worker, reason))

    def _why_pending(self) -> str:
        import ray

        return why_pending(self._job, len(self._actors), ray.cluster_resources(), ray.available_resources())

    def _kill_worker(self, worker: str) -> None:
        actor = self._actors.pop(worker, None)
        if actor is not None:
            _kill(actor)

    async def _remove_all(self) -> None:
        for worker in list(self._actors):
            self._kill_worker(worker)
        if self._following:
            await asyncio.wait(list(self._following.values()), timeout=ACTORS_END_S)

    async def _check_contact(self) -> None:
        """Report when the cluster does not answer, and when it does again."""
        import ray

        lost = False
        while True:
            await asyncio.sleep(CHECK_S)
            try:
                async with asyncio.timeout(ANSWER_S):
                    await asyncio.to_thread(ray.nodes)
            except Exception as error:  # noqa: BLE001  (Ray may raise any exception)
                if not lost:
                    reason = (
                        f"Ray has not answered for {ANSWER_S:.0f} s"
                        if isinstance(error, TimeoutError)
                        else _cause(error)
                    )
                    self._send(PlacementLost(reason))
                lost = True
            else:
                if lost:
                    self._send(PlacementRestored(tuple(self._following)))
                lost = False


def why_pending(job: DriverJob, workers: int, total: Mapping[str, float], free: Mapping[str, float]) -> str:
    """Return what a worker waits for; `workers` counts all of them, `total` and `free` are resources of the cluster."""
    needs = {name: count for name, count in (("GPU", job.gpus), ("CPU", job.cpus)) if count}
    have_places = all(total.get(name, 0) - free.get(name, 0) >= count * workers for name, count in needs.items())
    if job.requirements and have_places:
        return INSTALLING
    wanted = ", ".join(f"{count:g} {name}" for name, count in needs.items())
    have = ", ".join(f"{free.get(name, 0):g} of {total.get(name, 0):g} {name}" for name in needs)
    return f"waiting for {wanted}: {have} are free" if wanted else "waiting for a node of the cluster"


def _find_actors() -> dict[str, Any]:
    """Return the actors of the namespace by their names."""
    import ray.util

    found = {}
    for name in ray.util.list_named_actors():
        try:
            found[name] = ray.get_actor(name)
        except ValueError:
            # It has ended in the meantime.
            continue
    return found


def _read_secret(actors: list[Any]) -> str:
    """Return the secret that an actor has; "" if none answers."""
    import ray

    secrets = [actor.secret.remote() for actor in actors]
    while secrets:
        answered, secrets = ray.wait(secrets, num_returns=1, timeout=SECRET_S)
        for each in answered:
            try:
                secret: str = ray.get(each)
            except ray.exceptions.RayError:
                continue
            return secret
        if not answered:
            break
    return ""


async def _answer(method: Any) -> Any:
    """Call a method of an actor, again while the actor can't be reached, and return its result."""
    import ray

    while True:
        try:
            return await method.remote()
        except ray.exceptions.ActorUnavailableError:
            # The worker may still serve: the front has a connection to it, and decides when it is lost.
            await asyncio.sleep(UNAVAILABLE_S)


def _kill(actor: Any) -> None:
    import ray

    try:
        ray.kill(actor, no_restart=True)
    except Exception as error:  # noqa: BLE001  (Ray may raise any exception)
        logger.warning("an actor could not be killed: %s", _cause(error))


def _cause(error: BaseException) -> str:
    """Return the cause of an error of Ray, in one line."""
    text = str(error)
    if NOT_ON_NODES in text:
        return "Reactor is not installed on the worker's node: pip install 'reactor-live[ray]' there"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if type(error).__name__ == "RuntimeEnvSetupError":
        return _why_not_installed(lines)
    if type(error).__name__ == "ActorDiedError":
        # Its constructor raises ValueError for a job of another version.
        failed_to_start = getattr(error, "_actor_init_failed", False)
        return lines[-1].removeprefix("ValueError: ") if failed_to_start else "its node or its actor has ended"
    cause = getattr(error, "cause", None)
    if isinstance(cause, Exception):
        return str(cause)
    return lines[0] if lines else type(error).__name__


def _why_not_installed(lines: list[str]) -> str:
    """Return the last line of pip, or without one of Ray, about the environment of a worker."""
    errors = [line.removeprefix(FROM_PIP) for line in lines if line.startswith(FROM_PIP)]
    reason = (errors or lines)[-1]
    node = next((found[1] for line in lines if (found := NODE.match(line))), "")
    # An error without a node is one of the upload from this machine.
    return f"Ray can't install what the worker needs on {node}: {reason}" if node else reason


def _connect(job: DriverJob) -> None:
    """Connect to Ray, or start it. Raises any exception of Ray."""
    import ray

    common: dict[str, Any] = {"namespace": job.namespace, "logging_level": "error", "log_to_driver": True}
    common["runtime_env"] = _runtime_environment(job)
    if job.address:
        _probe(job.address)
        ray.init(address=job.address, **common)
        return
    cpus = max(os.cpu_count() or 1, round(job.cpus * job.most + 0.5))
    # Ray counts the GPUs of this machine; without any, it is given as many as the workers need.
    gpus = None if os.path.isdir("/proc/driver/nvidia/gpus") else round(job.gpus * job.most + 0.5)
    ray.init(address="local", num_cpus=cpus, num_gpus=gpus, include_dashboard=False, _temp_dir=job.files, **common)


def _runtime_environment(job: DriverJob) -> dict[str, Any]:
    environment: dict[str, Any] = {}
    if job.project:
        environment |= {"working_dir": job.project, "excludes": EXCLUDED}
    if job.requirements:
        # The node of the front may have no worker, and needs no packages then.
        config = {"setup_timeout_seconds": INSTALL_S, "eager_install": False}
        environment |= {"pip": list(job.requirements), "config": config}
    return environment


def _no_answer(job: DriverJob, count: int) -> DriverFailed:
    """Return the failure to take over workers, none of which answers and all of which may have sessions."""
    workers = "1 worker" if count == 1 else f"{count} workers"
    return DriverFailed(
        f"{workers} of the cluster {job.cluster} {'does' if count == 1 else 'do'} not answer in Ray at {job.address}",
        "if another front runs, start this one with workers of its own: `--cluster NAME`; else try again, or end them "
        f"with their sessions: `{job.removal}`",
        is_final=False,
    )


def _has_token() -> bool:
    return (
        "RAY_AUTH_TOKEN" in os.environ or Path(os.environ.get("RAY_AUTH_TOKEN_PATH", TOKEN_FILE)).expanduser().exists()
    )


def _probe(address: str) -> None:
    """Raise OSError if nothing listens at an address with a port: Ray would try for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), PROBE_S).close()


def why_not_connected(job: DriverJob, error: BaseException) -> DriverFailed:
    """Return the failure to connect, with a hint; it is final if the cluster has answered."""
    text, is_final = _cause(error), True
    if isinstance(error, ImportError):
        return DriverFailed(f"Ray can't be imported: {error}", "pip install 'reactor-live[ray]'", is_final)
    if type(error).__name__ == "AuthenticationError" or ABOUT_TOKEN.search(str(error)):
        hint = TOKEN_HINT
    elif text.startswith(OTHER_VERSION):
        text, hint = " ".join(str(error).split()), "install the versions of the cluster here"
    elif "size" in text and "exceeds" in text.lower():
        hint = "--project-on-nodes uses a copy of the project that is on the nodes already"
    elif job.address:
        hint, is_final = f"`ray status --address {job.address}` shows whether it runs; {TOKEN_HINT}", False
    else:
        hint, is_final = NOT_STARTED_HINT, False
    where = f"Ray at {job.address} can't be used" if job.address else "Ray can't be started on this machine"
    return DriverFailed(f"{where}: {text}", hint, is_final)


def _sender(output: FileIO) -> Callable[[FromDriver], None]:
    def send(message: FromDriver) -> None:
        # A front that ends does not read the last events.
        with contextlib.suppress(BrokenPipeError):
            output.write(f"{FROM_DRIVER.encode(message)}\n".encode())

    return send


async def _serve(job: DriverJob, send: Callable[[FromDriver], None]) -> None:
    orders = asyncio.StreamReader(limit=1 << 24)
    protocol = functools.partial(asyncio.StreamReaderProtocol, orders)
    await asyncio.get_running_loop().connect_read_pipe(protocol, sys.stdin)
    await RayDriver(job, send).run(orders)
    if job.address:
        # Exit without waiting for Ray's threads, which may block for a minute.
        os._exit(0)


def main() -> int:
    """Follow the job and the orders on standard input; return the exit code."""
    # Ctrl-C is for the front, which ends this.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    send = _sender(FileIO(os.dup(1), "w"))
    os.dup2(2, 1)
    # Turn off Ray's usage reports, its colours outside of a terminal and its merging of equal log lines.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_COLOR_PREFIX", "0")
    os.environ.setdefault("RAY_DEDUP_LOGS", "0")
    # Ray's own code warns.
    os.environ.pop("PYTHONWARNINGS", None)
    # A worker that requests no GPU uses those of its node, as without Ray.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # A Ray that is started here gives workers the priority of this process; Ray's default is a lower one.
    os.environ.setdefault("RAY_worker_niceness", "0")
    # Read unbuffered: the rest is read by the event loop.
    job = TO_DRIVER.decode(_read_line(sys.stdin.fileno()))
    assert isinstance(job, DriverJob), "it is the first message"
    if job.address and _has_token():
        # Without this, Ray does not send the token that `ray start --head` has made.
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    try:
        _connect(job)
    except Exception as error:  # noqa: BLE001  (Ray may raise any exception)
        send(why_not_connected(job, error))
        return 2
    import ray

    asyncio.run(_serve(job, send))
    ray.shutdown()
    if job.files:
        # The front removes them too, unless it was killed.
        shutil.rmtree(job.files, ignore_errors=True)
    return 0


def _read_line(file: int) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(file, 1)
        if not byte:
            sys.exit()
        line += byte
    return line


if __name__ == "__main__":
    sys.exit(main())
