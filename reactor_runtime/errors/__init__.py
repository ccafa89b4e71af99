"""All errors of Reactor, split by what the caller does next.

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
├── BadRequest         a client does not follow HTTP; its connection is closed; in server/net/http_reader.py
├── Violation          a client breaks a rule of its socket, which is closed; in server/net/message_reader.py
└── ClientError        a request of a Python client failed; the tree is in client/errors.py
"""

from __future__ import annotations

import linecache
import signal
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from reactor_runtime.errors.codes import ErrorCode
from reactor_runtime.errors.hints import hint_for

MOST_MESSAGE = 2000
MOST_DETAILS = 50_000
MOST_TRAIL = 100
_OURS = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Location:
    """Hold a place in the author's files; line and column count from 1, column 0 is unknown."""

    file: str
    line: int
    column: int = 0
    end_column: int = 0
    text: str = ""

    def __str__(self) -> str:
        column = f":{self.column}" if self.column else ""
        return f"{self.file}:{self.line}{column}"


class ReactorError(Exception):
    """Describe one cause in one line; `hint` is the fix, `where` the author's line.

    `details` is the full traceback; `trail` holds the author's stack frames that lead to `where`, outermost first.
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
    """Report wrong input of the author or operator."""

    exit_code = 2


class ManifestError(UsageError):
    """Report a missing, unreadable or invalid reactor.yaml."""


class ConfigError(UsageError):
    """Report a wrong config file or --set override."""


class ClassError(UsageError):
    """Report a module that can't be imported, or a class that can't be served."""


class BindError(ReactorError):
    """Report an address that can't be listened on."""

    exit_code = 3


class LoadError(ReactorError):
    """Report that the author's load() raised, or that the process ended in it."""

    exit_code = 4


class ModelFailed(ReactorError):
    """Report a model that failed while serving and is not restarted."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class FieldError:
    """Describe one wrong value: `path` as `set_brightness.brightness`, `message` as `3.2 is above 2.0`."""

    path: str
    message: str

    def to_json(self) -> dict[str, str]:
        return {"path": self.path, "message": self.message}


class InvalidEvent(ReactorError):
    """Report a client's event with wrong, missing or unknown values, all listed in `fields`."""

    def __init__(self, fields: Sequence[FieldError], *, code: ErrorCode = ErrorCode.INVALID_EVENT) -> None:
        super().__init__("; ".join(f"{field.path}: {field.message}" for field in fields))
        self.fields = tuple(fields)
        self.code = code


class WireError(ReactorError):
    """Report a client's message that can't be understood; `id` is that of the message, if known."""

    def __init__(self, code: ErrorCode, message: str, *, id: str | int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.id = id


def author_error(kind: type[E], what: str, error: BaseException, project: Path, *, hint: str = "") -> E:
    """Convert an exception of the author's code to `kind`, with the author's line."""
    error = from_author(error)
    trail = author_trail(traceback.extract_tb(error.__traceback__), project)
    # The rest is in the details.
    first_line = _message(error).strip().partition("\n")[0]
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
    # The author's __str__ may raise anything.
    except Exception:  # noqa: BLE001
        return "its message can't be shown, because its __str__ failed"


def from_author(error: BaseException) -> BaseException:
    """Remove our frames from the head of a traceback, so that a log begins with the author's code.

    If there are no frames of the author, the whole traceback is logged as debug. A known hint is added to the
    exception as a note, which tracebacks show.
    """
    note = f"hint: {hint_for(error)}"
    if note != "hint: " and note not in getattr(error, "__notes__", ()):
        error.add_note(note)
    head = error.__traceback__
    while head is not None and is_ours(head.tb_frame.f_code.co_filename):
        head = head.tb_next
    if head is None:
        # Imported late: the import takes longer than the rest of `reactor --help`.
        import logging

        logging.getLogger(__name__).debug("the traceback of %s", type(error).__name__, exc_info=error)
    return error.with_traceback(head)


def is_ours(filename: str) -> bool:
    """Return whether a file is part of Reactor."""
    return Path(filename).is_relative_to(_OURS)


def author_trail(stack: Iterable[traceback.FrameSummary], project: Path) -> tuple[Location, ...]:
    """Return the frames of a stack that are in the author's project, in order."""
    root = project.resolve()
    return tuple(frame_location(frame) for frame in stack if is_in_project(frame.filename, root))


def frame_location(frame: traceback.FrameSummary) -> Location:
    """Convert a traceback entry to a Location with its source line."""
    line = frame.lineno or 1
    text = linecache.getline(frame.filename, line).rstrip("\n")
    column = 0 if frame.colno is None else _characters(text, frame.colno) + 1
    same_line = frame.end_lineno is None or frame.end_lineno == line
    end_column = _characters(text, frame.end_colno) + 1 if column and same_line and frame.end_colno is not None else 0
    return Location(frame.filename, line, column, end_column, text)


def _characters(text: str, utf8_bytes: int) -> int:
    return len(text.encode()[:utf8_bytes].decode(errors="replace"))


def is_in_project(file: str, root: Path) -> bool:
    """Return whether a file is in the resolved folder of a project, and not installed there."""
    path = Path(file).resolve()
    # <string> and frozen modules have such names, which are not paths.
    generated = file.startswith("<")
    return not generated and root in path.parents and "site-packages" not in path.parts


def to_json(error: ReactorError) -> dict[str, Any]:
    """Convert an error to JSON values, for ipc; texts and the trail are cut to the lengths that people read."""

    def place(location: Location) -> list[Any]:
        text = shortened(location.text, MOST_MESSAGE)
        return [location.file, location.line, location.column, location.end_column, text]

    return {
        "kind": type(error).__name__,
        "message": shortened(error.message, MOST_MESSAGE),
        "hint": shortened(error.hint, MOST_MESSAGE),
        "where": place(error.where) if error.where else None,
        "details": shortened(error.details, MOST_DETAILS),
        "trail": [place(location) for location in error.trail[-MOST_TRAIL:]],
    }


def shortened(text: str, most: int) -> str:
    """Return the text, or its beginning and its end if it has more than `most` characters."""
    if len(text) <= most:
        return text
    return f"{text[: most // 2]} … {len(text) - most} characters left out … {text[-(most // 2) :]}"


def from_json(values: dict[str, Any]) -> ReactorError:
    """Convert the values of `to_json` back; an unknown kind becomes a ReactorError."""
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


def describe_exit(status: int, *, oom_killed: bool | None = None) -> str:
    """Describe how a process ended, from its `subprocess` status.

    `oom_killed` is whether the kernel has killed a process for lack of memory meanwhile; None if that is unknown.
    """
    if status >= 0:
        return f"exited with code {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    killed_by = {True: " by the kernel: memory ran out", False: ", and not by the kernel for lack of memory", None: ""}
    reasons = {
        "SIGKILL": f"was killed (SIGKILL{killed_by[oom_killed]})",
        "SIGSEGV": "crashed in native code (SIGSEGV, segmentation fault)",
        "SIGABRT": "was aborted in native code (SIGABRT)",
        "SIGBUS": "crashed in native code (SIGBUS)",
        "SIGFPE": "crashed in native code (SIGFPE)",
        "SIGILL": "crashed on an instruction this processor lacks (SIGILL)",
        "SIGTERM": "was terminated (SIGTERM)",
    }
    return reasons.get(name, f"was ended by {name}")
