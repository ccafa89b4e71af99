"""Limits how often lines of Reactor and its web libraries are logged, and counts the lines left out.

Pure: the time is an argument. Lines of other loggers are output of the model, which `server/workers/engine_output.py`
limits.
"""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Hashable
from types import TracebackType

from reactor_runtime.network import network_of

WINDOW_S = 60.0
# Lines in a window.
MOST_OF_EXCEPTION = 6
MOST_OF_ADDRESS = 100
MOST_OF_CLIENTS = 6000
MOST_OF_PLACE = 1000
MOST_SOURCES = 1000
MOST_TEXT = 200
LIMITED = frozenset({"reactor_runtime", "reactor_cli", "uvicorn", "websockets", "asyncio"})
_ALL, _OTHERS = "clients", "clients of other addresses"


class LogLimits:
    """Admit a limited number of lines of one source in a minute, and then a line with the number of those left out.

    The source of a line is the place in the code where its exception was raised, or the address of the client in its
    extra field `address`, or else the place that logs. An exception has its traceback once a minute, and so has each
    warning about an address its line. All addresses together have a limit too.
    """

    def __init__(self, window_s: float = WINDOW_S) -> None:
        # An attacker may have many addresses, which must not fill the table of the other sources.
        self._clients = _Sources(window_s)
        self._places = _Sources(window_s)

    @property
    def due_at(self) -> float | None:
        """Return when the next count is due; None while every line was admitted."""
        return min((each.due_at for each in (self._clients, self._places) if each.due_at is not None), default=None)

    def counts(self, now: float) -> list[logging.LogRecord]:
        """Return records with the counts that are due, each once; all counts where `now` is infinite."""
        return [*self._clients.counts(now), *self._places.counts(now)]

    def admit(self, record: logging.LogRecord, now: float) -> list[logging.LogRecord]:
        """Return the records to write in place of this one: the counts that are due, and the record if admitted."""
        due = self.counts(now)
        if record.name.partition(".")[0] not in LIMITED:
            return [*due, record]
        if record.exc_info and record.exc_info[1] is not None:
            return [*due, *self._admit_exception(record, record.exc_info[1], record.exc_info[2], now)]
        address = vars(record).get("address")
        if address is None:
            key = record.pathname, record.lineno
            admitted = self._places.take(key, MOST_OF_PLACE, record, message_of(record), now) is not None
        else:
            admitted = self._admit_client(record, network_of(str(address)), now)
        return [*due, record] if admitted else due

    def _admit_client(self, record: logging.LogRecord, address: str, now: float) -> bool:
        what = "lines about clients"
        if record.levelno >= logging.WARNING:
            warning = address, record.pathname, record.lineno
            admitted = self._clients.take(warning, 1, record, message_of(record), now)
        else:
            admitted = self._clients.take(address, MOST_OF_ADDRESS, record, f"{what} from={address}", now)
        return admitted is not None and self._clients.take(_ALL, MOST_OF_CLIENTS, record, what, now) is not None

    def _admit_exception(
        self, record: logging.LogRecord, error: BaseException, place: TracebackType | None, now: float
    ) -> list[logging.LogRecord]:
        file, line = _innermost(place) or (record.pathname, record.lineno)
        kind, message = type(error), message_of(record)
        what = f"{message}: {kind.__name__} at {os.path.basename(file)}:{line}"
        number = self._places.take((kind.__qualname__, file, line), MOST_OF_EXCEPTION, record, what, now)
        if number is None:
            return []
        return [record if number == 0 else _without_traceback(record, f"{message}: {_text_of(error)}")]


class _Sources:
    """Count the lines of each source in windows of a minute; those of all addresses beyond 1,000 count together."""

    def __init__(self, window_s: float) -> None:
        self.due_at: float | None = None
        self._window_s = window_s
        self._sources: dict[Hashable, _Source] = {}
        self._full_until = 0.0

    def take(self, key: Hashable, most: int, record: logging.LogRecord, what: str, now: float) -> int | None:
        """Count a line; return its number in the window, from 0 on, or None for a line that is left out."""
        source = self._sources.get(key)
        if source is None or source.ends_at <= now:
            if key not in self._sources and self._is_full(now):
                key, what = _OTHERS, f"{what.partition(' from=')[0]} from other addresses"
                source = self._sources.get(key)
            if source is None or source.ends_at <= now:
                source = self._sources[key] = _Source(record, what, now + self._window_s)
        source.lines += 1
        if source.lines <= most:
            return source.lines - 1
        source.left_out += 1
        self.due_at = source.ends_at if self.due_at is None else min(self.due_at, source.ends_at)
        return None

    def counts(self, now: float) -> list[logging.LogRecord]:
        if self.due_at is None or now < self.due_at:
            return []
        counts = [each.count() for each in self._sources.values() if each.ends_at <= now and each.left_out]
        self._forget_ended(now)
        self.due_at = min((each.ends_at for each in self._sources.values() if each.left_out), default=None)
        return counts

    def _is_full(self, now: float) -> bool:
        if len(self._sources) < MOST_SOURCES:
            return False
        if now >= self._full_until:
            self._forget_ended(now)
            self._full_until = min((each.ends_at for each in self._sources.values()), default=now)
        return len(self._sources) >= MOST_SOURCES

    def _forget_ended(self, now: float) -> None:
        self._sources = {key: source for key, source in self._sources.items() if source.ends_at > now}


class _Source:
    """Count the lines of a source in a window; keep text only, as a record keeps the frames of its exception alive."""

    __slots__ = ("_fields", "ends_at", "left_out", "lines")

    def __init__(self, record: logging.LogRecord, what: str, ends_at: float) -> None:
        self.lines = self.left_out = 0
        self.ends_at = ends_at
        self._fields = {"name": record.name, "levelno": record.levelno, "levelname": record.levelname, "msg": what}

    def count(self) -> logging.LogRecord:
        text = f"… {self.left_out:,} more in the last minute: {self._fields['msg']}"
        return logging.makeLogRecord({**self._fields, "msg": text, "left_out": self.left_out})


def _without_traceback(record: logging.LogRecord, message: str) -> logging.LogRecord:
    """Return a copy of a record without its traceback: other handlers get the record itself."""
    copied = copy.copy(record)
    copied.msg, copied.args, copied.exc_info, copied.exc_text = message, (), None, None
    return copied


def _innermost(place: TracebackType | None) -> tuple[str, int] | None:
    """Return file and line of the innermost frame of a traceback."""
    if place is None:
        return None
    while place.tb_next is not None:
        place = place.tb_next
    return place.tb_frame.f_code.co_filename, place.tb_lineno


def _text_of(error: BaseException) -> str:
    try:
        text = str(error)
    # The __str__ of an author's exception may raise anything.
    except Exception:  # noqa: BLE001
        text = ""
    return f"{type(error).__name__}: {text[:MOST_TEXT]}".removesuffix(": ")


def message_of(record: logging.LogRecord) -> str:
    """Return the message of a record; if its arguments do not fit, return the text and the reason."""
    try:
        return record.getMessage()
    # A line whose arguments do not fit is still written.
    except Exception as error:  # noqa: BLE001
        text = record.msg if isinstance(record.msg, str) else safe_repr(record.msg)
        return f"{text} (can't be formatted: {type(error).__name__})"


def safe_repr(value: object) -> str:
    """Return the `repr` of a value; never raises."""
    try:
        return repr(value)
    # The __repr__ of an author's object may raise anything.
    except Exception:  # noqa: BLE001
        return f"<{type(value).__name__}>"
