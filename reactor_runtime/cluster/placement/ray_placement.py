"""A placement of workers by Ray: the front's side of its driver."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import io
import logging
import queue
import subprocess
import sys
import threading
from collections.abc import Callable

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
    PlacementEvent,
    PlacementLost,
    PlacementRestored,
)
from reactor_runtime.errors import UsageError

logger = logging.getLogger(__name__)

CONNECT_S = 90.0
RETRY_S = 2.0
REMOVE_S = 15.0
LOG_S = 0.5
LINE_BYTES = 1 << 20


class DriverProcess:
    """Run the Ray driver, in a session of its own: Ctrl-C reaches neither it nor the Ray that it starts.

    Use `connect` in any thread, and the rest on the front's loop.
    """

    def __init__(self, job: DriverJob, *, as_json: bool = False) -> None:
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
        self.send(job)

    def connect(self) -> DriverConnected:
        """Wait until the driver is connected to Ray. Raises UsageError with the reason if it can't be."""
        assert self._process.stdout is not None
        deadline = threading.Timer(CONNECT_S, self._process.kill)
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
            raise UsageError(answer.error, hint=answer.hint)
        raise UsageError(
            f"the driver of Ray has ended, or was not connected in {CONNECT_S:.0f} s",
            hint="the log has what it printed",
        )

    def send(self, message: ToDriver) -> None:
        """Send a message; it is lost if the driver has ended."""
        self._unwritten.put(f"{TO_DRIVER.encode(message)}\n".encode())

    async def follow(self, on_event: Callable[[PlacementEvent], None]) -> str:
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
        self._process.kill()
        self._process.wait()
        self.close_input()
        self._log.join(LOG_S)

    def _write(self) -> None:
        """Write what is sent, on a thread: the driver may not read for a while."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError), self._process.stdin as orders:
            while line := self._unwritten.get():
                orders.write(line)


class RayPlacement:
    """Place workers as actors of Ray, with jobs made by `make_job`; use on the front's loop.

    Start new drivers until one connects when `driver` ends. Drop orders to start workers until then; keep orders to
    stop them.
    """

    def __init__(
        self,
        driver: DriverProcess,
        connected: DriverConnected,
        *,
        make_driver: Callable[[], DriverProcess],
        make_job: Callable[[str], str],
    ) -> None:
        self.found = connected.workers
        self._driver = driver
        self._make_driver = make_driver
        self._make_job = make_job
        self._connected = True
        self._unsent: list[StopWorker] = []
        self._closed = False

    def start(self, worker: str) -> None:
        if self._connected:
            self._driver.send(StartWorker(worker, self._make_job(worker)))

    def stop(self, worker: str) -> None:
        if self._connected:
            self._driver.send(StopWorker(worker))
        else:
            self._unsent.append(StopWorker(worker))

    async def run(self, on_event: Callable[[PlacementEvent], None]) -> None:
        while True:
            reason = await self._driver.follow(on_event)
            if self._closed:
                return
            self._connected = False
            on_event(PlacementLost(reason))
            workers = await self._reconnect()
            if workers is None:
                return
            self._connected = True
            for order in self._unsent:
                self._driver.send(order)
            self._unsent.clear()
            on_event(PlacementRestored(workers))

    async def aclose(self) -> None:
        self._closed = True
        self._driver.send(RemoveWorkers())
        await asyncio.to_thread(self._driver.wait, REMOVE_S)

    def kill(self) -> None:
        self._closed = True
        self._driver.kill()

    async def _reconnect(self) -> tuple[str, ...] | None:
        """Return the workers that the new driver has found; None if this was closed in the meantime."""
        while True:
            await asyncio.sleep(RETRY_S)
            if self._closed:
                return None
            self._driver = self._make_driver()
            try:
                connected = await asyncio.to_thread(self._driver.connect)
            except UsageError as error:
                logger.debug("Ray can't be reached again yet: %s", error.message)
            else:
                return connected.workers


def _decode(line: bytes) -> FromDriver | None:
    return FROM_DRIVER.decode(line) if line else None
