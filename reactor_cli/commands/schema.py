"""`reactor schema`: a model's events, messages and tracks as an OpenAPI document, from its class alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from reactor_cli import console
from reactor_cli.guest import with_guests
from reactor_cli.options import Directory, PathOption, Verbose, project_directory
from reactor_runtime.errors import UsageError

EPILOG = """
\b
Examples:
  reactor schema                          print the document of this project
  reactor schema my-model --out api.json  write that of another one to a file
"""


def schema(
    context: typer.Context,
    directory: Directory = None,
    path: PathOption = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write to FILE instead of stdout.")] = None,
    verbose: Verbose = False,
) -> None:
    """Describe a model as an OpenAPI 3.1 document.

    Imports the class and does not call load(). What the model prints meanwhile goes to stderr.
    """
    context.ensure_object(console.Settings).verbose = verbose
    project = project_directory(directory, path)
    described = json.dumps(with_guests(lambda: _document(project)), indent=2)
    if out is None:
        console.out(described)
    else:
        _write(out, f"{described}\n")


def _document(directory: Path) -> dict[str, Any]:
    from reactor_runtime import manifest

    checked = manifest.load(directory)

    from reactor_runtime import schema

    with manifest.pointing_at(checked):
        contract = schema.contract_of(checked.project, checked.module, checked.class_name)
    return schema.document(checked.name, contract)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="ascii")
    except OSError as error:
        raise UsageError(f"{path} can't be written: {error.strerror}") from None
