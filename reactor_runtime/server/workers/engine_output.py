"""Limits what engines write to stdout and stderr, and for JSON logs turns it into log lines.

An engine writes log lines itself; native libraries print text. With JSON logs the server alone writes to its stderr,
since two processes that write to one stream could break each other's lines.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import math
import os
import select
import threading
import time
from collections.abc import Callable, Mapping
from typing import Literal

from reactor_runtime.logs import write_line
from reactor_runtime.prints import log_line

logger = logging.getLogger(__name__)

BYTES_PER_S = 1_000_000
LONGEST = 1 << 20
JOIN_S = 0.5
REPORT_S = 0.25
# A prompt or a progress bar has no line end.
UNFINISHED_S = 0.1
PIPE_BYTES = 1 << 20
READ_BYTES = 1 << 18
# The pause after a read that is left out: a model that prints 1 GB/s then takes little of the server's time.
PAUSE_S = 0.001
# The size of time, level and ids around printed text.
JSON_BYTES_A_LINE = 150
FIELDS = frozenset({"time", "level", "logger", "message"})
BEGINS = b'{"time": "'


class EngineOutput:
    """Relay what one engine after the other writes, at most 1 MB a second, and log how many lines were left out.

    `fds` are stdout and stderr for an engine. None stands for the server's own stream, without a limit, if that is
    closed or a terminal, which a debugger in the model needs. `ids` returns the log fields of the session that the
    output belongs to, and is called on another thread.
    """

    def __init__(self, log_format: Literal["text", "json"], ids: Callable[[], Mapping[str, str]]) -> None:
        self._ids = ids
        self._relays: list[_Relay] = []
        self.fds: tuple[int | None, int | None]
        if log_format == "json":
            self.fds = (self._relay(_JsonLines(ids).write, JSON_BYTES_A_LINE, unfinished_s=None),) * 2
        elif _identity_of(1) == _identity_of(2):
            # One pipe keeps their order.
            self.fds = (self._relay_to(1),) * 2
        else:
            self.fds = self._relay_to(1), self._relay_to(2)

    def catch_up(self) -> None:
        """Relay what an engine has written so far: what the server writes next comes after it."""
        for relay in self._relays:
            relay.catch_up()

    def close(self) -> None:
        """Relay the rest and end the threads, within 0.5 s each: a process of the model may keep a pipe open."""
        for relay in self._relays:
            relay.close()

    def _relay_to(self, fd: int) -> int | None:
        if os.isatty(fd) or _identity_of(fd) is None:
            return None
        return self._relay(lambda text: _write_all(fd, text), 0, unfinished_s=UNFINISHED_S)

    def _relay(self, write: Callable[[bytes], None], bytes_a_line: int, *, unfinished_s: float | None) -> int:
        budget = OutputBudget(BYTES_PER_S, bytes_a_line)
        relay = _Relay(write, self._log_left_out, budget, unfinished_s=unfinished_s)
        self._relays.append(relay)
        return relay.fd

    def _log_left_out(self, lines: int) -> None:
        logger.warning(
            "the model writes more than %g MB a second: %d lines left out", BYTES_PER_S / 1e6, lines, extra=self._ids()
        )


class OutputBudget:
    """Admit lines up to a number of bytes in each second, and count the lines of the rest. Pure."""

    def __init__(self, bytes_per_s: int, bytes_a_line: int) -> None:
        self._bytes_per_s = self._left = bytes_per_s
        self._bytes_a_line = bytes_a_line
        self._ends_at = 0.0
        self._left_out = 0

    @property
    def left_out(self) -> int:
        """Return how many lines were left out and not yet reported."""
        return self._left_out

    @property
    def is_spent(self) -> bool:
        """Return whether the last text was left out."""
        return self._left == 0

    def admit(self, text: bytes, now: float) -> bool:
        """Return whether to write lines; a second begins with the first lines after the one before.

        The rest of a text after its last line end counts as a line.
        """
        if now >= self._ends_at:
            self._ends_at = now + 1.0
            self._left = self._bytes_per_s
        ends = text.count(b"\n")
        size = len(text) + ends * self._bytes_a_line
        if size <= self._left:
            self._left -= size
            return True
        # The rest of this second is left out too, so that the log does not have a line here and there.
        self._left = 0
        self._left_out += ends if text.endswith(b"\n") else ends + 1
        return False

    def report(self, now: float) -> int:
        """Return the number of lines that were left out, once, when their second is over; else 0."""
        if now < self._ends_at:
            return 0
        left_out, self._left_out = self._left_out, 0
        return left_out


class PrintedLines:
    """Admit printed text in pieces, which may begin and end within a line, so that each line counts once. Pure.

    After a piece of a line that is left out, the rest of the line is left out too.
    """

    def __init__(self, budget: OutputBudget) -> None:
        self._budget = budget
        # Of the line that the last piece has not ended: whether a piece was written, or left out.
        self._is_begun = self._is_left_out = False

    def admit(self, text: bytes, now: float) -> bytes:
        """Return what to write for a piece of text: all of it, or none, or the end of a line that was begun before."""
        if self._is_left_out:
            _, end, text = text.partition(b"\n")
            self._is_left_out = not end
        end = b""
        if self._is_begun and text.startswith(b"\n"):
            end, text = self._end(), text[1:]
        if not text:
            return end
        if self._budget.admit(text, now):
            self._is_begun = not text.endswith(b"\n")
            return end + text
        self._is_left_out = not text.endswith(b"\n")
        return end + self._end()

    def _end(self) -> bytes:
        begun, self._is_begun = self._is_begun, False
        return b"\n" if begun else b""


class _Relay:
    """Read a pipe on a thread, and write whole lines; with `unfinished_s` the rest of a line after so many seconds."""

    def __init__(
        self,
        write: Callable[[bytes], None],
        on_left_out: Callable[[int], None],
        budget: OutputBudget,
        *,
        unfinished_s: float | None,
    ) -> None:
        self._write = write
        self._on_left_out = on_left_out
        self._budget = budget
        self._printed = PrintedLines(budget)
        self._unfinished_s = unfinished_s
        self._unfinished = b""
        self._from, self.fd = os.pipe()
        os.set_blocking(self._from, False)
        # Only Linux has this, and it limits the total for a user.
        with contextlib.suppress(AttributeError, OSError):
            fcntl.fcntl(self.fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._lock = threading.Lock()
        self._at_end = False
        self._thread = threading.Thread(target=self._run, name="reactor-relay", daemon=True)
        self._thread.start()

    def close(self) -> None:
        os.close(self.fd)
        self._thread.join(JOIN_S)

    def catch_up(self) -> None:
        """Write what is in the pipe now, on the calling thread."""
        with self._lock:
            for _ in range(PIPE_BYTES // READ_BYTES):
                if self._at_end or not self._read():
                    return

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._from, select.POLLIN)
        while not self._at_end:
            readable = poll.poll(self._timeout_ms())
            with self._lock:
                if readable:
                    self._read()
                else:
                    self._pass_on(b"" if self._unfinished_s is None else self._take_unfinished())
                pauses = self._budget.is_spent
            if pauses:
                time.sleep(PAUSE_S)
        os.close(self._from)

    def _timeout_ms(self) -> float | None:
        if self._unfinished and self._unfinished_s is not None:
            return 1e3 * self._unfinished_s
        return 1e3 * REPORT_S if self._budget.left_out else None

    def _read(self) -> bool:
        """Read once, and pass whole lines on; return False if there was nothing to read, or the end."""
        try:
            data = os.read(self._from, READ_BYTES)
        # The other thread has read it.
        except BlockingIOError:
            return False
        if not data:
            self._at_end = True
            self._pass_on(self._take_unfinished())
            return False
        whole, end, self._unfinished = (self._unfinished + data).rpartition(b"\n")
        self._pass_on(whole + end + (self._take_unfinished() if len(self._unfinished) > LONGEST else b""))
        return True

    def _take_unfinished(self) -> bytes:
        unfinished, self._unfinished = self._unfinished, b""
        return unfinished

    def _pass_on(self, text: bytes) -> None:
        now = time.monotonic()
        if lines := self._budget.report(now):
            self._on_left_out(lines)
        if admitted := self._printed.admit(text, now):
            self._write(admitted)
        if self._at_end and (lines := self._budget.report(math.inf)):
            self._on_left_out(lines)


class _JsonLines:
    """Write log lines of an engine as they are, and printed lines as log lines."""

    def __init__(self, ids: Callable[[], Mapping[str, str]]) -> None:
        self._ids = ids

    def write(self, text: bytes) -> None:
        """Write lines in their order; consecutive log lines of the engine are written at once."""
        logged: list[str] = []
        for line in text.removesuffix(b"\n").split(b"\n"):
            printed, begins, rest = line.partition(BEGINS)
            is_logged = bool(begins) and _is_logged(begins + rest)
            if printed or not is_logged:
                _write_logged(logged)
                self._log_printed(printed if is_logged else line)
            if is_logged:
                logged.append((begins + rest).decode())
        _write_logged(logged)

    def _log_printed(self, line: bytes) -> None:
        log_line("model", line.decode(errors="replace"), **self._ids())


def _write_logged(logged: list[str]) -> None:
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


def _write_all(fd: int, text: bytes) -> None:
    """Write to a descriptor; drop text that can't be written: a closed pipe or a full disk must not end a session."""
    left = memoryview(text)
    with contextlib.suppress(OSError):
        while left:
            left = left[os.write(fd, left) :]


def _identity_of(fd: int) -> tuple[int, int] | None:
    """Return what identifies the file of a descriptor; None if it is closed."""
    try:
        status = os.fstat(fd)
    except OSError:
        return None
    return status.st_dev, status.st_ino
