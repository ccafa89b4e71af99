"""Options that several commands share, and parsers for the values of options."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from reactor_cli import console
from reactor_runtime.config import Override
from reactor_runtime.errors import UsageError

if TYPE_CHECKING:
    from reactor_runtime.manifest import Manifest


def _directory(text: str | Path) -> Path:
    # An unset shell variable gives an empty argument.
    if not str(text):
        raise typer.BadParameter('"" is not a directory; `.` is the current one')
    return Path(text)


LOCAL_URL = "http://127.0.0.1:8080"
UNAUTHORIZED = 401
TOKEN_HINT = "give its token with --token, or as ?token= in the address"

Directory: TypeAlias = Annotated[
    Path | None,
    typer.Argument(parser=_directory, metavar="DIR", help="The project: the directory that holds reactor.yaml."),
]
PathOption: TypeAlias = Annotated[
    Path | None, typer.Option("--path", parser=_directory, metavar="DIR", help="The project, as an option.")
]
Overrides: TypeAlias = Annotated[
    list[Override] | None,
    typer.Option("--set", parser=Override.parse, metavar="KEY=VALUE", help="Override a config value; may be repeated."),
]
ServerUrl: TypeAlias = Annotated[str, typer.Argument(metavar="URL", help="The address of the page or of the socket.")]
Token: TypeAlias = Annotated[
    str | None, typer.Option("--token", metavar="TOKEN", help="The token of the server; REACTOR_TOKEN by default.")
]
Verbose: TypeAlias = Annotated[bool, typer.Option("--verbose", help="Show whole tracebacks, Reactor's code included.")]


def server_token(url: str, token: str | None) -> str | None:
    """Return the token for a server: that of the option, or else of the environment; None for that of the URL."""
    return token or (None if "token=" in url else os.environ.get("REACTOR_TOKEN"))


def project_directory(directory: Path | None, path: Path | None) -> Path:
    """Return the project, by default the current directory. Raises UsageError if it is given twice."""
    if directory is not None and path is not None:
        raise UsageError(f"the project is given twice: {directory} and --path {path}", hint="leave out one of them")
    return directory or path or Path(".")


def project_config(manifest: Manifest, overrides: Sequence[Override] | None) -> dict[str, Any]:
    """Return the config for load(); warn about a config file that is not used and about keys that look misspelt."""
    from reactor_runtime import config
    from reactor_runtime.manifest import unread_config

    values = config.load(manifest.config_path, overrides or [], warn=console.warn)
    if unread := unread_config(manifest):
        console.warn(unread)
    return values


def whole_number(least: int, most: int | None = None) -> Callable[[str | int], int]:
    """Return the parser of an option whose value is a whole number."""
    range_ = f"from {least} on" if most is None else f"from {least} to {most}"

    def parse(given: str | int) -> int:
        try:
            number = int(given)
        except ValueError:
            number = least - 1
        if number < least or (most is not None and number > most):
            raise typer.BadParameter(f'"{given}" is not a whole number {range_}')
        return number

    return parse


UNITS_S = {"": 1, "s": 1, "m": 60, "h": 3600}
LONGEST_S = 30 * 24 * 3600


def duration(given: str | float) -> float:
    """Return the seconds of a time such as 90, 90s, 5m or 1h; 0 means no limit."""
    number = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([smh]?)", str(given).strip().lower())
    seconds = float(number[1]) * UNITS_S[number[2]] if number else -1.0
    if not 0 <= seconds <= LONGEST_S:
        raise typer.BadParameter(f'"{given}" is not a time up to 30 days, such as 90, 90s, 5m or 1h')
    return seconds


def one_of(names: Sequence[str]) -> Callable[[str], str]:
    """Return the parser of an option whose value is one of some names, in upper or lower case."""

    def parse(given: str) -> str:
        if given.lower() not in names:
            raise typer.BadParameter(f'"{given}" is not one of {", ".join(names)}')
        return given.lower()

    return parse
