"""Standard output and error that lose what can't be written, in the server and in the model's process alike.

A terminal is closed, the reader of a pipe ends, a disk fills up: none of that is a reason for a session to end. Only
the two programs call this.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any, TextIO


def forgive() -> None:
    """Put forgiving streams in the place of the two standard ones; others, as of a test, stay."""
    if sys.stdout is sys.__stdout__:
        sys.stdout = _forgiving(sys.stdout)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _forgiving(sys.stderr)


def _forgiving(stream: TextIO | None) -> TextIO:
    if stream is None:  # closed before the program began
        return open(os.devnull, "w", encoding="utf-8")
    stream.flush()
    buffer = io.BufferedWriter(_ForgivingFile(stream.fileno(), "w", closefd=False))
    # in a pipe, too, what an author prints is to be seen at once
    return io.TextIOWrapper(buffer, encoding=stream.encoding, errors=stream.errors, line_buffering=True)


class _ForgivingFile(io.FileIO):
    def write(self, b: Any, /) -> int:
        try:
            return super().write(b)
        except OSError:
            return memoryview(b).nbytes  # as if it had been written: a later line may find room again
