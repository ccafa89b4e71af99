"""`input()` in a terminal whose single keys the server reads: a debugger in the model needs lines and echo."""

from __future__ import annotations

import builtins
import contextlib
import sys
import termios
from collections.abc import Iterator

_LFLAG = 3


def install() -> None:
    """Make `input()` read lines with echo, if stdin is a terminal; the mode is restored after each line.

    The server reads no keys while the terminal has another mode than its own.
    """
    if sys.stdin is None or not sys.stdin.isatty():
        return
    read = builtins.input

    def read_line(prompt: object = "", /) -> str:
        with _line_mode(0):
            return read(prompt)

    builtins.input = read_line


@contextlib.contextmanager
def _line_mode(descriptor: int) -> Iterator[None]:
    before = termios.tcgetattr(descriptor)
    mode = termios.tcgetattr(descriptor)
    mode[_LFLAG] |= termios.ICANON | termios.ECHO
    termios.tcsetattr(descriptor, termios.TCSANOW, mode)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSANOW, before)
