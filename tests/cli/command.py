"""Run `reactor` in a process of its own, and return its output and exit code."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import typer

from reactor_cli.app import COMMANDS, add_commands, app
from tests.timeouts import TIMEOUT_S

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Outcome:
    code: int
    out: str
    err: str


def command_of_run() -> typer.core.TyperCommand:
    """Return the declaration of `reactor run`, which parses its arguments."""
    add_commands(COMMANDS)
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup), "there are several commands"
    command = group.commands["run"]
    assert isinstance(command, typer.core.TyperCommand), "it is made of a function"
    return command


def environment(**variables: str) -> dict[str, str]:
    """Return this process's environment, with the source tree importable from any directory."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", **variables}


def python(
    *arguments: str, cwd: Path, lines: str | None = None, timeout_s: float = TIMEOUT_S, **variables: str
) -> Outcome:
    """Run Python, with `lines` as piped input."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=environment(**variables),
        capture_output=True,
        input=lines,
        encoding="utf-8",
        timeout=timeout_s,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def reactor(
    *arguments: str, cwd: Path, lines: str | None = None, timeout_s: float = TIMEOUT_S, **variables: str
) -> Outcome:
    """Run `reactor` as a user does, in a fork of a process that has its dependencies imported.

    With `variables`, which Python and these packages may read as they start, it runs in a new process.
    """
    if variables:
        return new_reactor(*arguments, cwd=cwd, lines=lines, timeout_s=timeout_s, **variables)
    with contextlib.ExitStack() as files:
        stdin, stdout, stderr = (files.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        stdin.write((lines or "").encode())
        stdin.seek(0)
        descriptors = [stdin.fileno(), stdout.fileno(), stderr.fileno()]
        code = _fork_server().run(arguments, cwd, descriptors, timeout_s)
        stdout.seek(0)
        stderr.seek(0)
        return Outcome(code, stdout.read().decode(), stderr.read().decode())


def new_reactor(
    *arguments: str, cwd: Path, lines: str | None = None, timeout_s: float = TIMEOUT_S, **variables: str
) -> Outcome:
    """Run `reactor` in a new process, for tests of what its start imports, reads and opens."""
    return python("-m", "reactor_cli", *arguments, cwd=cwd, lines=lines, timeout_s=timeout_s, **variables)


class _ForkServer:
    """A process of `tests.cli.fork_server`, which runs one command at a time."""

    def __init__(self) -> None:
        self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, str(ROOT / "tests" / "cli" / "fork_server.py"), str(theirs.fileno())],
                env=environment(OPENBLAS_NUM_THREADS="1"),
                pass_fds=(theirs.fileno(),),
            )

    def run(self, arguments: tuple[str, ...], cwd: Path, descriptors: list[int], timeout_s: float) -> int:
        """Run a command with these standard streams, and return its exit code."""
        request = {"arguments": arguments, "cwd": str(cwd.resolve()), "environment": environment()}
        socket.send_fds(self._connection, [json.dumps(request).encode()], descriptors)
        child = int(self._connection.recv(100))
        self._connection.settimeout(timeout_s)
        try:
            return int(self._connection.recv(100))
        except TimeoutError:
            os.kill(child, signal.SIGKILL)
            self._connection.settimeout(None)
            self._connection.recv(100)
            raise subprocess.TimeoutExpired(arguments, timeout_s) from None
        finally:
            self._connection.settimeout(None)

    def close(self) -> None:
        self._connection.close()
        self._process.wait()


@functools.cache
def _fork_server() -> _ForkServer:
    server = _ForkServer()
    atexit.register(server.close)
    return server


def run_pytest(project: Path) -> Outcome:
    """Run the tests of a project without the plugins that are installed here, which its users do not have."""
    return python("-m", "pytest", "-q", "-W", "error", cwd=project, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
