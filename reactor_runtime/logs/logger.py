"""`get_logger`: the logger of the 3.x API, whose calls take the fields of a line as keywords."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_PLAIN = re.compile(r"[^\s\"'=]+")


def get_logger(name: str) -> Logger:
    """Return a logger that writes lines with fields: `logger.info("step", n=3)` is `step n=3`.

    It writes to the standard logger of that name, and so with the level and the format of `reactor run`.
    """
    return Logger(logging.getLogger(name))


class Logger:
    """Write lines with fields of any name; a field that is None is left out. Any thread.

    Further positional arguments are inserted in the message, as `logging` does: `logger.info("step %d", 3)`.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def debug(self, message: object, /, *arguments: object, **fields: object) -> None:
        self._log(logging.DEBUG, message, arguments, fields)

    def info(self, message: object, /, *arguments: object, **fields: object) -> None:
        self._log(logging.INFO, message, arguments, fields)

    def warning(self, message: object, /, *arguments: object, **fields: object) -> None:
        self._log(logging.WARNING, message, arguments, fields)

    def error(self, message: object, /, *arguments: object, **fields: object) -> None:
        self._log(logging.ERROR, message, arguments, fields)

    def exception(self, message: object, /, *arguments: object, **fields: object) -> None:
        """Write an error with the traceback of the exception that is being handled."""
        self._log(logging.ERROR, message, arguments, {"exc_info": True, **fields})

    def _log(self, level: int, message: object, arguments: tuple[object, ...], fields: dict[str, Any]) -> None:
        if not self._logger.isEnabledFor(level):
            return
        exc_info = fields.pop("exc_info", None)
        given = {name: value for name, value in fields.items() if value is not None}
        # The line of the author's call, two frames up.
        written = MessageWithFields(_formatted(message, arguments), given)
        self._logger.log(level, written, exc_info=exc_info, stacklevel=3)


@dataclass(frozen=True, slots=True)
class MessageWithFields:
    """Hold the message of a log record; as text it has its fields after it."""

    message: str
    fields: Mapping[str, object]

    def __str__(self) -> str:
        return "".join([self.message, *(f" {name}={_text(value)}" for name, value in self.fields.items())])


def _formatted(message: object, arguments: tuple[object, ...]) -> str:
    try:
        return str(message) % arguments if arguments else str(message)
    # A line whose arguments do not fit is still written.
    except Exception:  # noqa: BLE001
        return " ".join([_text(message), *map(_text, arguments)])


def _text(value: object) -> str:
    """Return the text of a field's value, in quotes unless it is one word."""
    try:
        text = str(value)
    # The __str__ of an author's object may raise anything.
    except Exception:  # noqa: BLE001
        text = f"<{type(value).__name__}>"
    return text if _PLAIN.fullmatch(text) else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
