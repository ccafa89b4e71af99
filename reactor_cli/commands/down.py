"""`reactor down`: end the models that a front has left on Ray."""

from __future__ import annotations

from typing import Annotated

import typer

from reactor_cli import console
from reactor_cli.common_options import Directory, PathOption, project_directory, typer_parser
from reactor_runtime.cluster.run_options import ray_address
from reactor_runtime.errors import ReactorError, UsageError

EPILOG = """
\b
Examples:
  reactor down --ray-address 10.0.0.1:6379               of this project
  reactor down --cluster demo --ray-address auto         of another name

\b
Exit codes: 0 done, also if there were none; 1 some have not ended; 2 an error in
the command, or no contact with Ray.
"""


def down(
    directory: Directory = None,
    path: PathOption = None,
    address: Annotated[
        str,
        typer.Option(
            "--ray-address",
            parser=typer_parser(ray_address),
            metavar="ADDRESS",
            help="The cluster's address; auto is that of this machine.",
        ),
    ] = "auto",
    cluster: Annotated[
        str,
        typer.Option("--cluster", metavar="NAME", show_default="the project's name", help="The name of the cluster."),
    ] = "",
) -> None:
    """End the models of a project that run on Ray, and their sessions.

    `reactor run --on ray` ends them itself when it is stopped; this is for those that it left when it was killed.
    """
    from reactor_runtime import manifest

    try:
        from reactor_runtime.cluster.front.serve import remove_workers
    except ImportError as error:
        raise UsageError(
            f"`reactor down` needs the package {error.name}", hint="pip install 'reactor-live[ray]'"
        ) from None

    name = cluster or manifest.load(project_directory(directory, path)).name
    console.err(f"connecting to Ray at {address} …")
    console.out(report_removed(name, *remove_workers(name, address)))


def report_removed(name: str, found: int, ended: int) -> str:
    """Return the line for workers that have ended. Raises ReactorError if some of those that were found have not."""
    if ended < found:
        raise ReactorError(f"{name}: {ended} of {found} workers ended", hint="run the command again")
    return (
        f"{name}: {found} {'worker' if found == 1 else 'workers'} ended" if found else f"{name}: there were no workers"
    )
