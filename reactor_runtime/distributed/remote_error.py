"""An exception of a worker on its way to the runner: the exception itself, its traceback, and the author's line."""

from __future__ import annotations

import pickle
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from reactor_runtime.authoring.code.source import attach_location
from reactor_runtime.errors import Location, author_trail, from_author


class RemoteTraceback(Exception):
    """Show the traceback of another process; it is the cause of the exception that was raised there."""

    def __init__(self, rank: int, text: str) -> None:
        super().__init__(rank, text)
        self.rank = rank
        self.text = text

    def __str__(self) -> str:
        return f"in rank {self.rank}:\n{self.text}"


@dataclass(frozen=True, slots=True)
class RemoteError:
    """Hold an exception of rank `rank`; `kind` is its class, `pickled` is empty if it can't be pickled."""

    rank: int
    kind: str
    text: str
    traceback: str
    where: Location | None
    pickled: bytes

    @classmethod
    def of(cls, error: BaseException, rank: int, project: Path) -> Self:
        """Describe an exception that was raised in this process, by code of a project in the folder `project`."""
        error = from_author(error)
        trail = author_trail(traceback.extract_tb(error.__traceback__), project)
        try:
            text = str(error)
        # The author's __str__ may raise anything.
        except Exception:  # noqa: BLE001
            text = ""
        return cls(
            rank,
            f"{type(error).__module__}.{type(error).__qualname__}",
            text,
            "".join(traceback.format_exception(error)),
            trail[-1] if trail else None,
            _pickled(error),
        )

    @property
    def title(self) -> str:
        """Return the class and the first line of the message."""
        name = self.kind.removeprefix("builtins.")
        first_line = self.text.strip().partition("\n")[0]
        return f"{name}: {first_line}" if first_line else name

    def to_exception(self) -> Exception:
        """Return the exception, or a RuntimeError with its message if this process can't make or raise it."""
        error: object = None
        if self.pickled:
            try:
                error = pickle.loads(self.pickled)
            # The author's classes may raise anything.
            except Exception:  # noqa: BLE001
                error = None
        # Others, such as CancelledError, have a meaning for this process.
        if not isinstance(error, Exception):
            error = RuntimeError(self.title)
        error.__cause__ = RemoteTraceback(self.rank, self.traceback)
        if self.where is not None:
            attach_location(error, self.where)
        return error


def _pickled(error: BaseException) -> bytes:
    for value in (_Rebuilt(error), error):
        try:
            data = pickle.dumps(value, protocol=5)
            pickle.loads(data)
        # The author's classes may raise anything.
        except Exception:  # noqa: BLE001
            continue
        return data
    return b""


class _Rebuilt:
    """Pickle an exception so that the author's constructor is not called, without attributes that can't be pickled.

    The constructor may have other parameters than the arguments of the exception, or make another message of them.
    """

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __reduce__(self) -> Any:
        error = self._error
        reduced = error.__reduce__()
        if isinstance(reduced, str) or reduced[0] is not type(error):
            raise pickle.PicklingError("it has a __reduce__ of its own")
        arguments = tuple(each if _is_picklable(each) else repr(each) for each in reduced[1])
        state: dict[str, Any] = reduced[2] if len(reduced) > 2 else {}
        attributes = {name: value for name, value in state.items() if _is_picklable(value)}
        return _rebuild, (type(error), arguments, attributes)


def _is_picklable(value: object) -> bool:
    try:
        pickle.dumps(value)
    # The author's classes may raise anything.
    except Exception:  # noqa: BLE001
        return False
    return True


def _rebuild(kind: type[BaseException], arguments: tuple[Any, ...], attributes: dict[str, Any]) -> BaseException:
    error = kind.__new__(kind, *arguments)
    # Sets the fields of built-in exceptions, such as those of UnicodeDecodeError.
    built_in: Any = next(each for each in kind.__mro__ if each.__module__ == "builtins")
    built_in.__init__(error, *arguments)
    error.__setstate__(attributes)
    return error
