"""An error as people read it: the cause, the author's own line with a caret, what to do."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from reactor_cli.console import Style, printable
from reactor_runtime.errors import Location, ReactorError

Paint = Callable[[str, Style], str]

_MOST_STEPS = 12


def render(error: ReactorError, *, verbose: bool, paint: Paint, label: Literal["error", "warning"] = "error") -> str:
    """Write `error` as lines; `verbose` adds the full traceback it carries, ours included."""
    lines = [f"{paint(f'{label}:', 'red' if label == 'error' else 'yellow')} {paint(printable(error.message), 'bold')}"]
    if error.where:
        lines += _excerpt(error.where, paint)
    if len(error.trail) > 1:
        lines += ["  the way there:", *_steps(error.trail)]
    if error.hint:
        lines.append(f"{paint('hint:', 'cyan')} {printable(error.hint)}")
    if error.details and verbose:
        lines += ["", error.details.rstrip()]
    elif error.details:
        lines.append(paint("      --verbose shows the whole traceback", "dim"))
    return "\n".join(lines)


def bug(error: Exception) -> ReactorError:
    """Say that an exception which should not have come this far is our fault."""
    cause = "".join(traceback.format_exception_only(error)).strip()
    return ReactorError(
        f"this is a bug in reactor: {cause}",
        hint="please report it together with the traceback and what led to it",
        details="".join(traceback.format_exception(error)),
    )


def _excerpt(where: Location, paint: Paint) -> list[str]:
    lines = [f"  {paint('-->', 'cyan')} {_place(where)}"]
    if not where.text.strip():
        return lines
    number = str(where.line)
    margin = " " * len(number)
    lines += [paint(f"{margin} |", "cyan"), f"{paint(f'{number} |', 'cyan')} {printable(where.text.rstrip())}"]
    if where.column:
        lines.append(f"{paint(f'{margin} |', 'cyan')} {_underline(where, paint)}")
    return lines


def _underline(where: Location, paint: Paint) -> str:
    """Put carets under the columns meant; tabs stay tabs, wide characters take two cells."""
    before, marked = where.text[: where.column - 1], where.text[where.column - 1 : where.end_column - 1]
    space = "".join("\t" if character == "\t" else " " * _cells(character) for character in before)
    return space + paint("^" * max(1, sum(map(_cells, marked))), "red")


def _cells(character: str) -> int:
    import unicodedata

    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _steps(trail: Sequence[Location]) -> list[str]:
    """Write the beginning and the end of the way, which is long for an endless recursion."""
    if len(trail) <= _MOST_STEPS:
        return [_step(place) for place in trail]
    half = _MOST_STEPS // 2
    between = f"    … {len(trail) - 2 * half} more …"
    return [*map(_step, trail[:half]), between, *map(_step, trail[-half:])]


def _step(place: Location) -> str:
    return f"    {_place(place)}  {place.text.strip()}"


def _place(where: Location) -> str:
    """Name the file as seen from the current directory, where that is shorter."""
    path = Path(where.file)
    if not path.is_absolute():
        return str(where)
    shown = min(where.file, os.path.relpath(path), key=len)
    return str(where).replace(where.file, shown, 1)
