"""`reactor steps`: make a number of steps in a session without a client, and write their output to a folder."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reactor_cli import console
from reactor_cli.common_options import Directory, Overrides, PathOption, Verbose, project_config, read_project
from reactor_cli.errors import render as render_error
from reactor_cli.interrupts import INTERRUPTED, interrupts
from reactor_cli.offline import offline
from reactor_cli.run_progress import RunProgress
from reactor_runtime.errors import ReactorError, UsageError

if TYPE_CHECKING:
    from reactor_runtime.config import GivenConfig
    from reactor_runtime.manifest import Manifest
    from reactor_runtime.rendering.results import StepResults

MOST_STEPS = 10_000
MOST_SEEDS = 2**32

EPILOG = """
\b
Examples:
  reactor steps my-model --count 24 --out run
  reactor steps my-model --count 24 --out run --script inputs.yaml --seed 7

\b
The folder has output.mp4 with the frames and sound of all steps, result.json
with what each step has made, and the files of a step, as of StepCompleted in
a folder of its number. A script is that of `reactor render`.

\b
Exit codes: 0 done; 1 the model failed, or made fewer steps; 2 an error in the
command, the manifest, the config, the class or the script; 4 load() failed;
130 interrupted.
"""


def steps(
    context: typer.Context,
    directory: Directory = None,
    path: PathOption = None,
    overrides: Overrides = None,
    count: Annotated[int, typer.Option("--count", metavar="N", help="How many steps to make.")] = 1,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="A new or empty folder.")] = Path("steps"),
    script: Annotated[
        Path | None, typer.Option("--script", metavar="FILE", help="Events and files for input tracks, with steps.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="Seed the generators of Python, NumPy and torch.")
    ] = None,
    verbose: Verbose = False,
) -> int:
    """Make a number of steps without a client, and write their output to a folder.

    Runs a pipeline or an app without a server, as fast as it computes; a step that an app skips does not count. Needs
    PyAV: pip install 'reactor-live[video]'.
    """
    context.ensure_object(console.Settings).verbose = verbose
    if not 1 <= count <= MOST_STEPS:
        raise UsageError(f"--count is {count}, not a number from 1 to {MOST_STEPS:,}")
    if seed is not None and not 0 <= seed < MOST_SEEDS:
        raise UsageError(f"--seed is {seed}, not a number from 0 to {MOST_SEEDS - 1}")
    checked = read_project(directory, path)
    config = project_config(checked, overrides)
    with offline(checked):
        made, interrupted, folder = _make(checked, config, count, out, script, seed, verbose=verbose)
    console.out(f"{console.paint(console.printable(str(folder)), 'bold')}  {made} of {count} steps")
    return INTERRUPTED if interrupted else int(made < count)


def _make(
    checked: Manifest,
    config: GivenConfig,
    count: int,
    out: Path,
    script_path: Path | None,
    seed: int | None,
    *,
    verbose: bool,
) -> tuple[int, bool, Path]:
    """Check everything, load the model and make the steps; return how many, and whether Ctrl-C ended them."""
    from reactor_runtime import schema
    from reactor_runtime.clips.opening import open_clip
    from reactor_runtime.rendering.render import clip_tracks, render
    from reactor_runtime.rendering.renderer import Played, Renderer, StepMade
    from reactor_runtime.rendering.results import StepResults
    from reactor_runtime.rendering.script import Script, read_script

    contract = schema.contract_of(checked.project, checked.module, checked.class_name, config=config)
    if not contract.style.has_steps:
        raise UsageError(contract.style.without_steps(contract.model))
    script = Script() if script_path is None else read_script(script_path, contract)
    results = StepResults(out, model=checked.model, seed=seed)
    with RunProgress("making steps", count, "steps") as progress, _closed(results):

        def on_made(made: StepMade) -> None:
            results.add_step(made)
            progress.update(made.step)

        def show(played: Played) -> None:
            for warning in played.warnings:
                console.err(render_error(warning, verbose=verbose, label="warning"))

        load = Renderer.load(contract, config, checked.project, most_steps=count, seed=seed, on_made=on_made)
        with load as renderer, interrupts(progress.close) as stop:
            progress.begin_work()
            clip = open_clip(results.movie, clip_tracks(renderer.contract))
            render(renderer, script, math.inf, clip, on_played=show, is_stopped=stop.is_set)
    for where in script.after_steps(renderer.steps):
        console.warn(f"{where}: it had no effect, because {renderer.steps} steps were made")
    return results.count, stop.is_set(), out


@contextlib.contextmanager
def _closed(results: StepResults) -> Iterator[None]:
    """Write the results at the end of the block, with the error that ends it."""
    try:
        yield
    except ReactorError as error:
        results.close(error.message)
        raise
    results.close(None)
