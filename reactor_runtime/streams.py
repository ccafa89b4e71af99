"""Standard output and error of the server and of the model's process: one object each for the life of the process.

A terminal is closed, the reader of a pipe ends, a disk fills up: none of that is a reason for a session to end, so
output that can't be written is lost. Only the two programs call this.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from typing import Any, TextIO


class StandardStream(io.TextIOWrapper):
    """Write to a standard stream, and pass what is printed to an observer or, in place of the file, to a logger.

    Both can be set and taken away at any time, on any thread. The object in `sys.stdout` itself never changes: `print`
    holds a borrowed reference to it, so that to replace it while another thread prints can crash the process.
    `direct` writes to the file alone, for the lines of the log.
    """

    def __init__(self, stream: TextIO) -> None:
        stream.flush()
        buffer = io.BufferedWriter(_ForgivingFile(stream.fileno(), "w", closefd=False))
        encoding, errors = stream.encoding, stream.errors
        # in a pipe, too, what an author prints is to be seen at once; `direct` shares the buffer, so nothing stays here
        super().__init__(buffer, encoding=encoding, errors=errors, line_buffering=True, write_through=True)
        self.direct: TextIO = io.TextIOWrapper(buffer, encoding=encoding, errors=errors, line_buffering=True)
        self.observer: Callable[[str], object] | None = None
        self.logger: Callable[[str], object] | None = None

    def write(self, text: str, /) -> int:
        observer, logger = self.observer, self.logger
        if logger is None:
            super().write(text)
        else:
            logger(text)
        if observer is not None:
            observer(text)
        return len(text)

    def isatty(self) -> bool:
        return self.logger is None and super().isatty()


def install() -> None:
    """Put a `StandardStream` in the place of the two standard ones, once; others, as of a test, stay."""
    if sys.stdout is sys.__stdout__:
        sys.stdout = _standard(sys.stdout)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _standard(sys.stderr)


def installed() -> dict[str, StandardStream]:
    """Return the standard streams that are ours, by name."""
    streams = {"stdout": sys.stdout, "stderr": sys.stderr}
    return {name: stream for name, stream in streams.items() if isinstance(stream, StandardStream)}


def direct(stream: TextIO) -> TextIO:
    """Return the stream for lines of the log: one that is neither observed nor logged."""
    return stream.direct if isinstance(stream, StandardStream) else stream


def _standard(stream: TextIO | None) -> TextIO:
    if stream is None:  # closed before the program began
        return open(os.devnull, "w", encoding="utf-8")
    return StandardStream(stream)


class _ForgivingFile(io.FileIO):
    def write(self, b: Any, /) -> int:
        try:
            return super().write(b)
        except OSError:
            return memoryview(b).nbytes  # as if it had been written: a later line may find room again
