"""Limits what engines write to stdout and stderr, and for JSON logs turns printed text into log lines.

An engine formats its log lines itself, and writes them in packets (`ipc.log_packets`); native libraries print text.
With JSON logs the server alone writes to its stderr, since two processes that write to one stream could break each
other's lines.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import logging
import math
import os
import select
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Literal

from reactor_runtime.ipc.log_packets import PacketReader, Piece, PieceKind, new_mark
from reactor_runtime.logs.handler import write_line
from reactor_runtime.logs.prints import log_line

logger = logging.getLogger(__name__)

BYTES_PER_S = 1_000_000
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


class EngineOutput:
    """Relay what one engine after the other writes, and log how many lines were left out.

    What it prints may have 1 MB a second, and what it logs as well. `fds` are stdout and stderr for an engine. None
    stands for the server's own stream, without a limit, if that is closed or a terminal, which a debugger in the model
    needs. `log_mark` is for the packets of log lines on stderr, "" if that is no pipe. `ids` returns the log fields of
    the session that the output belongs to, and is called on another thread.
    """

    def __init__(self, log_format: Literal["text", "json"], ids: Callable[[], Mapping[str, str]]) -> None:
        self._ids = ids
        self._relays: list[_Relay] = []
        self._mark = new_mark()
        self.fds: tuple[int | None, int | None]
        if log_format == "json":
            self.fds = (self._relay(_JsonLines(ids).write, JSON_BYTES_A_LINE, unfinished_s=None),) * 2
        elif _identity_of(1) == _identity_of(2):
            # One pipe keeps their order.
            self.fds = (self._relay_to(1),) * 2
        else:
            self.fds = self._relay_to(1), self._relay_to(2)
        self.log_mark = "" if self.fds[1] is None else self._mark

    def catch_up(self) -> None:
        """Relay what an engine has written so far: what the server writes next comes after it."""
        for relay in self._relays:
            relay.catch_up()

    def catch_up_with_end(self) -> None:
        """Relay all that an engine has written which has ended, also a line or a record without its end."""
        for relay in self._relays:
            relay.catch_up(is_end=True)

    def close(self) -> None:
        """Relay the rest and end the threads, within 0.5 s each: a process of the model may keep a pipe open."""
        for relay in self._relays:
            relay.close()

    def _relay_to(self, fd: int) -> int | None:
        if os.isatty(fd) or _identity_of(fd) is None:
            return None
        return self._relay(lambda _, text: _write_all(fd, text), 0, unfinished_s=UNFINISHED_S)

    def _relay(self, write: Callable[[bool, bytes], None], bytes_a_line: int, *, unfinished_s: float | None) -> int:
        pieces = OutputPieces(OutputBudget(BYTES_PER_S, bytes_a_line), OutputBudget(BYTES_PER_S, 0))
        relay = _Relay(write, self._log_left_out, PacketReader(self._mark), pieces, unfinished_s=unfinished_s)
        self._relays.append(relay)
        return relay.fd

    def _log_left_out(self, verb: str, lines: int) -> None:
        limit, ids = BYTES_PER_S / 1e6, self._ids()
        logger.warning("the model %s more than %g MB a second: %d lines left out", verb, limit, lines, extra=ids)


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
        self._is_interrupted = False

    def admit(self, text: bytes, now: float) -> bytes:
        """Return what to write for a piece of text: all of it, or none, or the end of a line that was begun before."""
        if self._is_left_out:
            _, end, text = text.partition(b"\n")
            self._is_left_out = not end
        end = b""
        if self._is_begun and text.startswith(b"\n"):
            end, text = self.end(), text[1:]
        if not text:
            return end
        if self._budget.admit(text, now):
            self._is_begun, self._is_interrupted = not text.endswith(b"\n"), False
            return end + text
        end += self.end()
        self._is_left_out = not text.endswith(b"\n")
        return end

    def interrupt(self) -> bytes:
        """Return what to write before log lines: the end of a line that was begun, once."""
        end = b"\n" if self._is_begun and not self._is_interrupted else b""
        self._is_interrupted = True
        return end

    def end(self) -> bytes:
        """Return what ends a line that was begun; the next piece begins another."""
        end = self.interrupt()
        self._is_begun = self._is_left_out = False
        return end


class OutputPieces:
    """Admit the pieces of an engine's output: what it prints by one budget, and what it logs by another. Pure."""

    def __init__(self, printed: OutputBudget, logged: OutputBudget) -> None:
        self._printed = printed
        self._logged = logged
        self._lines = PrintedLines(printed)

    @property
    def is_spent(self) -> bool:
        """Return whether what was printed or logged last was left out."""
        return self._printed.is_spent or self._logged.is_spent

    @property
    def left_out(self) -> int:
        """Return how many lines were left out and not yet reported."""
        return self._printed.left_out + self._logged.left_out

    def report(self, now: float) -> list[tuple[str, int]]:
        """Return what the model did too much, and how many lines of that were left out, once their second is over."""
        reports = [("prints", self._printed.report(now)), ("logs", self._logged.report(now))]
        return [(verb, lines) for verb, lines in reports if lines]

    def admit(self, pieces: Iterable[Piece], now: float) -> Iterator[tuple[bool, bytes]]:
        """Yield what to write, and whether that is log lines; log lines begin on a line of their own."""
        for kind, text in pieces:
            if kind is PieceKind.TEXT:
                if admitted := self._lines.admit(text, now):
                    yield False, admitted
            elif (self._logged if kind is PieceKind.LOGGED else self._printed).admit(text, now):
                if end := self._lines.interrupt():
                    yield False, end
                yield kind is not PieceKind.BROKEN, text

    def end(self) -> bytes:
        """Return what ends a printed line that was begun."""
        return self._lines.end()


class _Relay:
    """Read a pipe on a thread, and write whole lines; with `unfinished_s` the rest of a line after so many seconds.

    `write` gets whether text is log lines, and the text.
    """

    def __init__(
        self,
        write: Callable[[bool, bytes], None],
        on_left_out: Callable[[str, int], None],
        reader: PacketReader,
        pieces: OutputPieces,
        *,
        unfinished_s: float | None,
    ) -> None:
        self._write = write
        self._on_left_out = on_left_out
        self._reader = reader
        self._pieces = pieces
        self._unfinished_s = unfinished_s
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

    def catch_up(self, *, is_end: bool = False) -> None:
        """Write what is in the pipe now, on the calling thread; with `is_end` nothing of it is kept."""
        with self._lock:
            for _ in range(PIPE_BYTES // READ_BYTES):
                if self._at_end or not self._read():
                    break
            if is_end:
                self._pass_on_rest()

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._from, select.POLLIN)
        while not self._at_end:
            readable = poll.poll(self._timeout_ms())
            with self._lock:
                if readable:
                    self._read()
                else:
                    self._pass_on(() if self._unfinished_s is None else self._reader.take_text())
                pauses = self._pieces.is_spent
            if pauses:
                time.sleep(PAUSE_S)
        os.close(self._from)

    def _timeout_ms(self) -> float | None:
        if self._reader.is_in_line and self._unfinished_s is not None:
            return 1e3 * self._unfinished_s
        return 1e3 * REPORT_S if self._pieces.left_out else None

    def _read(self) -> bool:
        """Read once, and pass pieces on; return False if there was nothing to read, or the end."""
        try:
            data = os.read(self._from, READ_BYTES)
        # The other thread has read it.
        except BlockingIOError:
            return False
        if not data:
            self._at_end = True
            self._pass_on_rest()
            self._report(math.inf)
            return False
        self._pass_on(self._reader.read(data, may_be_cut=len(data) == READ_BYTES))
        return True

    def _pass_on_rest(self) -> None:
        self._pass_on(self._reader.take_all())
        if end := self._pieces.end():
            self._write(False, end)

    def _pass_on(self, pieces: Iterable[Piece]) -> None:
        now = time.monotonic()
        self._report(now)
        for is_log, admitted in itertools.groupby(self._pieces.admit(pieces, now), itemgetter(0)):
            self._write(is_log, b"".join(text for _, text in admitted))

    def _report(self, now: float) -> None:
        for verb, lines in self._pieces.report(now):
            self._on_left_out(verb, lines)


class _JsonLines:
    """Write log lines of an engine as they are, and printed lines as log lines."""

    def __init__(self, ids: Callable[[], Mapping[str, str]]) -> None:
        self._ids = ids

    def write(self, is_log: bool, text: bytes) -> None:
        lines = text.decode(errors="replace").removesuffix("\n")
        if is_log:
            write_line(lines)
            return
        for line in lines.split("\n"):
            log_line("model", line, **self._ids())


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
