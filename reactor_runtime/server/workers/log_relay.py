"""Turns everything that engines write to stdout and stderr into JSON log lines.

An engine writes JSON log lines itself; code below Python prints text. The server alone writes to its stderr, since two
processes that write to one stream could break each other's lines.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping

from reactor_runtime.logs import write_line
from reactor_runtime.prints import log_line

LONGEST = 1 << 20
JOIN_S = 0.5
FIELDS = frozenset({"time", "level", "logger", "message"})
BEGINS = b'{"time": "'


class LogRelay:
    """Read `fd`, the stdout and stderr of one engine after the other, on a thread.

    `ids` returns the log fields of the session that printed text belongs to, and is called on that thread.
    """

    def __init__(self, ids: Callable[[], Mapping[str, str]]) -> None:
        self._ids = ids
        self._from, self.fd = os.pipe()
        self._thread = threading.Thread(target=self._read, name="reactor-relay", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Relay the rest and end the thread, within 0.5 s: a process of the model may keep the pipe open."""
        os.close(self.fd)
        self._thread.join(JOIN_S)

    def _read(self) -> None:
        pending = b""
        while data := os.read(self._from, 1 << 16):
            *lines, pending = (pending + data).split(b"\n")
            if len(pending) > LONGEST:
                lines.append(pending)
                pending = b""
            self._relay_lines(lines)
        self._relay_lines([pending])
        os.close(self._from)

    def _relay_lines(self, lines: list[bytes]) -> None:
        """Write lines in their order; consecutive log lines of the engine are written at once."""
        logged: list[str] = []
        for line in lines:
            printed, begins, rest = line.partition(BEGINS)
            is_logged = bool(begins) and _is_logged(begins + rest)
            if printed or not is_logged:
                _write(logged)
                self._log_printed(printed if is_logged else line)
            if is_logged:
                logged.append((begins + rest).decode())
        _write(logged)

    def _log_printed(self, line: bytes) -> None:
        log_line("model", line.decode(errors="replace"), **self._ids())


def _write(logged: list[str]) -> None:
    if logged:
        write_line("\n".join(logged))
        logged.clear()


def _is_logged(line: bytes) -> bool:
    """Return whether a line is a log line of the engine: an ASCII object with the fields of each log line."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return line.isascii() and isinstance(fields, dict) and fields.keys() >= FIELDS
