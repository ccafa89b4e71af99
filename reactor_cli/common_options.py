"""Options that several commands share, and how an `Option` becomes a flag."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from reactor_cli import console
from reactor_runtime.config import Override
from reactor_runtime.errors import UsageError
from reactor_runtime.option import Option
from reactor_runtime.run_options import RunOptions, declarations

if TYPE_CHECKING:
    from reactor_runtime.manifest import Manifest


def typer_parser(parse: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a parser whose ValueError is an error of the command line, with its message."""

    @functools.wraps(parse)
    def parsed(given: Any) -> Any:
        try:
            return parse(given)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return parsed


def flag(field: str, option: Option) -> Any:
    """Return what Typer needs for an option that is declared by a field."""
    return typer.Option(
        option.flag or f"--{field.replace('_', '-')}",
        help=option.help,
        metavar=option.metavar or None,
        parser=None if option.parse is None else typer_parser(option.parse),
        show_default=option.default_text or True,
        envvar=option.variable or None,
    )


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
_FLAGS = {field: flag(field, option) for field, _, option in declarations(RunOptions)}
Overrides: TypeAlias = Annotated[list[Override] | None, _FLAGS["overrides"]]
Verbose: TypeAlias = Annotated[bool, _FLAGS["verbose"]]
Host: TypeAlias = Annotated[str | None, _FLAGS["host"]]
Port: TypeAlias = Annotated[int | None, _FLAGS["port"]]
OpenPage: TypeAlias = Annotated[bool, _FLAGS["open_page"]]
NewToken: TypeAlias = Annotated[str | None, _FLAGS["token"]]
ServerUrl: TypeAlias = Annotated[str, typer.Argument(metavar="URL", help="The address of the page or of the socket.")]
Token: TypeAlias = Annotated[
    str | None, typer.Option("--token", metavar="TOKEN", help="The token of the server; REACTOR_TOKEN by default.")
]


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
    from reactor_runtime import manifest as manifests

    return manifests.project_config(manifest, overrides or [], warn=console.warn)
