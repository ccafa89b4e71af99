"""The text of an error in the terminal: the message, the author's line with a caret, and a hint.

Also turns errors of Typer and unexpected exceptions into errors of Reactor. `app.py` prints the text.
"""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from reactor_cli.console import printable
from reactor_runtime.errors import ClassError, Location, ReactorError, UsageError

if TYPE_CHECKING:
    from rich.text import Text

_MAX_CALLS = 12
# Messages of Typer and their replacements; `near` lists similar names.
_TYPER_MESSAGES = (
    (
        r"Invalid value for '?(?P<what>[^':]+)'?(?: \(env var: '(?P<variable>\w+)'\))?: (?:Value error, )?(?P<why>.+)",
        "{what}: {why}",
    ),
    (r"No such option: (?P<what>\S+)(?: \(Possible options: (?P<near>.+)\))?", "there is no option {what}"),
    (r"No such command '(?P<what>.*?)'(?:\. Did you mean (?P<near>.+)\?)?", 'there is no command "{what}"'),
    (r"Got unexpected extra argument(?:s|\(s\))? \((?P<what>.+)\)", "unexpected argument: {what}"),
    (r"Option '?(?P<what>[^' ]+)'? requires an argument", "{what} needs a value"),
    (r"Option '?(?P<what>[^' ]+)'? does not take a value", "{what} takes no value"),
    (r"Missing (?:argument|option) '?(?P<what>[^']+)'?", "{what} is missing"),
)


def render(error: ReactorError, *, verbose: bool, label: Literal["error", "warning"] = "error") -> Text:
    """Return `error` as lines; `verbose` adds its whole traceback."""
    from rich.text import Text

    label_style = "bold red" if label == "error" else "yellow"
    lines = [Text.assemble((f"{label}:", label_style), " ", (printable(error.message), "bold"))]
    if error.where:
        lines += _excerpt(error.where)
    if len(error.trail) > 1:
        lines += map(Text, ["  call stack:", *_format_calls(error.trail)])
    if error.hint:
        lines.append(Text.assemble(("hint:", "cyan"), f" {printable(error.hint)}"))
    if error.details and verbose:
        lines.append(Text(f"\n{printable(error.details.rstrip())}"))
    # The place of a wrong declaration is enough: the traceback has only calls of Reactor.
    elif error.details and (error.trail or not isinstance(error, ClassError)):
        lines.append(Text("      --verbose shows the whole traceback", "dim"))
    return Text("\n").join(lines)


def bug(error: Exception) -> ReactorError:
    """Return the error for an unexpected exception, which is a bug in Reactor."""
    cause = "".join(traceback.format_exception_only(error)).strip()
    return ReactorError(
        f"this is a bug in reactor: {cause}",
        hint="please report it together with the traceback and what led to it",
        details="".join(traceback.format_exception(error)),
    )


def explain_usage(error: typer.TyperException, arguments: Sequence[str], commands: Sequence[str]) -> UsageError:
    """Return the UsageError for an error of Typer, with the `--help` that applies in its hint."""
    message = " ".join(error.format_message().split()).rstrip(".")
    named = next((argument for argument in arguments if not argument.startswith("-")), "")
    command = f"reactor {named}" if named in commands else "reactor"
    help_hint = f"`{command} --help` lists the options"
    for pattern, phrase in _TYPER_MESSAGES:
        found = re.fullmatch(pattern, message)
        if found:
            parts = found.groupdict("")
            variable, given = parts.pop("variable", ""), [argument.partition("=")[0] for argument in arguments]
            # Typer names the variable of an option also where the option is given.
            parts["what"] = variable if variable and parts["what"] not in given else parts["what"]
            near = _most_similar(parts["what"], parts.pop("near", "").replace("'", "").split(", "))
            return UsageError(phrase.format(**parts), hint=f"did you mean {near}? {help_hint}" if near else help_hint)
    return UsageError(message[:1].lower() + message[1:], hint=help_hint)


def _most_similar(name: str, known: Sequence[str]) -> str:
    import difflib

    return max(known, key=lambda each: difflib.SequenceMatcher(None, name, each).ratio())


def _excerpt(where: Location) -> list[Text]:
    from rich.text import Text

    lines = [Text.assemble(("  --> ", "cyan"), _format_location(where))]
    if not where.text.strip():
        return lines
    number = str(where.line)
    margin = " " * len(number)
    lines += [
        Text(f"{margin} |", "cyan"),
        Text.assemble((f"{number} |", "cyan"), f" {printable(where.text.rstrip())}"),
    ]
    if where.column:
        lines.append(Text.assemble((f"{margin} |", "cyan"), " ", *_underline(where)))
    return lines


def _underline(where: Location) -> tuple[str, tuple[str, str]]:
    """Return carets below the marked columns; tabs stay tabs, wide characters take two cells."""
    from rich.cells import cell_len

    before, marked = where.text[: where.column - 1], where.text[where.column - 1 : where.end_column - 1]
    space = "\t".join(" " * cell_len(printable(part)) for part in before.split("\t"))
    return space, ("^" * max(1, cell_len(printable(marked))), "bold red")


def _format_calls(trail: Sequence[Location]) -> list[str]:
    """Return the first and the last calls: the call stack of an endless recursion is long."""
    if len(trail) <= _MAX_CALLS:
        return [_format_call(place) for place in trail]
    half = _MAX_CALLS // 2
    between = f"    … {len(trail) - 2 * half} more …"
    return [*map(_format_call, trail[:half]), between, *map(_format_call, trail[-half:])]


def _format_call(place: Location) -> str:
    return f"    {_format_location(place)}  {printable(place.text.strip())}"


def _format_location(where: Location) -> str:
    """Return the location, with a path relative to the current directory if that is shorter."""
    path = Path(where.file)
    shown = min(where.file, os.path.relpath(path), key=len) if path.is_absolute() else where.file
    return printable(str(where).replace(where.file, shown, 1))
