"""What a rank prints and logs, as it gets into the log of the process that has the runner."""

from __future__ import annotations

import codecs
import json
import logging
import re
import sys
import threading
from collections import deque

from reactor_runtime.logs.prints import LONGEST, log_line

# Begins a log record; no printed text has it.
RECORD = "\x1e"
TAIL_LINES = 30
READ_BYTES = 1 << 16
_LINE = re.compile(r"([^\r\n]*)(\r\n|\n|\r(?!\n))")


class RecordFormatter(logging.Formatter):
    """Format a log record of a rank as one line, which `RankOutput` reads."""

    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        if record.exc_info and record.exc_info[0]:
            text += "\n" + self.formatException(record.exc_info)
        return RECORD + json.dumps([record.levelno, record.name, text])


class RankOutput:
    """Log each line that a rank writes, with the field `rank`; a thread reads until the end of `fd` and closes it.

    A progress bar of rank 0 goes to stderr; other ranks would draw over it. Without a log, as in a script, lines go to
    stderr. `tail` has the last lines.
    """

    def __init__(self, rank: int, fd: int) -> None:
        self.tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._rank = rank
        self._fd = fd
        self._rest = ""
        self._thread = threading.Thread(target=self._run, name=f"reactor-rank-{rank}-output", daemon=True)
        self._thread.start()

    def join(self, timeout_s: float) -> None:
        """Wait until all of it is logged, which is never if a process that the rank has started keeps the pipe."""
        self._thread.join(timeout_s)

    def _run(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        with open(self._fd, "rb", buffering=0) as file:
            while data := file.read(READ_BYTES):
                self._add(decoder.decode(data))
        self._add(decoder.decode(b"", final=True) + "\n")

    def _add(self, text: str) -> None:
        text = self._rest + text
        end = 0
        for found in _LINE.finditer(text):
            # The rest of a line end may follow.
            if found[2] == "\r" and found.end() == len(text):
                break
            end = found.end()
            if found[2] == "\r":
                self._show_bar(found[1])
            else:
                self._add_line(found[1])
        self._rest = text[end:]
        if len(self._rest) > LONGEST and RECORD not in self._rest:
            self._log_printed(self._rest)
            self._rest = ""

    def _add_line(self, line: str) -> None:
        printed, record, rest = line.partition(RECORD)
        self._log_printed(printed)
        if not record:
            return
        try:
            level, name, message = json.loads(rest)
        # Two processes wrote at once.
        except ValueError:
            self._log_printed(rest)
            return
        self.tail.extend(message.splitlines())
        logger = logging.getLogger(name)
        if logger.hasHandlers():
            fields = {"rank": str(self._rank)}
            logger.handle(logger.makeRecord(name, level, "", 0, "%s", (message,), None, extra=fields))
        else:
            self._write(message)

    def _log_printed(self, line: str) -> None:
        if not line.strip():
            return
        self.tail.append(line)
        if logging.getLogger().hasHandlers():
            log_line("model", line, rank=str(self._rank))
        else:
            self._write(line)

    def _show_bar(self, text: str) -> None:
        if self._rank == 0 and text.strip() and sys.stderr is not None:
            sys.stderr.write(f"{text}\r")

    def _write(self, text: str) -> None:
        if sys.stderr is not None:
            sys.stderr.write(f"rank {self._rank}: {text}\n")
