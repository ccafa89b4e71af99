"""One run of a model: a server in a process of its own, and a client."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from reactor_cli import lifeline
from reactor_cli.bench import memory
from reactor_cli.bench.client import drive_and_measure
from reactor_cli.bench.figures import Run
from reactor_cli.bench.spans import read_spans
from reactor_runtime.errors import ReactorError

STOP_S = 10.0
_URL = re.compile(r"http://[\w.]+:\d+")
_READY = re.compile(r"ready in ([\d.]+) s")


@dataclass(frozen=True, slots=True)
class Subject:
    """Name what is measured: a project, the overrides of its config, and the rate that its class declares, if any."""

    name: str
    project: Path
    overrides: tuple[str, ...] = ()
    declared_fps: float | None = None


class ServerFailed(ReactorError):
    """Report a server that ended, or a project that can't be served, after the error was printed."""

    def __init__(self, code: int) -> None:
        super().__init__("the model can't be measured: `reactor run` ended")
        self.code = code


def declared_fps(project: Path) -> float | None:
    """Return the rate that the class of a project declares; None if it follows the time of a step.

    Raises ServerFailed for a project that `reactor check` refuses.
    """
    # A forked child would leave the context managers of this process, such as a checkout, when it exits.
    command = [sys.executable, "-m", "reactor_cli", "check", str(project), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        sys.stderr.write(done.stderr)
        raise ServerFailed(done.returncode)
    fps: float | None = json.loads(done.stdout)["fps"]
    return fps


def measure(
    subject: Subject,
    *,
    seconds: float,
    patience_s: float,
    on_loading: Callable[[str], object] = lambda _: None,
    on_progress: Callable[[float], object] = lambda _: None,
) -> Run:
    """Serve a project and control it for `seconds`; `on_loading` gets the server's lines of progress.

    Raises ServerFailed if the server ends, after its error was printed on stderr, and ReactorError if the model makes
    no frame in `patience_s`.
    """
    with tempfile.TemporaryDirectory(prefix="reactor-bench-") as folder:
        trace = Path(folder) / "trace.json"
        with _served(subject, trace, on_loading) as server:
            load_s, url = server.load_s, server.url
            pids = memory.descendants(server.process.pid)
            rest = memory.resident_bytes(pids, peak=False)
            try:
                seen = asyncio.run(
                    drive_and_measure(url, seconds=seconds, patience_s=patience_s, on_progress=on_progress)
                )
            except BaseExceptionGroup as group:
                raise _first(group) from None
            pids = memory.descendants(server.process.pid)
            peak, gpu = memory.resident_bytes(pids, peak=True), memory.gpu_bytes(pids)
        spans = read_spans(trace)
    return Run(
        load_s=load_s,
        first_frame_s=seen.first_at - seen.connected_at,
        settled_at=seen.settled_at,
        until_at=seen.until_at,
        spans=spans,
        inputs_s=seen.inputs_s,
        rest_bytes=rest,
        peak_bytes=peak,
        gpu_bytes=gpu,
    )


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first exception of a group and of the groups in it."""
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error


class _Server:
    """Hold a running `reactor run`, which ends with this process, and the threads that read its output."""

    def __init__(self, arguments: Sequence[str], on_loading: Callable[[str], object]) -> None:
        reader, self._lifeline = os.pipe()
        self.process = subprocess.Popen(
            lifeline.command(reader, *arguments),
            pass_fds=(reader,),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        os.close(reader)
        assert self.process.stdout is not None, "it is a pipe"
        assert self.process.stderr is not None, "it is a pipe"
        self.url, self.load_s = "", 0.0
        self._output = self.process.stdout
        self._reader = threading.Thread(target=self._relay, args=(self.process.stderr, on_loading), daemon=True)
        self._reader.start()

    def wait_until_ready(self) -> None:
        """Read the address and the time of loading. Raises ServerFailed if the server ends first."""
        lines = self._output
        for line in lines:
            if found := _URL.search(line):
                self.url = found[0]
            if found := _READY.search(line):
                self.load_s = float(found[1])
                threading.Thread(target=_drain, args=(lines,), daemon=True).start()
                return
        self._reader.join(STOP_S)
        raise ServerFailed(self.process.wait())

    def _relay(self, lines: IO[str], on_loading: Callable[[str], object]) -> None:
        with lines:
            for line in lines:
                if line.startswith("loading"):
                    on_loading(line.strip())
                else:
                    sys.stderr.write(line)

    def stop(self) -> None:
        """End the server, which completes its trace."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self._lifeline)
        self._reader.join(STOP_S)


def _drain(lines: IO[str]) -> None:
    with lines:
        for _ in lines:
            pass


@contextlib.contextmanager
def _served(subject: Subject, trace: Path, on_loading: Callable[[str], object]) -> Iterator[_Server]:
    arguments = ["run", str(subject.project), "--host", "127.0.0.1", "--port", "0"]
    arguments += ["--log-level", "warning", "--trace", str(trace)]
    arguments += [f"--set={override}" for override in subject.overrides]
    server = _Server(arguments, on_loading)
    try:
        server.wait_until_ready()
        yield server
    finally:
        server.stop()
