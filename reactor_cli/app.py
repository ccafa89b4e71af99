"""The command line: its commands, and the only place that prints errors and picks exit codes.

0 clean, 1 the model failed while serving or a bug in Reactor, 2 usage, manifest, config or class, 3 cannot bind or
connect, 4 load() failed, 5 a server is full, 130 interrupted.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reactor_cli import console
from reactor_cli.errors import bug, explain_usage
from reactor_cli.errors import render as render_error
from reactor_runtime.errors import ReactorError

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
  reactor thumbnails         make the images of its presets for the page
  reactor steps my-model     make steps without a client, and write their output
  reactor schema my-model    describe its events and messages as OpenAPI
  reactor bench my-model     measure what the model costs
"""

# Each is a module of `commands/` with a function of its name. The text is the first paragraph of its docstring.
COMMANDS = {
    "init": "Make a new project that runs without changes.",
    "check": "Check a project without load(), and print its outline.",
    "run": "Serve a project: the model, its page and its controls.",
    "down": "End the models of a project that run on Ray, and their sessions.",
    "replay": "Run a recorded session again, and compare its output with the recording.",
    "connect": "Control or watch a model from the terminal.",
    "status": "Show the state of a server: its workers, their sessions, rates and memory.",
    "render": "Write what a model shows and plays to a file.",
    "thumbnails": "Make an image for each preset and each example of the prompt.",
    "steps": "Make a number of steps without a client, and write their output to a folder.",
    "schema": "Describe a model as OpenAPI 3.1, or as types for a client.",
    "bench": "Measure what a model costs: loading, steps, frame rate, memory, and where the time of a frame goes.",
}


class _Commands(typer.core.TyperGroup):
    """Hold the commands, with a help option that Typer need not check.

    Without a default its value is None where a command is named, and Typer imports pydantic for that.
    """

    def get_help_option(self, ctx: Any) -> Any:
        option = super().get_help_option(ctx)
        if option is not None:
            option.default = False
        return option


app = typer.Typer(
    name="reactor",
    cls=_Commands,
    help="Serve a real-time, interactive video model: one Python class, frames and controls in the browser.",
    epilog=EPILOG,
    rich_markup_mode=None,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def add_commands(named: Collection[str]) -> None:
    """Add all commands to `app`: import the `named` ones, and add only the texts of the others, for the help."""
    for name, text in COMMANDS.items():
        if name in named:
            module = importlib.import_module(f"reactor_cli.commands.{name}")
            kind = getattr(module, "COMMAND_CLASS", None)
            app.command(name, cls=kind, epilog=module.EPILOG)(getattr(module, name))
        else:
            app.command(name, help=text)(_not_named)


def _not_named() -> None:
    raise AssertionError("a command is imported when it is named")


def main(arguments: Sequence[str]) -> int:
    """Run one command line, print its error if there is one, and return the exit code.

    A second Ctrl-C raises SystemExit.
    """
    settings = console.Settings()

    def run_command() -> object:
        add_commands(arguments)
        command = typer.main.get_command(app)
        try:
            return command.main(args=list(arguments), prog_name="reactor", standalone_mode=False, obj=settings)
        except typer.TyperException as error:
            commands = [str(each.name) for each in app.registered_commands]
            raise explain_usage(error, arguments, commands) from None

    return _exit_code(run_command, settings)


def serve_class(manifest: Manifest, options: Mapping[str, Any]) -> int:
    """Serve the class of a manifest as `reactor run` does, with its options as keywords; return the exit code."""
    from reactor_cli.commands import run
    from reactor_runtime.options.run_options import RunOptions

    settings = console.Settings()
    return _exit_code(lambda: run.serve_project(manifest, RunOptions.from_keywords(options), settings), settings)


def _exit_code(command: Callable[[], object], settings: console.Settings) -> int:
    """Run a command, print its error if there is one, and return the exit code."""
    try:
        code = command()
    except ReactorError as error:
        return _print_error(error, settings)
    except (typer.Abort, KeyboardInterrupt):
        return 130
    except Exception as error:  # noqa: BLE001 (the outermost boundary: such an exception is a bug, and is printed)
        return _print_error(bug(error), settings)
    return code if isinstance(code, int) else 0


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
