"""A server in a process of its own, and the memory, descriptors, threads, tasks and files of it and its engines."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.processes import descriptors, engines_of, threads

ROOT = Path(__file__).resolve().parents[1]
MODEL = Path(__file__).parent / "strained"
PATIENCE_S = 60.0
READY = re.compile(r"^ready .*in ", re.MULTILINE)
TRACEBACK = "Traceback (most recent call last)"


@dataclass(frozen=True, slots=True)
class Sample:
    """Hold the resources of a server, and of its engines together, at one time; sizes in MiB."""

    server_mib: float
    engines_mib: float
    descriptors: int
    engines_descriptors: int
    threads: int
    engines_threads: int
    tasks: int
    memfds: int
    files: int


@dataclass(frozen=True, slots=True)
class WatchedServer:
    """Measure the resources of a running server."""

    process: subprocess.Popen[bytes]
    folder: Path
    sessions: int

    @property
    def log(self) -> str:
        return (self.folder / "output.log").read_text(errors="replace")

    @property
    def port(self) -> int:
        found = re.search(r"http://127\.0\.0\.1:(\d+)", self.log)
        assert found is not None, f"the server does not listen: {self.log}"
        return int(found[1])

    @property
    def engines(self) -> list[int]:
        """Return the process ids of the engines, the oldest first."""
        return sorted(engines_of(self.process.pid), key=_started)

    def get(self, path: str) -> str:
        """Send a GET request; return the body, whatever the status."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                return error.read().decode()

    @property
    def own_tracebacks(self) -> list[str]:
        """Return the tracebacks in the log, without those of the model's intended failures."""
        pieces = self.log.split(TRACEBACK)[1:]
        return [piece[:2000] for piece in pieces if "as it was asked to" not in piece[:4000]]

    def until(self, condition: Any, what: str) -> None:
        """Poll for a condition of which the server sends no notice."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise TimeoutError(f"no {what}\n{self.log[-4000:]}")
            time.sleep(0.05)

    def rest(self) -> None:
        """Wait until no client is connected and each engine is ready."""

        def quiet() -> bool:
            health = json.loads(self.get("/health"))
            ready = {engine["status"] for engine in health["engines"]} == {"ready"}
            return ready and (health["viewers"], health["waiting"]) == (0, 0)

        self.until(quiet, "server without clients")
        self.until(lambda: self._sockets() == 1, "end of its connections")

    def sample(self) -> Sample:
        server, engines = self.process.pid, self.engines
        return Sample(
            resident_mib(server),
            sum(map(resident_mib, engines)),
            descriptors(server),
            sum(map(descriptors, engines)),
            threads(server),
            sum(map(threads, engines)),
            self.count_objects(signal.SIGUSR1)["tasks"],
            _memfds(server),
            sum(1 for path in (self.folder / "tmp").rglob("*") if path.is_file()),
        )

    def count_objects(self, how: signal.Signals) -> dict[str, int]:
        """Count the server's objects; with SIGUSR2 after a collection of garbage."""
        report = self.folder / "report.json"
        report.unlink(missing_ok=True)
        self.process.send_signal(how)
        self.until(report.exists, "report")
        return dict(json.loads(report.read_text()))

    def _sockets(self) -> int:
        """Count the server's TCP sockets."""
        inodes = {line.split()[9] for line in Path("/proc/net/tcp").read_text().splitlines()[1:]}
        count = 0
        for entry in Path(f"/proc/{self.process.pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                count += os.readlink(entry).removeprefix("socket:[").removesuffix("]") in inodes
        return count


@contextlib.contextmanager
def watched_server(*arguments: str, sessions: int) -> Iterator[WatchedServer]:
    """Serve the model of the soak with `sessions` engines during the block."""
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        folder = Path(name)
        (folder / "tmp").mkdir()
        command = [sys.executable, "-m", "benchmarks.object_counts", str(folder / "report.json")]
        command += ["run", str(MODEL), "--port", "0", "--sessions", str(sessions), *arguments]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder / "tmp")}
        with (folder / "output.log").open("wb") as output:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment, cwd=ROOT
            )
        server = WatchedServer(process, folder, sessions)
        try:
            server.until(lambda: len(READY.findall(server.log)) == sessions, "engines")
            yield server
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def _started(pid: int) -> int:
    """Return the start time of a process in ticks, 0 if it has ended."""
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return 0


def _memfds(pid: int) -> int:
    """Count the shared memory mappings of a process, including the event loop's."""
    return Path(f"/proc/{pid}/maps").read_text().count("/memfd:")
