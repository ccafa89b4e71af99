"""`reactor schema`: the events, messages and tracks of a model as an OpenAPI document or a typed client."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reactor_cli import console
from reactor_cli.common_options import (
    Directory,
    PathOption,
    Verbose,
    project_config,
    project_directory,
    read_project,
    typer_parser,
)
from reactor_runtime.errors import UsageError
from reactor_runtime.options.option import one_of

if TYPE_CHECKING:
    from reactor_cli.child import End

FORMATS = ("openapi", "typescript", "python")
_DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}

EPILOG = """
\b
Examples:
  reactor schema                          print the document for this project
  reactor schema my-model --out api.json  write that of another project to a file
  reactor schema --format python --out my_model.py
  reactor schema --format typescript --step
                                          with the tracks that load() makes
  reactor schema --format python --check my_model.py

\b
Exit codes: those of `reactor check`, and 1 when --check finds that FILE is
out of date.
"""


def schema(
    context: typer.Context,
    directory: Directory = None,
    path: PathOption = None,
    format: Annotated[
        str,
        typer.Option("--format", parser=typer_parser(one_of(FORMATS)), metavar="FORMAT", help=f"{', '.join(FORMATS)}."),
    ] = "openapi",
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write to FILE instead of stdout.")] = None,
    check: Annotated[
        Path | None,
        typer.Option("--check", metavar="FILE", help="Check that FILE is up to date; write nothing."),
    ] = None,
    step: Annotated[
        bool, typer.Option("--step", help="Load the model, and make a first step: with the tracks that load() makes.")
    ] = False,
    verbose: Verbose = False,
) -> int:
    """Describe a model as OpenAPI 3.1, or as types for a client.

    Imports the class and does not call load(), unless --step is given. Output of the model goes to stderr.
    """
    context.ensure_object(console.Settings).verbose = verbose
    if check is not None and out is not None:
        raise UsageError("--check writes nothing, and --out writes a file", hint="leave out one of them")
    project = project_directory(directory, path)
    from reactor_cli.child import run_in_child

    text = str(run_in_child(lambda end: {"text": _document(project, format, step=step, end=end)})["text"])
    if check is not None:
        return _compare(check, text, format)
    if out is None:
        console.out(text.removesuffix("\n"))
    else:
        _write(out, text)
    return 0


def _document(directory: Path, format: str, *, step: bool, end: End) -> str:
    from reactor_runtime import manifest

    checked = read_project(directory, None)

    from reactor_runtime import schema

    with manifest.pointing_at(checked):
        contract = schema.contract_of(
            checked.project, checked.module, checked.class_name, checked.page_settings.presets
        )
    if step:
        from reactor_cli.run_progress import making_first_step
        from reactor_runtime.testing.rehearsal import rehearse

        values = project_config(checked, [])
        with making_first_step():
            contract = rehearse(contract, values, checked.project, on_step_limit=end).contract
    return schema.written(format, checked.name_with(contract.declared_name), contract)


def _compare(path: Path, text: str, format: str) -> int:
    """Print the differences between a file and `text`, and return the exit code."""
    try:
        current = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}", hint="--out writes it") from None
    if current == text:
        return 0
    import difflib

    from rich.text import Text

    lines = difflib.unified_diff(current.splitlines(), text.splitlines(), str(path), "the current model", lineterm="")
    styled = (Text(console.printable(line), _DIFF_STYLES.get(line[:1], "")) for line in lines)
    console.out(Text("\n").join(styled))
    console.err(f"{path} is out of date: reactor schema --format {format} --out {path}")
    return 1


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        hint = "" if path.parent.is_dir() else f"make the directory first: mkdir -p {shlex.quote(str(path.parent))}"
        raise UsageError(f"{path} can't be written: {error.strerror}", hint=hint) from None
