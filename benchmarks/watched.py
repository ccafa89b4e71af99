"""A server in a process of its own, and what it and its engines hold: memory, descriptors, threads, tasks, files."""

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
    """What a server holds at one moment, and its engines together; sizes in MiB."""

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
class Watched:
    """A server that is running, with so many engines."""

    process: subprocess.Popen[bytes]
    folder: Path
    sessions: int

    @property
    def log(self) -> str:
        return (self.folder / "output.log").read_text(errors="replace")

    @property
    def port(self) -> int:
        found = re.search(r"http://127\.0\.0\.1:(\d+)", self.log)
        assert found is not None, f"it doesn't listen: {self.log}"
        return int(found[1])

    @property
    def engines(self) -> list[int]:
        """The process ids of the engines that there are, the one that has lived longest first."""
        return sorted(engines_of(self.process.pid), key=_started)

    def get(self, path: str) -> str:
        """Ask over HTTP; gives what is answered, whatever the status."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                return error.read().decode()

    @property
    def own_tracebacks(self) -> list[str]:
        """The tracebacks in the log but for those of the model, which fails where it is asked to."""
        pieces = self.log.split(TRACEBACK)[1:]
        return [piece[:2000] for piece in pieces if "as it was asked to" not in piece[:4000]]

    def until(self, condition: Any, what: str) -> None:
        """Wait for something the server tells nobody."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise TimeoutError(f"no {what}\n{self.log[-4000:]}")
            time.sleep(0.05)

    def rest(self) -> None:
        """Wait until nobody is there and every engine is ready for the next."""

        def quiet() -> bool:
            health = json.loads(self.get("/health"))
            ready = {engine["status"] for engine in health["engines"]} == {"ready"}
            return ready and (health["viewers"], health["waiting"]) == (0, 0)

        self.until(quiet, "rest")
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
            self.counted(signal.SIGUSR1)["tasks"],
            _memfds(server),
            sum(1 for path in (self.folder / "tmp").rglob("*") if path.is_file()),
        )

    def counted(self, how: signal.Signals) -> dict[str, int]:
        """Have the server count its objects, with SIGUSR2 after a collection of garbage."""
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
def watched(*arguments: str, sessions: int) -> Iterator[Watched]:
    """Serve the strained model with so many engines until the end of the block; nothing of it is left then."""
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        folder = Path(name)
        (folder / "tmp").mkdir()
        command = [sys.executable, "-m", "benchmarks.counted", str(folder / "report.json")]
        command += ["run", str(MODEL), "--port", "0", "--sessions", str(sessions), *arguments]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder / "tmp")}
        with (folder / "output.log").open("wb") as output:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment, cwd=ROOT
            )
        server = Watched(process, folder, sessions)
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
    """Say how much memory a process has in use."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def _started(pid: int) -> int:
    """Say when a process was started, in ticks."""
    with contextlib.suppress(OSError):  # it may just have ended
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return 0


def _memfds(pid: int) -> int:
    """Count the places of shared memory a process has mapped, the loop's own included."""
    return Path(f"/proc/{pid}/maps").read_text().count("/memfd:")
