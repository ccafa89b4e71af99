"""`reactor check`: check a project without `load()`, or with `--step`, with `load()` and a first step."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reactor_cli import console
from reactor_cli.common_options import (
    Directory,
    Overrides,
    PathOption,
    Verbose,
    project_config,
    project_directory,
    read_project,
    report_project,
)
from reactor_cli.errors import render
from reactor_runtime.errors import ReactorError, from_json, to_json

if TYPE_CHECKING:
    from reactor_cli.child import End
    from reactor_runtime.config import Override

EPILOG = """
\b
Examples:
  reactor check                   the project in this directory
  reactor check --set width=1280  with a value of config.yml overridden
  reactor check my-model --json   for programs
  reactor check --step            call load() too, and make one step

\b
Exit codes: 0 no error found; 1 the first step failed; 2 an error in the
manifest, the config or the class; 4 load() failed, or the process ended
while the class was imported.
"""


def check(
    context: typer.Context,
    directory: Directory = None,
    path: PathOption = None,
    overrides: Overrides = None,
    step: Annotated[bool, typer.Option("--step", help="Load the model, and make the first step of a session.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    verbose: Verbose = False,
) -> None:
    """Check a project without load(), and print its outline.

    Checks manifest, config, class, tracks, events and state, with the messages of `reactor run`. With --step, also
    calls load() and makes one step, with test images and sound for the inputs.
    """
    from reactor_cli.child import run_in_child

    context.ensure_object(console.Settings).verbose = verbose
    project = project_directory(directory, path)
    try:
        outline = run_in_child(lambda end: _outline(project, overrides or [], step=step, end=end))
    except ReactorError as error:
        if as_json:
            _print_json({"ok": False, "error": _error_facts(error)})
        raise
    warnings = [from_json(each) for each in outline.pop("warnings")]
    if as_json:
        _print_json({"ok": True, **outline, "warnings": [_error_facts(each) for each in warnings]})
    else:
        _print_outline(outline)
    for warning in warnings:
        console.err(render(warning, verbose=verbose, label="warning"))
    if outline["not_events"] and not as_json:
        names = ", ".join(outline["not_events"])
        console.err(f"hint: clients can't call {names}: @event(name=…) above a method makes it an event")
    if not step and not as_json and all(track["direction"] == "in" for track in outline["tracks"]):
        console.err("hint: the class declares no output; --step shows the tracks that load() makes")


def _outline(directory: Path, overrides: list[Override], *, step: bool, end: End) -> dict[str, Any]:
    from reactor_runtime import manifest

    checked = read_project(directory, None)
    report_project(checked)
    values = project_config(checked, overrides)

    from reactor_runtime import schema

    with manifest.pointing_at(checked):
        contract = schema.contract_of(
            checked.project, checked.module, checked.class_name, checked.page_settings.presets, values
        )
    made, warnings = None, contract.warnings
    if step:
        from reactor_cli.run_progress import making_first_step
        from reactor_runtime.testing.rehearsal import rehearse

        with making_first_step():
            rehearsed = rehearse(contract, values, checked.project, on_step_limit=end)
        made, contract = rehearsed.step, rehearsed.contract
        warnings += rehearsed.warnings
    return {
        "class": checked.model,
        **schema.outline(checked.name_with(contract.declared_name), contract),
        **({"step": made} if step else {}),
        "warnings": [to_json(each) for each in warnings],
        "not_events": contract.uncallable,
    }


def _error_facts(error: ReactorError) -> dict[str, Any]:
    where = error.where
    place = None if where is None else {"file": where.file, "line": where.line, "column": where.column or None}
    return {"kind": type(error).__name__, "message": error.message, "hint": error.hint or None, "where": place}


def _print_json(value: dict[str, Any]) -> None:
    import json

    console.out(json.dumps(value, indent=2))


def _print_outline(outline: dict[str, Any]) -> None:
    from reactor_cli.outline import outline_tables

    console.out(f"{console.paint(console.printable(outline['name']), 'bold')}  {outline['class']}")
    console.out(outline_tables(outline))
