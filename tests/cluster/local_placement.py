"""A placement that starts worker processes on this machine, without a scheduler."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from reactor_runtime.cluster.job import WorkerFailed, WorkerJob, WorkerListening, parse_answer
from reactor_runtime.cluster.placement.placement import PlacementConnected, PlacementEvent, WorkerGone, WorkerPlaced

SECRET = "5" * 64


def _set_event() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


@dataclass
class LocalPlacement:
    """Run each worker as a child process; tests kill them by `processes`.

    Workers that were `taken_over` run already, and are reported as placed.
    """

    job: Callable[[str], WorkerJob]
    taken_over: Sequence[WorkerPlaced] = ()
    # Set by tests that clear it first, as when the scheduler does not run yet.
    can_connect: asyncio.Event = field(default_factory=_set_event)
    placed: list[WorkerPlaced] = field(default_factory=list)
    processes: dict[str, asyncio.subprocess.Process] = field(default_factory=dict)
    output: dict[str, list[str]] = field(default_factory=dict)
    has_removed: bool = False
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _on_event: Callable[[PlacementEvent], None] | None = None

    def start(self, worker: str) -> None:
        task = asyncio.create_task(self._serve(worker))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def stop(self, worker: str) -> None:
        process = self.processes.get(worker)
        if process is not None and process.returncode is None:
            process.kill()

    def report_gone(self, worker: str) -> None:
        """Report that the node of a worker has ended."""
        assert self._on_event is not None
        self._on_event(WorkerGone(worker, "its node or its actor has ended"))

    async def run(self, on_event: Callable[[PlacementEvent], None]) -> None:
        self._on_event = on_event
        await self.can_connect.wait()
        on_event(PlacementConnected(tuple(placed.worker for placed in self.taken_over), SECRET))
        for placed in self.taken_over:
            on_event(placed)
        await asyncio.Event().wait()

    async def aclose(self) -> None:
        self.has_removed = True
        for process in self.processes.values():
            if process.returncode is None:
                assert process.stdin is not None
                process.stdin.close()
        await asyncio.gather(*self._tasks)

    def kill(self) -> None:
        for worker in self.processes:
            self.stop(worker)

    async def _serve(self, worker: str) -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "reactor_runtime.cluster.worker_process"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        self.processes[worker] = process
        assert process.stdin is not None
        assert process.stdout is not None
        assert self._on_event is not None
        process.stdin.write(f"{self.job(worker).to_json()}\n".encode())
        lines, reason = self.output.setdefault(worker, []), ""
        async for line in process.stdout:
            lines.append(line.decode())
            match parse_answer(line.decode()):
                case WorkerListening(port, certificate):
                    scheme = "https" if certificate else "http"
                    address = f"{scheme}://127.0.0.1:{port}"
                    self.placed.append(WorkerPlaced(worker, address, address, "here", certificate))
                    self._on_event(self.placed[-1])
                case WorkerFailed(error):
                    reason = error
        code = await process.wait()
        process.stdin.close()
        self._on_event(WorkerGone(worker, reason or f"its process has ended with {code}"))
