"""Writes the log lines of workers, which Ray passes on, to the log of the front; a line names its worker and node."""

from __future__ import annotations

import json
import logging
import re
import threading
from logging import DEBUG, INFO
from typing import IO

from reactor_runtime.logs.handler import write_line
from reactor_runtime.logs.prints import log_line

logger = logging.getLogger(__name__)

# As `WorkerActor.__repr__` and Ray begin them.
_OF_WORKER = re.compile(r"\((?P<worker>\S+) on (?P<node>\S+) pid=\d+(?:, ip=[^)]*)?\) (?P<text>.*)")
# Ray begins the first line of a report on a node with this, and none of the others.
_OF_NODE = "(raylet"
# Of Ray's native code, which repeats them each second.
_WARNING = re.compile(r"\[[^\]]* [DIW] \d+ \d+\] ")
_LONGEST = 300


class DriverLog:
    """Read the output of a driver until its end, on a thread; with `as_json` each line is an object."""

    def __init__(self, output: IO[bytes], *, as_json: bool) -> None:
        self._output = output
        self._as_json = as_json
        self._in_report = False
        self._thread = threading.Thread(target=self._read, name="reactor-driver-log", daemon=True)
        self._thread.start()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    def _read(self) -> None:
        for line in self._output:
            self.write(line.decode(errors="replace").rstrip())
        self._output.close()

    def write(self, line: str) -> None:
        """Write a line: those of workers as they are, those of Ray as lines of our log, without its reports."""
        if found := _OF_WORKER.fullmatch(line):
            self._in_report = False
            self._write_of_worker(**found.groupdict())
            return
        if line.startswith("("):
            self._in_report = line.startswith(_OF_NODE)
        elif self._in_report:
            return
        if line:
            logger.log(DEBUG if _WARNING.match(line) else INFO, "ray: %s", line[:_LONGEST])

    def _write_of_worker(self, worker: str, node: str, text: str) -> None:
        if not self._as_json:
            write_line(f"{worker} on {node}: {text}")
            return
        try:
            fields = json.loads(text)
        except ValueError:
            fields = None
        if isinstance(fields, dict):
            write_line(json.dumps({**fields, "worker": worker, "node": node}))
        else:
            log_line("model", text, worker=worker, node=node)
