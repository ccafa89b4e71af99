"""`reactor render`: what a model shows and plays, written to a file without a server."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reactor_cli import console
from reactor_cli.common_options import (
    Directory,
    Overrides,
    PathOption,
    Verbose,
    project_config,
    read_project,
    typer_parser,
)
from reactor_cli.errors import render as render_error
from reactor_cli.interrupts import INTERRUPTED, interrupts
from reactor_cli.offline import offline
from reactor_cli.run_progress import RunProgress
from reactor_runtime.errors import UsageError
from reactor_runtime.options.option import duration

if TYPE_CHECKING:
    from reactor_runtime.config import GivenConfig
    from reactor_runtime.manifest import Manifest
    from reactor_runtime.rendering.render import Rendered

MOST_FPS = 1000
DEFAULT_S = 10.0

EPILOG = """
\b
Examples:
  reactor render                              10 s of the project, to clip.mp4
  reactor render my-model --seconds 1m --out long.mp4
  reactor render --out frames/                PNG files with the exact pixels
  reactor render --script inputs.yaml --set width=1280 --out clip.gif

\b
A session of `reactor run --record` is rendered by
  reactor replay FILE --out clip.mp4

\b
A script is a list of events, and of files for the input tracks:
  - camera: walk.mp4
  - at: 2.5s
    event: set_prompt
    data: {prompt: a fox}

\b
Exit codes: 0 done; 1 the model failed; 2 an error in the command, the
manifest, the config, the class or the script; 4 load() failed;
130 interrupted, with a file that ends there.
"""


def render(
    context: typer.Context,
    directory: Directory = None,
    path: PathOption = None,
    overrides: Overrides = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            "--seconds", parser=typer_parser(duration), metavar="TIME", help="The length of the clip; 10 s by default."
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option("--out", metavar="FILE|DIR", help="A file .mp4, .mkv, .gif or .webp, or a folder for PNG files."),
    ] = Path("clip.mp4"),
    script: Annotated[
        Path | None, typer.Option("--script", metavar="FILE", help="Events and files for input tracks, with times.")
    ] = None,
    fps: Annotated[
        float | None,
        typer.Option("--fps", metavar="N", help="The rate of the model; by default the declared one, else 30."),
    ] = None,
    verbose: Verbose = False,
) -> int:
    """Write what a model shows and plays to a file.

    Runs the model without a server, as fast as it computes: every frame is in the file, with its sound, however long a
    step takes. Ctrl-C ends the file after the current step. Needs PyAV: pip install 'reactor-live[video]'.
    """
    context.ensure_object(console.Settings).verbose = verbose
    if seconds == 0:
        raise UsageError("--seconds is 0, and a clip has a length", hint="give a time, such as 10 or 1m")
    if fps is not None and not 0 < fps <= MOST_FPS:
        raise UsageError(f"--fps is {fps:g}, not a rate above 0 and up to {MOST_FPS}")
    checked = read_project(directory, path)
    config = project_config(checked, overrides)
    with offline(checked):
        began = time.monotonic()
        done, interrupted = _render(checked, config, seconds or DEFAULT_S, out, script, fps, verbose=verbose)
    _print_result(done, time.monotonic() - began)
    return INTERRUPTED if interrupted else 0


def _render(
    checked: Manifest,
    config: GivenConfig,
    seconds: float,
    out: Path,
    script_path: Path | None,
    fps: float | None,
    *,
    verbose: bool,
) -> tuple[Rendered, bool]:
    """Check everything, load the model and render; return also whether Ctrl-C ended it."""
    from reactor_runtime import schema
    from reactor_runtime.clips.opening import open_clip
    from reactor_runtime.rendering.render import clip_tracks
    from reactor_runtime.rendering.render import render as render_clip
    from reactor_runtime.rendering.renderer import Played, Renderer
    from reactor_runtime.rendering.script import Script, read_script

    contract = schema.contract_of(checked.project, checked.module, checked.class_name, config=config)
    script = Script() if script_path is None else read_script(script_path, contract)
    for where in script.after_time(seconds):
        console.warn(f"{where}: it has no effect, because the clip ends at {seconds:g} s")
    inputs = [file.path for file in script.media]
    # Before load(), which may take minutes, unless that makes all of the tracks.
    clip = open_clip(out, clip_tracks(contract), inputs=inputs) if contract.outputs else None
    with RunProgress("rendering", seconds, "s") as progress:

        def show(played: Played) -> None:
            progress.update(played.end_s)
            for warning in played.warnings:
                console.err(render_error(warning, verbose=verbose, label="warning"))

        with Renderer.load(contract, config, checked.project, fps=fps) as renderer, interrupts(progress.close) as stop:
            progress.begin_work()
            if clip is None or renderer.contract.outputs != contract.outputs:
                clip = open_clip(out, clip_tracks(renderer.contract), inputs=inputs)
            done = render_clip(renderer, script, seconds, clip, on_played=show, is_stopped=stop.is_set)
    for where in script.after_steps(renderer.steps):
        console.warn(f"{where}: it had no effect, because the clip has {renderer.steps} steps")
    return done, stop.is_set()


def _print_result(done: Rendered, took_s: float) -> None:
    """Print the files, their length and size, and how fast they were made."""
    for path in done.paths:
        files = path.iterdir() if path.is_dir() else [path]
        size_bytes = sum(file.stat().st_size for file in files)
        size = f"{size_bytes / 1e6:.1f} MB" if size_bytes >= 1e6 else f"{size_bytes / 1e3:.0f} kB"
        console.out(f"{console.paint(console.printable(str(path)), 'bold')}  {size}")
    speed = done.end_s / took_s
    console.out(f"  {done.end_s:.4g} s, {done.frames} frames, in {took_s:.1f} s: {speed:.3g} times real time")
