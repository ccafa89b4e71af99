"""Run JavaScript in Node, and read what it printed."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.timeouts import TIMEOUT_S

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "clients" / "js"
WITH_SOCKETS = "--experimental-websocket"  # Node 20 has them behind it, later ones know it still
PATH = f"{os.environ['PATH']}{os.pathsep}{Path(sys.executable).parent}"


def node(*arguments: str, cwd: Path | None = None, **variables: str) -> str:
    """Run Node to its end; returns its output, and fails with all of it where it fails."""
    return run("node", WITH_SOCKETS, "--no-warnings", *arguments, cwd=cwd, **variables)


def run(*command: str, cwd: Path | None = None, **variables: str) -> str:
    prepare()
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, "PATH": PATH, **variables},
        capture_output=True,
        text=True,
        timeout=3 * TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@functools.cache
def prepare() -> None:
    """See to it that there is Node, and what `clients/js` is tested with: nothing is skipped where they lack."""
    done = subprocess.run(
        [ROOT / ".ci" / "node"],
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=8 * TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@contextlib.contextmanager
def packing() -> Iterator[None]:
    """Wait until no other process packs `clients/js`: its scripts put files into the folder for that time."""
    with (PACKAGE / "package.json").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def pack(directory: Path) -> Path:
    """Pack `clients/js` and install it in a directory, as npm would; returns where the package lies."""
    with packing():
        run("npm", "pack", "--silent", "--pack-destination", str(directory), cwd=PACKAGE)
    (archive,) = directory.glob("*.tgz")
    installed = directory / "node_modules" / "@reactor-live" / "client"
    installed.mkdir(parents=True)
    run("tar", "-xzf", str(archive), "-C", str(installed), "--strip-components", "1")
    return installed
