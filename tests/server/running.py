"""A server as people run it: `reactor run` in a process group of its own, its output in a file."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from reactor_cli.scaffold import find, write
from reactor_runtime import interface
from tests.forks import ROOT, fork
from tests.processes import Process, descendants, ended_after, engines_of, gone
from tests.timeouts import TIMEOUT_S

MANIFEST = "model: pipeline:MyModel\nname: my-model\n"
# Without those whose modules are imported on first use: all of them take 0.1 s of CPU, in each engine of a test.
NAMES = ", ".join(name for name in interface.__all__ if name in vars(interface))
LIMITED = 'ulimit -Sn {0} && ulimit -Hn {1} && exec "$@"'
PRELUDE = f"""\
from __future__ import annotations

import asyncio, ctypes, os, signal, sys, time
import numpy as np
from reactor_runtime import {NAMES}


class MyOutput(Output):
    main_video: Video


def gray(level, height=32, width=48):
    return np.full((height, width, 3), level, np.uint8)


"""


def write_project(directory: Path, model: str, **files: str) -> Path:
    """Make a project whose pipeline.py is `model` after the imports every one needs."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "reactor.yaml").write_text(MANIFEST)
    (directory / "pipeline.py").write_text(PRELUDE + textwrap.dedent(model))
    for name, text in files.items():
        (directory / name.replace("_yml", ".yml").replace("_yaml", ".yaml")).write_text(text)
    return directory


def scaffolded(directory: Path, template: str = "pipeline", name: str = "demo") -> Path:
    """Make the project that `reactor init` does."""
    project = directory / name
    write(find(template), project, project.name)
    return project


@dataclass
class RunningServer:
    """A server process, from its start on; `listening` waits until it can be connected to."""

    process: Process
    output: Path

    @property
    def log(self) -> str:
        """Everything that server, engine and model have printed."""
        return self.output.read_text(errors="replace")

    @property
    def port(self) -> int:
        found = re.search(r"https?://127\.0\.0\.1:(\d+)", self.log)
        assert found is not None, f"it doesn't listen: {self.log}"
        return int(found[1])

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/ws"

    @property
    def engine(self) -> int:
        """The process id of the engine; fails when there is none, or more than one."""
        (engine,) = engines_of(self.process.pid)
        return engine

    def wait_for(self, pattern: str, *, timeout_s: float = TIMEOUT_S) -> None:
        """Wait until something has been printed."""
        what = f"{pattern!r} in the log"
        self.until(lambda: re.search(pattern, self.log, re.MULTILINE) is not None, what, timeout_s=timeout_s)

    def until(self, condition: Any, what: str, *, timeout_s: float = TIMEOUT_S) -> None:
        """Wait for something the server tells nobody; fails when the server ends instead."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, f"no {what}:\n{self.log}"
            assert self.process.poll() is None or condition(), f"ended without {what}:\n{self.log}"
            # All tests share one address, whose requests the server limits.
            time.sleep(0.02)

    def get(self, path: str) -> tuple[int, str]:
        """Ask over HTTP; returns the status and the body."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=TIMEOUT_S) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def health(self) -> tuple[int, dict[str, Any]]:
        status, body = self.get("/health")
        return status, json.loads(body)

    def wait_for_health(self, status: str) -> None:
        self.until(lambda: self.health()[1]["status"] == status, f"health {status}")

    def interrupt(self) -> None:
        """Do what Ctrl-C in a terminal does: SIGINT to the whole process group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def ended(self, *, timeout_s: float = TIMEOUT_S) -> int:
        """Wait for the end; returns the exit code."""
        return self.process.wait(timeout_s)

    def stop(self) -> None:
        """Stop it as people do, and see that it went well and left nothing behind."""
        others = descendants(self.process.pid)
        self.interrupt()
        assert self.ended() == 0, self.log
        # A process that was killed may be there for a moment on a busy machine.
        for other in others:
            gone(other)


def environment() -> dict[str, str]:
    """This process's, with this tree and every warning an error."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    inherited = {**os.environ, "PYTHONPATH": path, "PYTHONUTF8": "1", "PYTHONWARNINGS": "error"}
    inherited.pop("PYTHONUNBUFFERED", None)  # what it would hide is for us to get right
    return inherited


@contextlib.contextmanager
def started(
    project: Path,
    *arguments: str,
    command: Sequence[str] = ("run",),
    cwd: Path | None = None,
    descriptors: tuple[int, int] | None = None,
    python: str = sys.executable,
    variables: Mapping[str, str] | None = None,
    stop_s: float | None = None,
) -> Iterator[RunningServer]:
    """Start a server and return at once; whatever happens, nothing of it is left afterwards.

    `descriptors` are the soft and the hard limit of those that it may open, `variables` are added to its environment.
    `stop_s` is how long its engine may take to end when it stops, for tests of what the engine does last; with it the
    server is forked, and `variables` that Python reads when it starts count only for the engine.
    """
    output = project / "output.log"
    arguments = (*command, str(project), "--port", "0", *arguments)
    with output.open("wb") as file:
        if descriptors is None and python == sys.executable and (stop_s is not None or not variables):
            process: Process = _forked(arguments, file, cwd, {**environment(), **(variables or {})}, stop_s)
        else:
            assert stop_s is None, "only a fork can be given another time"
            limited = () if descriptors is None else ("sh", "-c", LIMITED.format(*descriptors), "sh")
            process = subprocess.Popen(
                [*limited, python, "-P", "-m", "reactor_cli", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**environment(), **(variables or {})},
                cwd=cwd,
                start_new_session=True,
            )
    with ended_after(process):
        yield RunningServer(process, output)


def _forked(
    arguments: Sequence[str], output: BinaryIO, cwd: Path | None, variables: Mapping[str, str], stop_s: float | None
) -> Process:
    """Start the command `reactor` in a fork."""
    with open(os.devnull, "rb") as stdin:
        return fork(
            arguments,
            (stdin.fileno(), output.fileno(), output.fileno()),
            cwd=cwd or Path.cwd(),
            environment=variables,
            path=Path(sys.executable).parent,
            new_session=True,
            strict=True,
            stop_s=stop_s,
        )


@contextlib.contextmanager
def reserved_port() -> Iterator[int]:
    """Yield a port on which a server may listen, and which on Linux no other process gets in the block."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        if sys.platform != "linux":
            # Other systems let no second socket have the port.
            sock.close()
        yield port


@contextlib.contextmanager
def serving(
    project: Path,
    *arguments: str,
    command: Sequence[str] = ("run",),
    cwd: Path | None = None,
    descriptors: tuple[int, int] | None = None,
    variables: Mapping[str, str] | None = None,
    stop_s: float | None = None,
) -> Iterator[RunningServer]:
    """Run a server that is ready for the duration of the block, and stop it as people do."""
    with started(
        project, *arguments, command=command, cwd=cwd, descriptors=descriptors, variables=variables, stop_s=stop_s
    ) as server:
        server.wait_for("ready in")
        yield server
        server.stop()


@contextlib.contextmanager
def listening(project: Path, *arguments: str, stop_s: float | None = None) -> Iterator[RunningServer]:
    """Run a server that listens but may not have loaded its model; its end is the test's."""
    with started(project, *arguments, stop_s=stop_s) as server:
        server.wait_for(r"http://127\.0\.0\.1:\d+")
        server.until(lambda: server.get("/live")[0] == 200, "answer")
        yield server
