"""Options that several commands share, and how an `Option` becomes a flag."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from reactor_cli import console
from reactor_runtime.config import GivenConfig, Override
from reactor_runtime.errors import UsageError
from reactor_runtime.options.hosting import visible_gpus
from reactor_runtime.options.option import Option
from reactor_runtime.options.run_options import RunOptions, declarations

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


def read_project(directory: Path | None, path: Path | None) -> Manifest:
    """Read the manifest of a project whose class this process imports; set the variables that it asks for."""
    from reactor_runtime import manifest

    checked = manifest.load(project_directory(directory, path))
    os.environ.update(checked.missing_variables(os.environ))
    return checked


def report_project(manifest: Manifest, *, gpus: int | None = None) -> None:
    """Print what a project for 3.x asks for and does not get; `gpus` is how many an engine sees, if that is chosen."""
    if manifest.notice:
        console.err(console.printable(manifest.notice))
    visible = visible_gpus(os.environ) if gpus is None else gpus
    if manifest.gpus > visible:
        console.warn(f"the model asks for {count_of(manifest.gpus, 'GPU')}, and {visible} can be used here")


def count_of(number: int, what: str) -> str:
    """Return a number with its noun."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def project_config(manifest: Manifest, overrides: Sequence[Override] | None) -> GivenConfig:
    """Return the config for load(); warn about a config file that is not used and about keys that look misspelt."""
    from reactor_runtime import manifest as manifests

    return manifests.project_config(manifest, overrides or [], warn=console.warn)
