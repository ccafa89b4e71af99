"""What is printed, as lines of the log: with JSON logs whoever reads them gets nothing else."""

from __future__ import annotations

import atexit
import logging
import re
import sys
import threading
from collections.abc import Callable
from typing import IO, Any

LONGEST = 8192
_LINE_END = re.compile(r"\r\n|\r|\n")


def log_prints() -> Callable[[], None]:
    """Log each line printed to stdout or stderr from here on, as logger `stdout` or `stderr`; returns what ends that.

    Set up logging before: its own lines go to the stream there was.
    """
    before = sys.stdout, sys.stderr
    guard = _Guard()
    printed = _Lines(sys.stdout, "stdout", guard), _Lines(sys.stderr, "stderr", guard)
    sys.stdout, sys.stderr = printed
    logging.captureWarnings(True)

    def end() -> None:
        for lines in printed:
            lines.end()
        sys.stdout, sys.stderr = before
        logging.captureWarnings(False)
        atexit.unregister(end)

    atexit.register(end)
    return end


def log_line(name: str, line: str, **extra: str) -> None:
    """Log a line that was printed, whatever the level of the log is: a print has none."""
    logger = logging.getLogger(name)
    if line.strip():
        logger.handle(logger.makeRecord(name, logging.INFO, "", 0, line, (), None, extra=extra))


class _Guard(threading.local):
    closed = False


class _Lines:
    """Stand where a text stream was; what isn't writing goes to that stream.

    What is printed while the thread logs what it printed is dropped: a handler of the author's that prints what it is
    given, or logging that fails and says so, would go round in circles.
    """

    def __init__(self, stream: IO[str], name: str, guard: _Guard) -> None:
        self._stream = stream
        self._name = name
        self._rest = ""
        self._lock = threading.RLock()
        self._guard = guard

    def write(self, text: str) -> int:
        if self._guard.closed:
            return len(text)
        with self._lock:
            *whole, self._rest = _LINE_END.split(self._rest + text)
            if len(self._rest) > LONGEST:
                whole.append(self._rest)
                self._rest = ""
            self._log(whole)
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Do nothing: half a line is kept for the other half."""

    def isatty(self) -> bool:
        return False

    def end(self) -> None:
        with self._lock:
            rest, self._rest = self._rest, ""
            self._log([rest])

    def _log(self, lines: list[str]) -> None:
        self._guard.closed = True
        try:
            for line in lines:
                log_line(self._name, line)
        finally:
            self._guard.closed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
