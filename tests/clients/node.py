"""Run JavaScript in Node, and read what it printed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.timeouts import TIMEOUT_S

WITH_SOCKETS = "--experimental-websocket"  # Node 20 has them behind it, later ones know it still


def node(*arguments: str, cwd: Path | None = None, **variables: str) -> str:
    """Run Node to its end; returns its output, and fails with all of it where it fails."""
    program = shutil.which("node")
    assert program is not None, "the tests of the client need Node 20 or newer; .ci/node installs it"
    done = subprocess.run(
        [program, WITH_SOCKETS, "--no-warnings", *arguments],
        cwd=cwd,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=2 * TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
