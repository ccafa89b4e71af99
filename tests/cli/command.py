"""Run `reactor` in a process of its own, and return its output."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.timeouts import TIMEOUT_S

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Outcome:
    code: int
    out: str
    err: str


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
    return python("-m", "reactor_cli", *arguments, cwd=cwd, lines=lines, timeout_s=timeout_s, **variables)


def run_pytest(project: Path) -> Outcome:
    """Run the tests of a project without the plugins that are installed here, which its users do not have."""
    return python("-m", "pytest", "-q", "-W", "error", cwd=project, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
