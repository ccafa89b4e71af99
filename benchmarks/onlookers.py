"""One process of clients: `python -m benchmarks.onlookers PORT '{...}'` with the fields of `Part`.

It says `ready` when all have their first picture, measures when told to, and prints what each has seen as JSON. They
are lean ones, since a hundred of any other would measure themselves.
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

from benchmarks.lean import TEXT, Lean, Reading, join
from benchmarks.serving import cpu_of

PING_S = 0.05
STARTUP_S = 20.0
SETTLE_S = 2.0
STAY_S = 1.0


@dataclass(frozen=True, slots=True)
class Part:
    """What the clients of one process do; those of a storm come `storms_per_s` times a second and stay a second."""

    role: str = "viewer"
    count: int = 0
    never_read: int = 0
    acknowledges: bool = True
    pings: bool = False
    storms_per_s: float = 0.0


@dataclass(slots=True)
class Report:
    """What they saw: per client the number of each frame, when it came, how late; and the times of pings and joins."""

    seqs: list[list[int]] = field(default_factory=list)
    ats: list[list[float]] = field(default_factory=list)
    delays_s: list[list[float]] = field(default_factory=list)
    pings_s: list[float] = field(default_factory=list)
    joins_s: list[float] = field(default_factory=list)
    never_served: int = 0
    closed: int = 0
    cpu_s: float = 0.0


class Onlookers:
    """Such a process, seen from the benchmark."""

    def __init__(self, port: int, part: Part) -> None:
        command = [sys.executable, "-m", __name__, str(port), json.dumps(asdict(part))]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def wait(self) -> None:
        """Wait until all are served."""
        assert self._process.stdout is not None, "a pipe was asked for"
        line = self._process.stdout.readline()
        assert line == "ready\n", f"the clients could not be served: {line}"

    def begin(self, seconds: float) -> None:
        assert self._process.stdin is not None, "a pipe was asked for"
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()

    def report(self) -> Report:
        assert self._process.stdout is not None, "a pipe was asked for"
        return Report(**json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        """End it, if it has not ended; its clients vanish."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


@contextlib.contextmanager
def onlookers(port: int, *parts: Part) -> Iterator[list[Onlookers]]:
    """Start a process for each part, one after the other; all are served when the block begins."""
    started: list[Onlookers] = []
    try:
        for part in parts:
            started.append(Onlookers(port, part))
            started[-1].wait()
        yield started
    finally:
        for each in reversed(started):
            each.close()


def measured(started: list[Onlookers], seconds: float, pids: tuple[int, ...]) -> tuple[list[Report], list[float]]:
    """Let all measure at the same time, once they have settled; and say what of a core each process used meanwhile."""
    for each in started:
        each.begin(seconds)
    time.sleep(SETTLE_S)
    used_s = [cpu_of(pid) for pid in pids]
    time.sleep(seconds)
    shares = [(cpu_of(pid) - before) / seconds for pid, before in zip(pids, used_s, strict=True)]
    return [each.report() for each in started], shares


class _Watching:
    """The clients of this process and what is noted of them."""

    def __init__(self, port: int, part: Part) -> None:
        self._port = port
        self._part = part
        self._reading = Reading()
        self._report = Report()
        self._clients: list[Lean] = []
        self._silent: list[socket.socket] = []
        self._guests: list[Lean] = []
        self._pinged_at = 0.0

    def come(self) -> None:
        for _ in range(self._part.never_read):
            self._silent.append(join(self._port, self._part.role, acknowledges=False).sock)
        for _ in range(self._part.count):
            client = join(self._port, self._part.role, acknowledges=self._part.acknowledges)
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
        grid_s = 1 / self._part.storms_per_s if self._part.storms_per_s else PING_S
        at = time.monotonic()
        while at < until:
            at += grid_s
            self._reading.until(at)
            self._turn(at)
        report = self._report
        report.cpu_s = time.process_time() - used_s
        for client in self._clients:
            report.seqs.append([seen.seq for seen in client.seen])
            report.ats.append([seen.at for seen in client.seen])
            report.delays_s.append([seen.delay_s for seen in client.seen])
            report.closed += client.closed
        if self._guests:
            self._reading.until(self._guests[-1].began + STAY_S)
        for guest in self._guests:
            self._see_off(guest)
        return report

    def _turn(self, now: float) -> None:
        if self._part.pings:
            self._ping(self._clients[0])
        if self._part.storms_per_s:
            guest = join(self._port, self._part.role, acknowledges=self._part.acknowledges)
            self._guests.append(guest)
            self._reading.add(guest)
            while now - self._guests[0].began > STAY_S:
                self._see_off(self._guests.pop(0))

    def _ping(self, client: Lean) -> None:
        if self._pinged_at:
            return  # the one before has not been answered
        self._pinged_at = time.monotonic()

        def answered() -> None:
            self._report.pings_s.append(time.monotonic() - self._pinged_at)
            self._pinged_at = 0.0

        client.on_pong = answered
        client.send(TEXT, json.dumps({"type": "reactor.ping", "data": {"t": 0}}).encode())

    def _see_off(self, guest: Lean) -> None:
        self._reading.remove(guest)
        if guest.seen:
            self._report.joins_s.append(guest.seen[0].at - guest.began)
        else:
            self._report.never_served += 1


def main() -> None:
    settings: dict[str, Any] = json.loads(sys.argv[2])
    watching = _Watching(int(sys.argv[1]), Part(**settings))
    watching.come()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    report = watching.measure(float(sys.stdin.readline()))
    sys.stdout.write(json.dumps(asdict(report)) + "\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
