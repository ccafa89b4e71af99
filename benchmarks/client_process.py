"""One process with many clients: `python -m benchmarks.client_process PORT '{...}'` with the fields of `ClientGroup`.

It prints `ready` when all clients have their first frame, measures when it reads a number of seconds, and prints a
`Report` as JSON.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.raw_client import TEXT, RawClient, ReadLoop, join
from benchmarks.serving import cpu_of

PING_S = 0.05
STARTUP_S = 20.0
SETTLE_S = 2.0
STAY_S = 1.0


@dataclass(frozen=True, slots=True)
class ClientGroup:
    """Describe the clients of one process; with `joins_per_s` more clients join, which stay for a second."""

    role: str = "viewer"
    count: int = 0
    never_read: int = 0
    acknowledges: bool = True
    pings: bool = False
    joins_per_s: float = 0.0


@dataclass(slots=True)
class Report:
    """Hold, for each client, numbers, arrival times and delays of its frames; and the times of pings and joins."""

    seqs: list[list[int]] = field(default_factory=list)
    ats: list[list[float]] = field(default_factory=list)
    delays_s: list[list[float]] = field(default_factory=list)
    pings_s: list[float] = field(default_factory=list)
    joins_s: list[float] = field(default_factory=list)
    never_served: int = 0
    closed: int = 0
    cpu_s: float = 0.0


class ClientProcess:
    """Start and control a process of clients."""

    def __init__(self, port: int, group: ClientGroup) -> None:
        command = [sys.executable, "-m", __name__, str(port), json.dumps(asdict(group))]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def wait(self) -> None:
        """Wait until all clients have a frame."""
        assert self._process.stdout is not None, "stdout is a pipe"
        line = self._process.stdout.readline()
        assert line == "ready\n", f"the clients could not be served: {line}"

    def begin(self, seconds: float) -> None:
        assert self._process.stdin is not None, "stdin is a pipe"
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()

    def report(self) -> Report:
        assert self._process.stdout is not None, "stdout is a pipe"
        return Report(**json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        """Kill the process; its clients vanish."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


@contextlib.contextmanager
def client_processes(port: int, *groups: ClientGroup) -> Iterator[list[ClientProcess]]:
    """Start a process for each group, one after the other; all clients have a frame when the block begins."""
    started: list[ClientProcess] = []
    try:
        for group in groups:
            started.append(ClientProcess(port, group))
            started[-1].wait()
        yield started
    finally:
        for each in reversed(started):
            each.close()


def measure_all(
    started: list[ClientProcess], seconds: float, pids: tuple[int, ...]
) -> tuple[list[Report], list[float]]:
    """Measure in all processes at the same time; return their reports and the share of a core of each of `pids`."""
    for each in started:
        each.begin(seconds)
    time.sleep(SETTLE_S)
    used_s = [cpu_of(pid) for pid in pids]
    time.sleep(seconds)
    shares = [(cpu_of(pid) - before) / seconds for pid, before in zip(pids, used_s, strict=True)]
    return [each.report() for each in started], shares


class _Clients:
    """Run the clients of this process."""

    def __init__(self, port: int, group: ClientGroup) -> None:
        self._port = port
        self._group = group
        self._reading = ReadLoop()
        self._report = Report()
        self._clients: list[RawClient] = []
        self._silent: list[socket.socket] = []
        self._joining: list[RawClient] = []
        self._pinged_at = 0.0

    def connect_all(self) -> None:
        for _ in range(self._group.never_read):
            self._silent.append(join(self._port, self._group.role, acknowledges=False).sock)
        for _ in range(self._group.count):
            client = join(self._port, self._group.role, acknowledges=self._group.acknowledges)
            self._clients.append(client)
            self._reading.add(client)
        deadline = time.monotonic() + STARTUP_S
        while not all(client.seen for client in self._clients):
            assert time.monotonic() < deadline, "not all are served"
            self._reading.until(time.monotonic() + 0.05)

    def measure(self, seconds: float) -> Report:
        self._reading.until(time.monotonic() + SETTLE_S)
        for client in self._clients:
            client.seen.clear()
        used_s, until = time.process_time(), time.monotonic() + seconds
        grid_s = 1 / self._group.joins_per_s if self._group.joins_per_s else PING_S
        at = time.monotonic()
        while at < until:
            at += grid_s
            self._reading.until(at)
            self._join_and_ping(at)
        report = self._report
        report.cpu_s = time.process_time() - used_s
        for client in self._clients:
            report.seqs.append([seen.seq for seen in client.seen])
            report.ats.append([seen.at for seen in client.seen])
            report.delays_s.append([seen.delay_s for seen in client.seen])
            report.closed += client.closed
        if self._joining:
            self._reading.until(self._joining[-1].began + STAY_S)
        for client in self._joining:
            self._leave(client)
        return report

    def _join_and_ping(self, now: float) -> None:
        if self._group.pings:
            self._ping(self._clients[0])
        if self._group.joins_per_s:
            client = join(self._port, self._group.role, acknowledges=self._group.acknowledges)
            self._joining.append(client)
            self._reading.add(client)
            while now - self._joining[0].began > STAY_S:
                self._leave(self._joining.pop(0))

    def _ping(self, client: RawClient) -> None:
        # The ping before has no answer yet.
        if self._pinged_at:
            return
        self._pinged_at = time.monotonic()

        def on_pong() -> None:
            self._report.pings_s.append(time.monotonic() - self._pinged_at)
            self._pinged_at = 0.0

        client.on_pong = on_pong
        client.send(TEXT, json.dumps({"type": "reactor.ping", "data": {"t": 0}}).encode())

    def _leave(self, client: RawClient) -> None:
        self._reading.remove(client)
        if client.seen:
            self._report.joins_s.append(client.seen[0].at - client.began)
        else:
            self._report.never_served += 1


def main() -> None:
    settings: dict[str, Any] = json.loads(sys.argv[2])
    clients = _Clients(int(sys.argv[1]), ClientGroup(**settings))
    clients.connect_all()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    report = clients.measure(float(sys.stdin.readline()))
    sys.stdout.write(json.dumps(asdict(report)) + "\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
