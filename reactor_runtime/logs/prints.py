"""Logs printed lines, so that a stream with JSON logs has no other lines."""

from __future__ import annotations

import atexit
import logging
import re
import threading
from collections.abc import Callable, Mapping

from reactor_runtime.logs.streams import StandardStream

LONGEST = 8192
_LINE_END = re.compile(r"\r\n|\r|\n")


def log_prints(streams: Mapping[str, StandardStream]) -> Callable[[], None]:
    """Log each line printed to the streams, with a logger per stream name; return the function that stops it."""
    guard = _Guard()
    loggers = [(stream, _Lines(name, guard)) for name, stream in streams.items()]
    for stream, lines in loggers:
        stream.logger = lines.write
    logging.captureWarnings(True)

    def end() -> None:
        for stream, lines in loggers:
            stream.logger = None
            lines.end()
        logging.captureWarnings(False)
        atexit.unregister(end)

    atexit.register(end)
    return end


def log_line(name: str, line: str, **extra: str) -> None:
    """Log a printed line, at any level of the log."""
    logger = logging.getLogger(name)
    if line.strip():
        logger.handle(logger.makeRecord(name, logging.INFO, "", 0, line, (), None, extra=extra))


class _Guard(threading.local):
    closed = False


class _Lines:
    """Split printed text into lines and log them.

    Text that a thread prints while it logs is dropped: a handler that prints, or an error inside logging, would
    recurse.
    """

    def __init__(self, name: str, guard: _Guard) -> None:
        self._name = name
        self._rest = ""
        self._lock = threading.RLock()
        self._guard = guard

    def write(self, text: str) -> None:
        if self._guard.closed:
            return
        with self._lock:
            *whole, self._rest = _LINE_END.split(self._rest + text)
            if len(self._rest) > LONGEST:
                whole.append(self._rest)
                self._rest = ""
            self._log(whole)

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
