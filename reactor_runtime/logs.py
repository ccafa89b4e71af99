"""How log lines look on stderr, the same in the server and in the engine's process.

Only the two programs call this. Libraries of ours log through `logging.getLogger(__name__)` and configure nothing.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import time
from datetime import UTC, datetime
from typing import Literal, TextIO

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")

_CHATTY = ("uvicorn", "uvicorn.error", "uvicorn.access", "websockets", "asyncio")
_SHORT = {"WARNING": "warn", "CRITICAL": "fatal"}
_COLOURS = {"DEBUG": "2", "INFO": "32", "WARNING": "33", "ERROR": "31", "CRITICAL": "31"}
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_OWN_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}


def configure(level: str, format: Literal["text", "json"] = "text", *, stream: TextIO | None = None) -> None:
    """Send every logger's lines of at least `level` to `stream` (stderr); calling it again replaces what it set up.

    Web server and socket libraries stay at `warning`. Raises ValueError for an unknown level or format.
    """
    if level not in LEVELS:
        raise ValueError(f"unknown log level {level!r}: one of {', '.join(LEVELS)}")
    if format not in FORMATS:
        raise ValueError(f"unknown log format {format!r}: one of {', '.join(FORMATS)}")
    stream = sys.stderr if stream is None else stream
    handler = _Handler(stream)
    handler.setFormatter(_Json() if format == "json" else _Text(colour=_has_colour(stream)))
    root = logging.getLogger()
    for previous in [each for each in root.handlers if isinstance(each, _Handler)]:
        root.removeHandler(previous)
    root.addHandler(handler)
    root.setLevel(level.upper())
    for name in _CHATTY:
        logging.getLogger(name).setLevel(max(root.level, logging.WARNING))


def _has_colour(stream: TextIO) -> bool:
    """Tell whether colours may be written: a terminal that isn't dumb, and NO_COLOR unset or empty."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class _Handler(logging.StreamHandler[TextIO]):
    """Ours, so that configuring again finds it and leaves other people's handlers alone."""


class _Text(logging.Formatter):
    def __init__(self, *, colour: bool) -> None:
        super().__init__()
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        level = f"{_SHORT.get(record.levelname, record.levelname.lower()):5}"
        if self._colour:
            level = f"\x1b[{_COLOURS.get(record.levelname, '0')}m{level}\x1b[0m"
        ours = record.name.partition(".")[0] in ("reactor_runtime", "reactor_cli", "root")
        name = "" if ours else f"{record.name}: "
        lines = [record.getMessage(), *_trouble(self, record)]
        # Clients choose parts of what is logged: they get neither a terminal sequence nor a line of their own.
        text = _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", "\n".join(lines)).replace("\n", "\n    ")
        return f"{time.strftime('%H:%M:%S', time.localtime(record.created))} {level} {name}{text}"


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC)
            .isoformat(timespec="milliseconds")
            .replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if trouble := _trouble(self, record):
            line["traceback"] = "\n".join(trouble)
        extra = {key: value for key, value in vars(record).items() if key not in _OWN_FIELDS and key not in line}
        return json.dumps(line | extra, default=str)


def _trouble(formatter: logging.Formatter, record: logging.LogRecord) -> list[str]:
    """List the traceback and the stack that a record carries."""
    trouble = [formatter.formatException(record.exc_info)] if record.exc_info and record.exc_info[0] else []
    return [*trouble, formatter.formatStack(record.stack_info)] if record.stack_info else trouble
