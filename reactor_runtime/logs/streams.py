"""Standard output and error of the server and the engine: one object each for the life of the process.

Output that can't be written is dropped: a closed terminal, a closed pipe or a full disk must not end a session. Only
the two programs call this.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from typing import Any, TextIO


class StandardStream(io.TextIOWrapper):
    """Write to a standard stream, and pass printed text to an observer and, instead of the file, to a logger.

    Both can be set and cleared at any time, on any thread. The object in `sys.stdout` never changes: `print` holds a
    borrowed reference to it, and replacing it while another thread prints can crash the process. `direct` writes to the
    file alone, for log lines.
    """

    def __init__(self, stream: TextIO) -> None:
        stream.flush()
        buffer = io.BufferedWriter(_ForgivingFile(stream.fileno(), "w", closefd=False))
        encoding, errors = stream.encoding, stream.errors
        # Printed text must appear at once, also in a pipe; `direct` shares the buffer, so nothing may stay here.
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
    """Replace the two standard streams by a `StandardStream`, once; keep streams that a test has set."""
    if sys.stdout is sys.__stdout__:
        sys.stdout = _standard(sys.stdout)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _standard(sys.stderr)


def installed() -> dict[str, StandardStream]:
    """Return the installed `StandardStream`s by name."""
    streams = {"stdout": sys.stdout, "stderr": sys.stderr}
    return {name: stream for name, stream in streams.items() if isinstance(stream, StandardStream)}


def direct(stream: TextIO) -> TextIO:
    """Return the stream for log lines, which is neither observed nor logged."""
    return stream.direct if isinstance(stream, StandardStream) else stream


def _standard(stream: TextIO | None) -> TextIO:
    # It was closed before the program started.
    if stream is None:
        return open(os.devnull, "w", encoding="utf-8")
    return StandardStream(stream)


class _ForgivingFile(io.FileIO):
    def write(self, b: Any, /) -> int:
        try:
            return super().write(b)
        except OSError:
            # Report success: later output may fit again.
            return memoryview(b).nbytes
