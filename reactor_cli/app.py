"""The command line: its commands, and the only place that prints errors and picks exit codes.

0 clean, 1 the model failed while serving or a bug in Reactor, 2 usage, manifest, config or class, 3 cannot bind or
connect, 4 load() failed, 5 a server is full, 130 interrupted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from reactor_cli import console
from reactor_cli.cluster_run_options import ClusterRunOptions
from reactor_cli.commands import bench, check, connect, down, init, render, replay, run, schema, status
from reactor_cli.errors import bug, explain_usage
from reactor_cli.errors import render as render_error
from reactor_cli.run_options import RunCommand, RunOptions, split_options
from reactor_runtime.errors import ReactorError, UsageError

if TYPE_CHECKING:
    from reactor_runtime.manifest import Manifest

EPILOG = """
\b
Examples:
  reactor init my-model      make a new project
  reactor check my-model     check a project without serving it
  reactor run my-model       serve it at http://127.0.0.1:8080
  reactor down               end the models that a front on Ray has left
  reactor replay FILE        run a recorded session again, and compare
  reactor connect            control it from this terminal
  reactor status             show its sessions, rates and memory
  reactor render my-model    write what it shows to clip.mp4
  reactor schema my-model    describe its events and messages as OpenAPI
  reactor bench my-model     measure what the model costs
"""

app = typer.Typer(
    name="reactor",
    help="Serve a real-time, interactive video model: one Python class, frames and controls in the browser.",
    epilog=EPILOG,
    rich_markup_mode=None,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("init", epilog=init.EPILOG)(init.init)
app.command("check", epilog=check.EPILOG)(check.check)
app.command("run", cls=RunCommand, epilog=run.EPILOG)(run.run)
app.command("down", epilog=down.EPILOG)(down.down)
app.command("replay", epilog=replay.EPILOG)(replay.replay)
app.command("connect", epilog=connect.EPILOG)(connect.connect)
app.command("status", epilog=status.EPILOG)(status.status)
app.command("render", epilog=render.EPILOG)(render.render)
app.command("schema", epilog=schema.EPILOG)(schema.schema)
app.command("bench", epilog=bench.EPILOG)(bench.bench)


def main(arguments: Sequence[str], *, manifest: Manifest | None = None) -> int:
    """Run one command line, print its error if there is one, and return the exit code.

    `reactor run` serves the project of `manifest`, if that is given. A second Ctrl-C raises SystemExit.
    """
    settings = console.Settings(manifest=manifest)
    command = typer.main.get_command(app)
    try:
        code = command.main(args=list(arguments), prog_name="reactor", standalone_mode=False, obj=settings)
    except ReactorError as error:
        return _print_error(error, settings)
    except typer.TyperException as error:
        commands = [str(each.name) for each in app.registered_commands]
        return _print_error(explain_usage(error, arguments, commands), settings)
    except typer.Abort:
        return 130
    except Exception as error:  # noqa: BLE001 (the outermost boundary: such an exception is a bug, and is printed)
        return _print_error(bug(error), settings)
    return code if isinstance(code, int) else 0


def run_options(arguments: Sequence[str]) -> RunOptions:
    """Return the options of `reactor run` for a program that runs the server itself. Raises UsageError."""
    try:
        options, cluster = split_options(_run_command().make_context("run", list(arguments)).params)
    except typer.TyperException as error:
        raise explain_usage(error, ["run", *arguments], ["run"]) from None
    if cluster != ClusterRunOptions():
        raise UsageError("a program's own server can't be the front of a cluster", hint="use `reactor run --on ray`")
    return options


def run_parameters() -> dict[str, typer.core.TyperOption]:
    """Return the declarations of the options of `reactor run` by their names, such as --port."""
    options = [each for each in _run_command().params if isinstance(each, typer.core.TyperOption)]
    return {name: option for option in options for name in option.opts}


def _run_command() -> typer.core.TyperCommand:
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup), "there are several commands"
    command = group.commands["run"]
    assert isinstance(command, typer.core.TyperCommand), "it is made of a function"
    return command


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Print the version, or the help if there is no command."""
    if version:
        from reactor_runtime.version import version as installed

        console.out(f"reactor {installed()}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        console.out(context.get_help())


def _print_error(error: ReactorError, settings: console.Settings) -> int:
    if settings.json_logs:
        import logging

        facts = {"exit_code": error.exit_code, "hint": error.hint, "where": error.where, "details": error.details}
        extra = {name: value for name, value in facts.items() if value}
        logging.getLogger(__name__).error("%s", error.message, extra=extra)
        return error.exit_code
    console.err(render_error(error, verbose=settings.verbose))
    return error.exit_code
