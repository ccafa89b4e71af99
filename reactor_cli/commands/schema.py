"""`reactor schema`: a model's events, messages and tracks as an OpenAPI document or typed client, from its class."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reactor_cli import console
from reactor_cli.options import Directory, PathOption, Verbose, one_of, project_directory
from reactor_runtime.errors import UsageError

FORMATS = ("openapi", "typescript", "python")

EPILOG = """
\b
Examples:
  reactor schema                          print the document of this project
  reactor schema my-model --out api.json  write that of another one to a file
  reactor schema --format python --out my_model.py
  reactor schema --format python --check my_model.py

\b
Exit codes: those of `reactor check`, and 1 when --check finds that FILE has to be made anew.
"""


def schema(
    context: typer.Context,
    directory: Directory = None,
    path: PathOption = None,
    format: Annotated[
        str,
        typer.Option("--format", parser=one_of(FORMATS), metavar="FORMAT", help=f"{', '.join(FORMATS)}."),
    ] = "openapi",
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write to FILE instead of stdout.")] = None,
    check: Annotated[
        Path | None, typer.Option("--check", metavar="FILE", help="Write nothing: is FILE what would be written?")
    ] = None,
    verbose: Verbose = False,
) -> int:
    """Describe a model as an OpenAPI 3.1 document, or as types for a client.

    Imports the class and does not call load(). What the model prints meanwhile goes to stderr.
    """
    context.ensure_object(console.Settings).verbose = verbose
    if check is not None and out is not None:
        raise UsageError("--check writes nothing, and --out writes", hint="leave one of them out")
    project = project_directory(directory, path)
    from reactor_cli.guest import with_guests

    text = str(with_guests(lambda: {"text": _written(project, format)})["text"])
    if check is not None:
        return _compare(check, text, format)
    if out is None:
        console.out(text.removesuffix("\n"))
    else:
        _write(out, text)
    return 0


def _written(directory: Path, format: str) -> str:
    from reactor_runtime import manifest

    checked = manifest.load(directory)

    from reactor_runtime import schema

    with manifest.pointing_at(checked):
        contract = schema.contract_of(checked.project, checked.module, checked.class_name)
    return schema.written(format, checked.name_with(contract.declared_name), contract)


def _compare(path: Path, text: str, format: str) -> int:
    """Print what has to change in a file for it to be `text`; returns the exit code."""
    try:
        there = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}", hint="--out makes it") from None
    if there == text:
        return 0
    import difflib

    lines = difflib.unified_diff(there.splitlines(), text.splitlines(), str(path), "the model as it is", lineterm="")
    console.out("\n".join(lines))
    console.err(f"{path} has to be made anew: reactor schema --format {format} --out {path}")
    return 1


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} can't be written: {error.strerror}") from None
