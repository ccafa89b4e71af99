"""The options that several commands share: which project, which config values, how much of an error."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from reactor_runtime.errors import UsageError

Directory: TypeAlias = Annotated[
    Path | None, typer.Argument(metavar="DIR", help="The project: the directory that holds reactor.yaml.")
]
PathOption: TypeAlias = Annotated[Path | None, typer.Option("--path", metavar="DIR", help="The same, as an option.")]
Overrides: TypeAlias = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a config value; may be repeated.")
]
Verbose: TypeAlias = Annotated[bool, typer.Option("--verbose", help="Show whole tracebacks, ours included.")]


def project_directory(directory: Path | None, path: Path | None) -> Path:
    """Return the project named by argument or option, the current directory without; UsageError when by both."""
    if directory and path:
        raise UsageError(f"the project is named twice: {directory} and --path {path}", hint="leave out one of them")
    return directory or path or Path(".")
