"""Every error of ours, split by what the caller does next.

ReactorError
├── UsageError         exit code 2: the author or operator corrects something and starts again
│   ├── ManifestError      reactor.yaml
│   ├── ConfigError        config.yml or --set
│   └── ClassError         the model's module or class
├── BindError          exit code 3: choose another port or stop what holds it
├── LoadError          exit code 4: load() failed
├── ModelFailed        exit code 1: the model failed while serving and can't go on
├── InvalidEvent       a client's event carries wrong values; nothing changed
├── WireError          a client's message can't be understood; the connection goes on
├── Violation          a client breaks a rule of its socket, which is closed; server/net/message_reader.py has it
└── ClientError        a server could not do what a client in Python wanted; client/errors.py has its tree
"""

from __future__ import annotations

import linecache
import signal
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, TypeVar

from reactor_runtime.error_codes import ErrorCode
from reactor_runtime.hints import hint_for

_OURS = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Location:
    """Say where in the author's files something is; line and column count from 1, column 0 is unknown."""

    file: str
    line: int
    column: int = 0
    end_column: int = 0
    text: str = ""

    def __str__(self) -> str:
        column = f":{self.column}" if self.column else ""
        return f"{self.file}:{self.line}{column}"


class ReactorError(Exception):
    """Name one cause in one line; `hint` says what to do, `where` points at the author's own line.

    `details` is a full traceback, for those who ask for it; `trail` the author's frames on the way to `where`,
    outermost first.
    """

    exit_code: ClassVar[int] = 1

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        where: Location | None = None,
        details: str = "",
        trail: Sequence[Location] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.where = where
        self.details = details
        self.trail = tuple(trail)

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{place}{self.message}{hint}"


E = TypeVar("E", bound=ReactorError)


class UsageError(ReactorError):
    """Ask the author or operator to correct what they gave."""

    exit_code = 2


class ManifestError(UsageError):
    """reactor.yaml is missing, unreadable or says something impossible."""


class ConfigError(UsageError):
    """The config file or a --set override is wrong."""


class ClassError(UsageError):
    """The model's module can't be imported, or its class isn't a model that can be served."""


class BindError(ReactorError):
    """The address can't be listened on."""

    exit_code = 3


class LoadError(ReactorError):
    """The author's load() raised, or the process died in it."""

    exit_code = 4


class ModelFailed(ReactorError):
    """The model failed while serving and the server gave up on it."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class FieldError:
    """Tell which value is wrong: `path` as `set_brightness.brightness`, `message` as `3.2 is above 2.0`."""

    path: str
    message: str

    def to_json(self) -> dict[str, str]:
        return {"path": self.path, "message": self.message}


class InvalidEvent(ReactorError):
    """A client's event has wrong, missing or unknown values; `fields` lists every one of them, `code` is the wire's."""

    def __init__(self, fields: Sequence[FieldError], *, code: ErrorCode = ErrorCode.INVALID_EVENT) -> None:
        super().__init__("; ".join(f"{field.path}: {field.message}" for field in fields))
        self.fields = tuple(fields)
        self.code = code


class WireError(ReactorError):
    """A client's message can't be understood; `code` is the wire's error code, `id` that of the message, if known."""

    def __init__(self, code: ErrorCode, message: str, *, id: str | int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.id = id


def author_error(kind: type[E], what: str, error: BaseException, project: Path, *, hint: str = "") -> E:
    """Make an error of ours out of what the author's code raised, pointing at the author's line."""
    error = from_author(error)
    trail = author_trail(error.__traceback__, project)
    first_line = _message(error).strip().partition("\n")[0]  # the rest is in the details
    return kind(
        f"{what}: {type(error).__name__}{': ' + first_line if first_line else ''}",
        hint=hint or hint_for(error),
        where=trail[-1] if trail else None,
        details="".join(traceback.format_exception(error)),
        trail=trail,
    )


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  (the author's own __str__; the message says what became of it)
        return "its message can't be shown, as its __str__ failed"


def from_author(error: BaseException) -> BaseException:
    """Cut the frames of ours off the head of a traceback, so that a log begins with the author's code.

    Where there is none of the author's, the message says what is wrong and the whole traceback is logged as debug.
    A hint that is known for the exception becomes a note of it, which tracebacks show.
    """
    note = f"hint: {hint_for(error)}"
    if note != "hint: " and note not in getattr(error, "__notes__", ()):
        error.add_note(note)
    head = error.__traceback__
    while head is not None and is_ours(head.tb_frame.f_code.co_filename):
        head = head.tb_next
    if head is None:
        import logging  # which takes longer than all else a command needs to print its help

        logging.getLogger(__name__).debug("the traceback of %s", type(error).__name__, exc_info=error)
    return error.with_traceback(head)


def is_ours(filename: str) -> bool:
    """Tell whether a frame's code is ours and not the author's."""
    return Path(filename).is_relative_to(_OURS)


def author_trail(tb: TracebackType | None, project: Path) -> tuple[Location, ...]:
    """List the frames of `tb` that lie in the author's project, outermost first."""
    root = project.resolve()
    return tuple(frame_location(frame) for frame in traceback.extract_tb(tb) if _inside(frame.filename, root))


def frame_location(frame: traceback.FrameSummary) -> Location:
    """Turn one traceback entry into a Location with its source line."""
    line = frame.lineno or 1
    text = linecache.getline(frame.filename, line).rstrip("\n")
    column = 0 if frame.colno is None else _characters(text, frame.colno) + 1
    same_line = frame.end_lineno is None or frame.end_lineno == line
    end_column = _characters(text, frame.end_colno) + 1 if column and same_line and frame.end_colno is not None else 0
    return Location(frame.filename, line, column, end_column, text)


def _characters(text: str, utf8_bytes: int) -> int:
    return len(text.encode()[:utf8_bytes].decode(errors="replace"))


def _inside(file: str, root: Path) -> bool:
    path = Path(file).resolve()
    generated = file.startswith("<")  # as <string> and the frozen modules are called, and no path
    return not generated and root in path.parents and "site-packages" not in path.parts


def to_json(error: ReactorError) -> dict[str, Any]:
    """Write an error as JSON values, for the seam between engine and server."""

    def place(location: Location) -> list[Any]:
        return [location.file, location.line, location.column, location.end_column, location.text]

    return {
        "kind": type(error).__name__,
        "message": error.message,
        "hint": error.hint,
        "where": place(error.where) if error.where else None,
        "details": error.details,
        "trail": [place(location) for location in error.trail],
    }


def from_json(values: dict[str, Any]) -> ReactorError:
    """Read what `to_json` wrote; an unknown kind becomes a plain ReactorError."""
    kinds: dict[str, type[ReactorError]] = {
        kind.__name__: kind
        for kind in (UsageError, ManifestError, ConfigError, ClassError, BindError, LoadError, ModelFailed)
    }
    return kinds.get(values["kind"], ReactorError)(
        values["message"],
        hint=values["hint"],
        where=Location(*values["where"]) if values["where"] else None,
        details=values["details"],
        trail=[Location(*place) for place in values["trail"]],
    )


def describe_exit(status: int) -> str:
    """Say in words how a process ended, from the status `subprocess` gives."""
    if status >= 0:
        return f"exited with code {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    reasons = {
        "SIGKILL": "was killed (SIGKILL); if nobody did it, the machine ran out of memory",
        "SIGSEGV": "crashed in native code (SIGSEGV, segmentation fault)",
        "SIGABRT": "was aborted in native code (SIGABRT)",
        "SIGBUS": "crashed in native code (SIGBUS)",
        "SIGFPE": "crashed in native code (SIGFPE)",
        "SIGILL": "crashed on an instruction this processor lacks (SIGILL)",
        "SIGTERM": "was terminated (SIGTERM)",
    }
    return reasons.get(name, f"was ended by {name}")
