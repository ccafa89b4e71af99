"""The flags of `reactor run`, made from the fields of `RunOptions` and `ClusterRunOptions`, in their order."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from reactor_cli.common_options import Directory, PathOption, flag, project_directory
from reactor_runtime.cluster.run_options import ClusterRunOptions
from reactor_runtime.options.run_options import BARE, NO_RELOAD, RunOptions, declarations


class RunCommand(typer.core.TyperCommand):
    """Parse `--reload` and others without a value, and `--no-reload`, which an option of Typer with a value refuses."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        bare = {f"--{name.replace('_', '-')}": value for name, value in BARE.items()}
        values = {flag: f"{flag}={value}" for flag, value in bare.items()} | {"--no-reload": f"--reload={NO_RELOAD}"}
        return super().parse_args(ctx, [values.get(each, each) for each in args])


def with_run_options(
    command: Callable[[typer.Context, Path, RunOptions, ClusterRunOptions], None],
) -> Callable[..., None]:
    """Return a command for Typer with a parameter for the project and for each option; `command` gets their values."""

    @functools.wraps(command)
    def run(context: typer.Context, directory: Path | None, path: Path | None, **values: Any) -> None:
        command(context, project_directory(directory, path), *split_options(values))

    parameters: dict[str, tuple[Any, Any]] = {
        "context": (typer.Context, inspect.Parameter.empty),
        "directory": (Directory, None),
    }
    parameters["path"] = PathOption, None
    for options in (RunOptions, ClusterRunOptions):
        defaults = {field.name: field.default for field in fields(options)}
        for name, kind, option in declarations(options):
            parameters[name] = Annotated[kind, flag(name, option)], defaults[name]
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # as `inspect` reads it
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for name, (kind, default) in parameters.items()
        ]
    )
    run.__annotations__ = {name: kind for name, (kind, _) in parameters.items()}
    return run


def split_options(values: Mapping[str, Any]) -> tuple[RunOptions, ClusterRunOptions]:
    """Return the options of a server and those of a cluster, of all values by their names."""
    of_cluster = {field.name for field in fields(ClusterRunOptions)}
    return (
        RunOptions(**{name: value for name, value in values.items() if name not in of_cluster}),
        ClusterRunOptions(**{name: value for name, value in values.items() if name in of_cluster}),
    )
