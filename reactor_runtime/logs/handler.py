"""The format of log lines on stderr, the same for the server and the engine.

Only these two programs call it. Other modules log through `logging.getLogger(__name__)` and configure nothing.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Literal, TextIO

from reactor_runtime.logs.limits import LogLimits, message_of, safe_repr
from reactor_runtime.logs.logger import MessageWithFields
from reactor_runtime.logs.streams import direct
from reactor_runtime.logs.verbosity import FORMATS, LEVELS

_CHATTY = ("uvicorn", "uvicorn.error", "uvicorn.access", "websockets", "asyncio")
_SHORT = {"WARNING": "warn", "CRITICAL": "fatal"}
_COLOURS = {"DEBUG": "2", "INFO": "32", "WARNING": "33", "ERROR": "31", "CRITICAL": "31"}
_NO_IDS: Mapping[str, str] = MappingProxyType({})
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
# json.dumps would create an encoder for each value, and a model may print 100,000 lines in a handler.
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=str).encode
_OWN_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}


def configure_logs(
    level: str,
    format: Literal["text", "json"] = "text",
    *,
    stream: TextIO | None = None,
    ids: Mapping[str, str] = _NO_IDS,
    engine: str = "",
    write: Callable[[str, str], object] | None = None,
) -> None:
    """Write all loggers' lines of at least `level` to `stream` (stderr); a second call replaces the first.

    `write` gets the lines of each record and the name of its logger instead of the stream.
    In JSON each line has the fields that `ids` holds at that time, such as the session. With several engines, `engine`
    is the engine of all lines, or lines of ours name theirs in an extra field. Web server and socket libraries log from
    `warning` on. Raises ValueError for an unknown level or format.
    """
    if level not in LEVELS:
        raise ValueError(f"unknown log level {level!r}: one of {', '.join(LEVELS)}")
    if format not in FORMATS:
        raise ValueError(f"unknown log format {format!r}: one of {', '.join(FORMATS)}")
    stream = direct(sys.stderr if stream is None else stream)
    handler = LogHandler(stream, LogLimits(), write)
    handler.setFormatter(_Json(ids, engine) if format == "json" else _Text(engine, colour=_has_colour(stream)))
    root = logging.getLogger()
    for previous in [each for each in root.handlers if isinstance(each, LogHandler)]:
        root.removeHandler(previous)
        previous.close()
    root.addHandler(handler)
    root.setLevel(level.upper())
    for name in _CHATTY:
        logging.getLogger(name).setLevel(max(root.level, logging.WARNING))


def write_line(line: str) -> None:
    """Write a formatted line to the stream of the log."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, LogHandler):
            handler.write_line(line)


def _has_colour(stream: TextIO) -> bool:
    """Return whether to write colours: on a terminal that isn't dumb, with NO_COLOR unset or empty."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class LogHandler(logging.StreamHandler[TextIO]):
    """Write the lines that `LogLimits` admits, and on a thread the counts of lines left out, once they are due.

    The thread runs while there are counts: without it a count would wait for the next line, perhaps for hours.
    """

    def __init__(self, stream: TextIO, limits: LogLimits, write: Callable[[str, str], object] | None = None) -> None:
        super().__init__(stream)
        self._limits = limits
        self._write = write
        self.counting: threading.Thread | None = None

    def emit(self, record: logging.LogRecord) -> None:
        for admitted in self._limits.admit(record, time.monotonic()):
            self._emit(admitted)
        # After a fork the thread does not run, but its object is there.
        if self._limits.due_at is not None and (self.counting is None or not self.counting.is_alive()):
            self.counting = threading.Thread(target=self._write_counts, name="reactor-log", daemon=True)
            self.counting.start()

    def close(self) -> None:
        """Write all counts; the stream stays open."""
        self._emit_counts(float("inf"))
        super().close()

    def _write_counts(self) -> None:
        wait_s: float | None = 0.0
        while wait_s is not None:
            time.sleep(wait_s)
            wait_s = self._emit_counts(time.monotonic())

    def _emit_counts(self, now: float) -> float | None:
        """Write the counts that are due; return in how many seconds the next is due, None if the thread has to end."""
        self.acquire()
        try:
            for count in self._limits.counts(now):
                self._emit(count)
            if self._limits.due_at is None:
                self.counting = None
                return None
            return max(0.0, self._limits.due_at - now)
        finally:
            self.release()

    def _emit(self, record: logging.LogRecord) -> None:
        if self._write is None:
            super().emit(record)
            return
        try:
            self._write(self.format(record) + self.terminator, record.name)
        # As in `logging.StreamHandler`: a line that can't be formatted is reported.
        except Exception:  # noqa: BLE001
            self.handleError(record)

    def write_line(self, line: str) -> None:
        self.acquire()
        try:
            self.stream.write(line + self.terminator)
            self.flush()
        finally:
            self.release()


class _Text(logging.Formatter):
    def __init__(self, engine: str, *, colour: bool) -> None:
        super().__init__()
        self._engine = engine
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        level = f"{_SHORT.get(record.levelname, record.levelname.lower()):5}"
        if self._colour:
            level = f"\x1b[{_COLOURS.get(record.levelname, '0')}m{level}\x1b[0m"
        ours = record.name.partition(".")[0] in ("reactor_runtime", "reactor_cli", "root")
        name = "" if ours else f"{record.name}: "
        engine = self._engine or (vars(record).get("engine", "") if ours else "")
        whose = f"engine {engine}: " if engine else ""
        # The rank of a `DistributedRunner` that wrote the line.
        rank = f" rank={found}" if (found := vars(record).get("rank", "")) else ""
        first_line, end, rest = record.getMessage().partition("\n")
        lines = [f"{first_line}{rank}{end}{rest}", *_trouble(self, record)]
        # Clients choose parts of log lines: escape control characters and line ends.
        text = _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", "\n".join(lines)).replace("\n", "\n    ")
        return f"{time.strftime('%H:%M:%S', time.localtime(record.created))} {level} {whose}{name}{text}"


class _Json(logging.Formatter):
    """Format each record as one JSON object; values that JSON can't express become text."""

    def __init__(self, ids: Mapping[str, str], engine: str) -> None:
        super().__init__()
        self._ids = ids
        self._engine = {"engine": engine} if engine else {}

    def format(self, record: logging.LogRecord) -> str:
        written = record.msg if isinstance(record.msg, MessageWithFields) else None
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC)
            .isoformat(timespec="milliseconds")
            .replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": message_of(record) if written is None else written.message,
        }
        if trouble := _trouble(self, record):
            line["traceback"] = "\n".join(trouble)
        line |= self._engine | dict(self._ids)
        extra = {
            str(key): value
            for key, value in vars(record).items()
            # Libraries, such as Ray, add fields of their own to all records.
            if key not in _OWN_FIELDS and key not in line and not str(key).startswith("_")
        }
        for key, value in ({} if written is None else written.fields).items():
            # A field may have the name of one of ours.
            extra[f"{key}_" if key in line else key] = value
        return "{" + ", ".join(f"{_json(key)}: {_json(value)}" for key, value in (line | extra).items()) + "}"


def _trouble(formatter: logging.Formatter, record: logging.LogRecord) -> list[str]:
    """Return the traceback and the stack of a record."""
    trouble = [formatter.formatException(record.exc_info)] if record.exc_info and record.exc_info[0] else []
    return [*trouble, formatter.formatStack(record.stack_info)] if record.stack_info else trouble


def _json(value: object) -> str:
    """Encode a value as ASCII JSON, or its text if JSON can't express it; never raises."""
    try:
        text = _encode(value)
    # The __str__ of an author's object may raise anything.
    except Exception:  # noqa: BLE001
        text = json.dumps(safe_repr(value), ensure_ascii=False)
    if text.isascii():
        return text
    # Other programs can't read half a surrogate pair.
    text = text.encode("utf-8", "replace").decode()
    return _NOT_ASCII.sub(lambda found: json.dumps(found[0])[1:-1], text)
