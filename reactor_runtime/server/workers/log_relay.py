"""The model's process writes JSON log lines, and what code below Python prints; here all of it becomes JSON lines."""

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
    """Read from `fd`, the stdout and stderr of each engine in turn, on a thread; `ids` says whose session it is.

    Two processes that write to one stream could cut each other's lines: through this, the server alone writes.
    """

    def __init__(self, ids: Callable[[], Mapping[str, str]]) -> None:
        self._ids = ids
        self._from, self.fd = os.pipe()
        self._thread = threading.Thread(target=self._read, name="reactor-relay", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Pass on the rest, as far as it comes: a process that the model has left behind may hold its end for ever."""
        os.close(self.fd)
        self._thread.join(JOIN_S)

    def _read(self) -> None:
        pending = b""
        while data := os.read(self._from, 1 << 16):
            *lines, pending = (pending + data).split(b"\n")
            if len(pending) > LONGEST:
                lines.append(pending)
                pending = b""
            self._pass_on(lines)
        self._pass_on([pending])
        os.close(self._from)

    def _pass_on(self, lines: list[bytes]) -> None:
        """Pass lines on in their order, all that the engine logged in a row in one piece."""
        logged: list[str] = []
        for line in lines:
            printed, begins, rest = line.partition(BEGINS)
            is_logged = bool(begins) and _is_logged(begins + rest)
            if printed or not is_logged:
                _write(logged)
                self._log(printed if is_logged else line)
            if is_logged:
                logged.append((begins + rest).decode())
        _write(logged)

    def _log(self, line: bytes) -> None:
        log_line("model", line.decode(errors="replace"), **self._ids())


def _write(logged: list[str]) -> None:
    if logged:
        write_line("\n".join(logged))
        logged.clear()


def _is_logged(line: bytes) -> bool:
    """Tell that a line is one of the engine's log: an object with the fields that each has, in ASCII."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return line.isascii() and isinstance(fields, dict) and fields.keys() >= FIELDS
