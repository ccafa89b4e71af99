"""A terminal that a test types into, and whose every byte it reads."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.cli.command import environment
from tests.timeouts import TIMEOUT_S


class Terminal:
    """Run `reactor` in a terminal of 80 by 24."""

    def __init__(self, process: subprocess.Popen[bytes], descriptor: int) -> None:
        self.process = process
        self._descriptor = descriptor
        self.output = ""

    def type(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    def wait_for(self, text: str) -> None:
        """Read until something was written since the last wait."""
        deadline = time.monotonic() + TIMEOUT_S
        while text not in self.output:
            assert time.monotonic() < deadline, f"no {text!r} in {self.output!r}"
            self._read(deadline)
        self.output = self.output.partition(text)[2]

    def ended(self) -> int:
        """Read to the end; returns the exit code."""
        deadline = time.monotonic() + TIMEOUT_S
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"it goes on: {self.output!r}"
            self._read(deadline)
        return self.process.wait()

    @property
    def attributes(self) -> list[Any]:
        return termios.tcgetattr(self._descriptor)

    def _read(self, deadline: float) -> None:
        if select.select([self._descriptor], [], [], min(0.1, deadline))[0]:
            with contextlib.suppress(OSError):  # nobody has it open any more
                self.output += os.read(self._descriptor, 65536).decode(errors="replace")


@contextlib.contextmanager
def terminal(*arguments: str, cwd: Path, **variables: str) -> Iterator[Terminal]:
    """Start a command in a terminal of its own; whatever happens, it is gone afterwards."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "reactor_cli", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=cwd,
        env=environment(TERM="xterm-256color", NO_COLOR="", **variables),
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # so that Ctrl-C means it
    )
    try:
        yield Terminal(process, ours)
    finally:
        process.kill()
        process.wait(TIMEOUT_S)
        os.close(theirs)
        os.close(ours)
