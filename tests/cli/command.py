"""Run `reactor` in a process of its own, and return its output and exit code."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import typer

from reactor_cli.app import COMMANDS, add_commands, app
from tests.forks import ROOT, fork
from tests.timeouts import TIMEOUT_S


@dataclass(frozen=True, slots=True)
class Outcome:
    code: int
    out: str
    err: str


@functools.cache
def declared() -> dict[str, typer.core.TyperCommand]:
    """Return the declarations of all commands, which parse their arguments; Typer takes 0.2 s to make them."""
    add_commands(COMMANDS)
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup), "there are several commands"
    found = {}
    for name, command in group.commands.items():
        assert isinstance(command, typer.core.TyperCommand), "it is made of a function"
        found[name] = command
    return found


def environment(**variables: str) -> dict[str, str]:
    """Return this process's environment, with the source tree importable from any directory."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path, "PYTHONUTF8": "1", **variables}


def without_progress(text: str) -> str:
    """Leave out the lines of progress, which a command prints every 5 s on a slow machine."""
    return re.sub(r"^[a-z ]+ … \d.*\n", "", text, flags=re.MULTILINE)


def python(
    *arguments: str, cwd: Path, lines: str | None = None, timeout_s: float = TIMEOUT_S, **variables: str
) -> Outcome:
    """Run Python, with `lines` as piped input; return its output without lines of progress."""
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
    return Outcome(done.returncode, done.stdout, without_progress(done.stderr))


def reactor(
    *arguments: str, cwd: Path, lines: str | None = None, timeout_s: float = TIMEOUT_S, **variables: str
) -> Outcome:
    """Run `reactor` as a user does, in a fork of a process that has its modules imported, as `python` does.

    With `variables`, which Python and packages may read as they start, it runs in a new process.
    """
    if variables:
        return new_reactor(*arguments, cwd=cwd, lines=lines, timeout_s=timeout_s, **variables)
    with contextlib.ExitStack() as files:
        stdin, stdout, stderr = (files.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        stdin.write((lines or "").encode())
        stdin.seek(0)
        descriptors = stdin.fileno(), stdout.fileno(), stderr.fileno()
        process = fork(arguments, descriptors, cwd=cwd, environment=environment(), path=cwd)
        try:
            code = process.wait(timeout_s)
        finally:
            process.kill()
            process.wait()
        stdout.seek(0)
        stderr.seek(0)
        return Outcome(code, stdout.read().decode(), without_progress(stderr.read().decode()))


def new_reactor(
    *arguments: str, cwd: Path, lines: str | None = None, timeout_s: float = TIMEOUT_S, **variables: str
) -> Outcome:
    """Run `reactor` in a new process, for tests of what its start imports, reads and opens."""
    return python("-m", "reactor_cli", *arguments, cwd=cwd, lines=lines, timeout_s=timeout_s, **variables)


@contextlib.contextmanager
def running_reactor(*arguments: str, cwd: Path, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """Run `reactor` in a new process with pipes for its output, and kill it at the end of the block."""
    with subprocess.Popen(
        [sys.executable, "-m", "reactor_cli", *arguments],
        cwd=cwd,
        env=environment(**variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def run_pytest(project: Path) -> Outcome:
    """Run the tests of a project without the plugins that are installed here, which its users do not have."""
    variables = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    # A project has dozens of tests.
    return python("-m", "pytest", "-q", "-W", "error", cwd=project, timeout_s=3 * TIMEOUT_S, **variables)
