"""A pseudo-terminal that a test writes to and reads from."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import struct
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyte

from tests.cli.command import environment
from tests.forks import fork
from tests.processes import Process
from tests.timeouts import TIMEOUT_S


class Terminal:
    """A `reactor` process in a terminal of 80 by 24, whose attributes were `initial` before the process started."""

    def __init__(self, process: Process, descriptor: int, initial: list[Any]) -> None:
        self.process = process
        self.initial = initial
        self._descriptor = descriptor
        self.output = ""
        self._screen = pyte.Screen(80, 24)
        self._stream = pyte.ByteStream(self._screen)

    def type(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    @property
    def rows(self) -> list[str]:
        """Return the text of the screen."""
        return [row.rstrip() for row in self._screen.display]

    @property
    def text(self) -> str:
        return "\n".join(self.rows)

    @property
    def scrolls_whole(self) -> bool:
        """Return whether no row is excluded from scrolling."""
        margins = self._screen.margins
        return margins is None or (margins.top, margins.bottom) == (0, self._screen.lines - 1)

    def resize(self, *, rows: int, columns: int) -> None:
        # As other terminals do; pyte would move the scroll region alone.
        self._screen.set_margins()
        self._screen.resize(rows, columns)
        fcntl.ioctl(self._descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def until(self, condition: Callable[[], bool]) -> None:
        """Read until the screen fulfils a condition."""
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            assert time.monotonic() < deadline, f"this is on the screen:\n{self.text}"
            self._read(deadline)

    def wait_for(self, text: str) -> None:
        """Read until `text` has been written since the last wait."""
        deadline = time.monotonic() + TIMEOUT_S
        while text not in self.output:
            assert time.monotonic() < deadline, f"no {text!r} in {self.output!r}"
            self._read(deadline)
        self.output = self.output.partition(text)[2]

    def ended(self) -> int:
        """Read to the end, and return the exit code."""
        deadline = time.monotonic() + TIMEOUT_S
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"still running: {self.output!r}"
            self._read(deadline)
        while select.select([self._descriptor], [], [], 0)[0]:
            self._read(deadline)
        return self.process.wait()

    @property
    def attributes(self) -> list[Any]:
        return termios.tcgetattr(self._descriptor)

    def _read(self, deadline: float) -> None:
        if select.select([self._descriptor], [], [], min(0.1, deadline))[0]:
            # The process may have closed the terminal.
            with contextlib.suppress(OSError):
                data = os.read(self._descriptor, 65536)
                self._stream.feed(data)
                self.output += data.decode(errors="replace")


@contextlib.contextmanager
def terminal(*arguments: str, cwd: Path, **variables: str) -> Iterator[Terminal]:
    """Start a command in a terminal of its own, and kill it at the end of the block."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    initial = termios.tcgetattr(ours)
    process = fork(
        arguments,
        (theirs, theirs, theirs),
        cwd=cwd,
        environment=environment(TERM="xterm-256color", NO_COLOR="", **variables),
        path=cwd,
        new_session=True,
        strict=True,
    )
    try:
        yield Terminal(process, ours, initial)
    finally:
        process.kill()
        process.wait(TIMEOUT_S)
        os.close(theirs)
        os.close(ours)
