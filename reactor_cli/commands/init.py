"""`reactor init`: write a new project from a template."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from reactor_cli import console
from reactor_runtime.errors import UsageError

EPILOG = """
\b
Examples:
  reactor init my-model           a new directory my-model
  reactor init my-world -t world  from another template
  reactor init --here             into this directory, named after it
  reactor init --list             list the templates
"""


def init(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The name of the project and of its new directory.")
    ] = None,
    template: Annotated[
        str | None,
        typer.Option("--template", "-t", metavar="TEMPLATE", help="The template; pipeline by default."),
    ] = None,
    here: Annotated[bool, typer.Option("--here", help="Write into the current directory, not a new one.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
    list_templates: Annotated[bool, typer.Option("--list", help="List the templates and exit.")] = False,
) -> None:
    """Make a new project that runs without changes.

    The default NAME is my-model. Existing files are only replaced with --force.
    """
    from reactor_cli import scaffold

    if list_templates:
        console.out(scaffold.table(scaffold.templates()))
        return
    chosen = scaffold.find(scaffold.DEFAULT if template is None else template)
    name = name if name is not None else Path.cwd().name if here else "my-model"
    scaffold.check_name(name)
    target = Path() if here else Path(name)
    try:
        scaffold.write(chosen, target, name, merge=here, force=force)
    except OSError as error:
        raise UsageError(f"{error.filename} can't be written: {error.strerror}") from None
    if template is None and name in {each.name for each in scaffold.templates()} - {chosen.name}:
        console.warn(f"{name} is a template too; to start from it: reactor init NAME -t {name}")
    console.out(scaffold.tree(chosen, "./" if here else f"{name}/"))
    console.out()
    console.out("Next:")
    if not here:
        console.out(f"  cd {shlex.quote(name)}")
    if chosen.needs_more:
        console.out(f"  pip install -r {scaffold.REQUIREMENTS}")
    console.out("  reactor run")
