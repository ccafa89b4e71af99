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
  reactor init ../my-model        beside this directory
  reactor init my-world -t world  from another template
  reactor init --here             into this directory, named after it
  reactor init --list             list the templates
"""


def init(
    name: Annotated[
        str | None, typer.Argument(metavar="DIR", help="The new directory, which gives the project its name.")
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

    The default DIR is my-model; with --here it is only a name. Existing files are only replaced with --force.
    """
    from reactor_cli import scaffold

    if list_templates:
        console.out(scaffold.table(scaffold.templates()))
        return
    chosen = scaffold.find(scaffold.DEFAULT if template is None else template)
    if name is not None and name.rstrip("/") == ".":
        name, here = None, True
    given = name if name is not None else "." if here else "my-model"
    target = Path() if here else Path(given)
    name = given if not given or (here and given != ".") else scaffold.name_of(target)
    scaffold.check_name(name)
    try:
        scaffold.write(chosen, target, name, merge=here, force=force)
    except OSError as error:
        raise UsageError(f"{error.filename} can't be written: {error.strerror}") from None
    if template is None and name in {each.name for each in scaffold.templates()} - {chosen.name}:
        console.warn(f"{name} is a template too; to start from it: reactor init NAME -t {name}")
    console.out(scaffold.tree(chosen, "./" if here else f"{given.rstrip('/')}/"))
    console.out()
    console.out("Next:")
    if not here:
        console.out(f"  cd {shlex.quote(given)}")
    if chosen.needs_more:
        console.out(f"  pip install -r {scaffold.REQUIREMENTS}")
    console.out("  reactor run")
