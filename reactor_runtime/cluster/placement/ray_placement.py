"""A placement of workers by Ray: the front's side of its driver."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import io
import itertools
import logging
import os
import queue
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from reactor_runtime.cluster.placement.driver_log import DriverLog
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
    PlacementConnected,
    PlacementEvent,
    PlacementLost,
    PlacementRestored,
    WorkerEvent,
)
from reactor_runtime.errors import UsageError

logger = logging.getLogger(__name__)

CONNECT_S = 90.0
RETRY_S = 2.0
REMOVE_S = 15.0
LOG_S = 0.5
LINE_BYTES = 1 << 20


class RayUnavailable(UsageError):
    """Report that Ray can't be used now, but may be used later."""


class DriverProcess:
    """Run the Ray driver, in a session of its own: Ctrl-C reaches neither it nor the Ray that it starts.

    Use `connect` in any thread, and the rest on the front's loop. The files of a Ray that it starts are in a directory
    of their own, which is removed when the driver has ended, however it has.
    """

    def __init__(self, job: DriverJob, *, as_json: bool = False) -> None:
        # Ray adds long paths of sockets to the directory, and below a longer one than this they may exceed the limit.
        root = os.environ.get("RAY_TMPDIR") or "/tmp"
        self._files = "" if job.address else tempfile.mkdtemp(prefix="reactor-ray-", dir=root)
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "reactor_runtime.cluster.placement.ray_driver"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
        # It is unbuffered, like the others.
        assert isinstance(self._process.stderr, io.FileIO)
        self._log = DriverLog(io.BufferedReader(self._process.stderr), as_json=as_json)
        self._unwritten = queue.SimpleQueue[bytes]()
        threading.Thread(target=self._write, name="reactor-driver-orders", daemon=True).start()
        self.send(replace(job, files=self._files))

    def connect(self) -> DriverConnected:
        """Wait until the driver is connected to Ray. Raises UsageError, RayUnavailable if a later one may connect."""
        assert self._process.stdout is not None
        deadline = threading.Timer(CONNECT_S, self._kill_processes)
        deadline.daemon = True
        deadline.start()
        try:
            answer = _decode(self._process.stdout.readline())
        finally:
            deadline.cancel()
        if isinstance(answer, DriverConnected):
            return answer
        self.kill()
        self._process.stdout.close()
        if isinstance(answer, DriverFailed):
            raise (UsageError if answer.is_final else RayUnavailable)(answer.error, hint=answer.hint)
        raise RayUnavailable(
            f"the driver of Ray has ended, or was not connected in {CONNECT_S:.0f} s",
            hint="the log has what it printed",
        )

    def send(self, message: ToDriver) -> None:
        """Send a message; it is lost if the driver has ended."""
        self._unwritten.put(f"{TO_DRIVER.encode(message)}\n".encode())

    async def follow(self, on_event: Callable[[WorkerEvent], None]) -> str:
        """Report events until the driver has ended; return how it has."""
        lines = asyncio.StreamReader(limit=LINE_BYTES)
        protocol = functools.partial(asyncio.StreamReaderProtocol, lines)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(protocol, self._process.stdout)
        try:
            async for line in lines:
                message = _decode(line)
                assert message is not None
                assert not isinstance(message, DriverConnected | DriverFailed), "it was connected before"
                on_event(message)
        finally:
            transport.close()
        self.close_input()
        return f"the driver of Ray has ended with {await asyncio.to_thread(self._process.wait)}"

    def close_input(self) -> None:
        """End the driver, which leaves the workers running."""
        self._unwritten.put(b"")

    def wait(self, timeout_s: float) -> None:
        """Wait until the driver has ended, and kill it if it does not."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Kill the driver, and the Ray that it has started; may be called twice."""
        self._kill_processes()
        self._process.wait()
        self.close_input()
        self._log.join(LOG_S)
        if self._files:
            shutil.rmtree(self._files, ignore_errors=True)

    def _kill_processes(self) -> None:
        """Kill the driver and the processes that it has started: those of Ray would go on writing files for a while."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)

    def _write(self) -> None:
        """Write what is sent, on a thread: the driver may not read for a while."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError), self._process.stdin as orders:
            while line := self._unwritten.get():
                orders.write(line)


class ClusterDriver(Protocol):
    """Connect to Ray and place workers; tests have a driver without Ray."""

    def connect(self) -> DriverConnected: ...

    def send(self, message: ToDriver) -> None: ...

    async def follow(self, on_event: Callable[[WorkerEvent], None]) -> str: ...

    def wait(self, timeout_s: float) -> None: ...

    def kill(self) -> None: ...


class RayPlacement:
    """Place workers as actors of Ray; use on the front's loop.

    `make_driver` and `make_job`, which makes the job of a worker, get the secret of the cluster, "" until it is known.
    At the beginning, and after a driver has ended, drivers are started until one connects, with a pause of `retry_s`;
    at the beginning at most `attempts` drivers, if that is not 0. Until one connects, orders to start workers are
    dropped and orders to stop workers are kept.
    """

    def __init__(
        self,
        *,
        make_driver: Callable[[str], ClusterDriver],
        make_job: Callable[[str, str], str],
        attempts: int,
        retry_s: float = RETRY_S,
    ) -> None:
        self._driver: ClusterDriver | None = None
        self._make_driver = make_driver
        self._make_job = make_job
        self._attempts = attempts
        self._retry_s = retry_s
        self._secret = ""
        self._connected = False
        self._unsent: list[StopWorker] = []
        self._closed = False

    def start(self, worker: str) -> None:
        if self._connected and self._driver is not None:
            self._driver.send(StartWorker(worker, self._make_job(worker, self._secret)))

    def stop(self, worker: str) -> None:
        if self._connected and self._driver is not None:
            self._driver.send(StopWorker(worker))
        else:
            self._unsent.append(StopWorker(worker))

    async def run(self, on_event: Callable[[PlacementEvent], None]) -> None:
        while (connected := await self._connect()) is not None:
            driver, found = connected
            self._connected = True
            if self._secret:
                for order in self._unsent:
                    driver.send(order)
                self._unsent.clear()
                on_event(PlacementRestored(found.workers))
            else:
                # The workers of an earlier front accept only tickets signed with their secret.
                self._secret = found.secret or secrets.token_hex(32)
                on_event(PlacementConnected(found.workers, self._secret))
            reason = await driver.follow(on_event)
            if self._closed:
                return
            self._connected = False
            on_event(PlacementLost(reason))
            await asyncio.sleep(self._retry_s)

    async def aclose(self) -> None:
        self._closed = True
        if self._driver is not None and self._secret:
            self._driver.send(RemoveWorkers())
            await asyncio.to_thread(self._driver.wait, REMOVE_S)
        self.kill()

    def kill(self) -> None:
        self._closed = True
        if self._driver is not None:
            self._driver.kill()

    async def _connect(self) -> tuple[ClusterDriver, DriverConnected] | None:
        """Return a driver that is connected, with its answer; None if this was closed in the meantime.

        Raises UsageError at the beginning, if no driver can connect.
        """
        reason = ""
        for attempt in itertools.count(1):
            if self._closed:
                break
            driver = self._driver = self._make_driver(self._secret)
            try:
                return driver, await asyncio.to_thread(driver.connect)
            except UsageError as error:
                if not self._may_retry(error, attempt):
                    raise
                # Log a reason once: it repeats every few seconds, and after a loss of contact it is in the log already.
                if error.message != reason and not self._secret and not self._closed:
                    logger.warning("no contact with Ray, trying again: %s; %s", error.message, error.hint)
                reason = error.message
            await asyncio.sleep(self._retry_s)
        return None

    def _may_retry(self, error: UsageError, attempt: int) -> bool:
        if self._closed or self._secret:
            return True
        return isinstance(error, RayUnavailable) and attempt != self._attempts


def _decode(line: bytes) -> FromDriver | None:
    return FROM_DRIVER.decode(line) if line else None
