"""`reactor replay`: a recorded session again, with the code of a project, compared with the recording."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reactor_cli import console
from reactor_cli.common_options import (
    Directory,
    Overrides,
    PathOption,
    Verbose,
    count_of,
    project_config,
    read_project,
)
from reactor_cli.interrupts import interrupts
from reactor_cli.offline import offline
from reactor_cli.run_progress import RunProgress
from reactor_runtime.clips.output_file import check_output_file
from reactor_runtime.errors import UsageError

if TYPE_CHECKING:
    from reactor_runtime.config import Override
    from reactor_runtime.manifest import Manifest
    from reactor_runtime.recording.configs import ReplayConfig
    from reactor_runtime.recording.file import SessionRecording
    from reactor_runtime.recording.pieces import Pieces
    from reactor_runtime.testing.comparison import Replay
    from reactor_runtime.testing.frame_diff import FrameDiff

# Of the output, if the class declares no rate.
DEFAULT_FPS = 30.0
MOST_DIFFERENCES = 5
# Reading a file of this size may take a second.
LARGE_BYTES = 4_000_000

Write = Callable[[int, "Pieces"], object]


class ConfigFrom(StrEnum):
    """Choose the config with which a replay loads the model."""

    RECORDING = "recording"
    PROJECT = "project"


EPILOG = """
\b
Examples:
  reactor replay sessions/2026-11-23_14-05-09.mcap    with the code in this directory
  reactor replay FILE my-model --out clip.mp4         write what the model shows now
  reactor replay FILE --diff diff.html                show the differences on a page
  reactor replay FILE --tolerance 40                  PSNR from 40 dB on is enough
  reactor replay FILE --set steps=4                   with another value of the config

\b
Exit codes: 0 equal, or accepted; 1 different, or the model failed; 2 an error
in the command, the recording or the class, or another contract; 4 load()
failed; 130 interrupted.
"""


def replay(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A recording of `reactor run --record`.")],
    directory: Directory = None,
    path: PathOption = None,
    overrides: Overrides = None,
    config_from: Annotated[
        ConfigFrom | None,
        typer.Option(
            "--config-from",
            help="Load the model with the config of the recording, if you trust the file, or of the project; by "
            "default a terminal asks where they differ.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE|DIR", help="Write the output: .mp4, .mkv, .gif, .webp, or a folder."),
    ] = None,
    diff: Annotated[
        Path | None, typer.Option("--diff", metavar="FILE", help="Write a page with the differences, as HTML.")
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option("--tolerance", metavar="DB", help="Accept frames with at least this PSNR; needs --record-video."),
    ] = None,
    verbose: Verbose = False,
) -> int:
    """Run a recorded session again, and compare its output with the recording.

    The model gets the same events and inputs at the same steps, without a server and as fast as it computes. The code
    is that of the project. Needs an extra: pip install 'reactor-live[record]'.
    """
    context.ensure_object(console.Settings).verbose = verbose
    recording = open_recording(file)
    checked = read_project(directory, path)
    config = choose_config(recording, checked, overrides or [], config_from)
    accepted = replay_in_project(recording, checked, config, out=out, diff=diff, tolerance=tolerance)
    return 0 if accepted else 1


def open_recording(path: Path) -> SessionRecording:
    """Read a recording; warn if it lacks the end of its session."""
    from reactor_runtime.recording.file import read_recording

    name = console.printable(str(path))
    if path.is_file() and (size_bytes := path.stat().st_size) >= LARGE_BYTES:
        console.err(f"reading {name}, {console.size_text(size_bytes)}")
    recording = read_recording(path)
    if not recording.complete:
        console.warn(
            f"{name} lacks the end of its session, because recording goes on, its process was killed, or the disk was "
            f"full: only its first {recording.steps} steps are replayed"
        )
    return recording


def choose_config(
    recording: SessionRecording, checked: Manifest, overrides: list[Override], config_from: ConfigFrom | None
) -> ReplayConfig:
    """Return the config of a replay; ask on a terminal if the recorded one differs from that of the project.

    Otherwise a file from someone else would choose what `load()` gets. Raises UsageError if they differ and there is
    neither an option nor a terminal.
    """
    from reactor_runtime import config
    from reactor_runtime.recording.configs import ReplayConfig, comparable, parse_config
    from reactor_runtime.testing.session_replay import config_changes, other_config

    over = config.override({}, overrides)
    if config_from is None:
        current = comparable(checked.given_config(), recording.header.config)
        changes = config_changes(recording, current, over)
        if changes and _is_trusted(recording, changes):
            config_from = ConfigFrom.RECORDING
        elif changes:
            raise other_config(
                recording,
                changes,
                hint="--config-from recording loads the model with it, if you trust the file; --config-from project "
                "with yours",
            )
    if config_from == ConfigFrom.RECORDING:
        for line in config.misspelt_keys(parse_config(recording.header.config), overrides):
            console.warn(line)
        return ReplayConfig(over, over_recorded=True)
    given = project_config(checked, overrides)
    return ReplayConfig(given.values, file=given.file, merged=given.merged)


def _is_trusted(recording: SessionRecording, changes: list[str]) -> bool:
    """Ask on a terminal whether the recorded config may be used."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    console.err(f"{console.printable(str(recording.path))} was recorded with another config than the project's:")
    for line in changes:
        console.err(f"  {console.printable(line)}")
    return typer.confirm("Load the model with the recorded config? Only if you trust the file", err=True)


def replay_in_project(
    recording: SessionRecording,
    checked: Manifest,
    config: ReplayConfig,
    *,
    out: Path | None = None,
    diff: Path | None = None,
    tolerance: float | None = None,
) -> bool:
    """Replay with the code of a project, write the files, and print the result; return whether it is accepted."""
    if tolerance is not None and not recording.stored_frames:
        raise UsageError(
            f"{recording.path} has hashes, not frames, so --tolerance can't be checked",
            hint="`reactor run --record DIR --record-video` records frames too",
        )
    if diff is not None:
        if diff.suffix.lower() != ".html":
            raise UsageError(f"{diff} does not end in .html", hint="--diff writes a page with the differences there")
        check_output_file(diff)
    with offline(checked):
        began = time.monotonic()
        with_diff = diff is not None or tolerance is not None
        result, frame_diff = _replay(recording, checked, config, out, with_diff=with_diff)
        took_s = time.monotonic() - began
    changed = _changed_files(recording, checked.project)
    if diff is not None:
        _write_page(diff, recording, result, frame_diff, changed)
    for kept in recording.kept:
        console.out(f"kept after step {kept.step}; its last minute begins with step {kept.since_step}")
    _print_result(recording, result, changed, took_s)
    if frame_diff is None or tolerance is None or not result.total:
        return not result.total
    return _is_accepted(result, frame_diff, tolerance)


def _replay(
    recording: SessionRecording, checked: Manifest, config: ReplayConfig, out: Path | None, *, with_diff: bool
) -> tuple[Replay, FrameDiff | None]:
    from reactor_runtime import schema
    from reactor_runtime.testing.frame_diff import FrameDiff
    from reactor_runtime.testing.session_replay import author_errors, refuse_other_contract, replay_recording

    given = None if config.over_recorded else config.of(recording.header.config)
    contract = schema.contract_of(checked.project, checked.module, checked.class_name, config=given)
    refuse_other_contract(recording, contract)
    frame_diff = FrameDiff(recording) if with_diff and recording.stored_frames else None
    tracks = recording.header.contract["tracks"]
    rates = {track["name"]: track.get("sample_rate") for track in tracks if track["direction"] == "out"}
    with (
        contextlib.ExitStack() as until_written,
        _clip(out, rates, contract.fps or DEFAULT_FPS) as write,
        RunProgress("replaying", recording.steps, "steps") as progress,
        author_errors(contract, checked.project) as begin,
    ):
        stop = threading.Event()

        def on_loaded() -> None:
            nonlocal stop
            begin()
            progress.begin_work()
            stop = until_written.enter_context(interrupts(progress.close))

        def on_output(step: int, pieces: Pieces) -> None:
            write(step, pieces)
            if frame_diff is not None:
                frame_diff.add_output(step, pieces)

        result = replay_recording(
            recording,
            contract.model,
            config,
            project=checked.project,
            on_loaded=on_loaded,
            on_output=on_output,
            on_step=progress.update,
            is_stopped=lambda: stop.is_set(),
        )
    if stop.is_set():
        raise KeyboardInterrupt
    return result, frame_diff


@contextlib.contextmanager
def _clip(out: Path | None, sample_rates: dict[str, int | None], fps: float) -> Iterator[Write]:
    """Write frames at this rate, and sound without gaps, to a clip, which ends also if the replay fails.

    `sample_rates` has None for tracks of video. Of a session with several seats, the clip shows the first.
    """
    if out is None:
        yield lambda _, __: None
        return
    from reactor_runtime.clips.clip import ClipTrack
    from reactor_runtime.clips.opening import open_clip
    from reactor_runtime.recording.entries import in_first_seat

    clip = open_clip(out, [ClipTrack(name, rate) for name, rate in sample_rates.items()])
    ends_s = dict.fromkeys(sample_rates, 0.0)

    def write(_: int, pieces: Pieces) -> None:
        for track, arrays in in_first_seat(pieces).items():
            rate = sample_rates[track]
            for array in arrays:
                if rate is None:
                    clip.write_frame(track, ends_s[track], array)
                    ends_s[track] += 1 / fps
                else:
                    clip.write_sound(track, ends_s[track], array)
                    ends_s[track] += array.shape[1] / rate

    try:
        yield write
    finally:
        for written in clip.close(max(ends_s.values(), default=0.0)):
            console.err(f"written: {written}")


def _changed_files(recording: SessionRecording, project: Path) -> list[str]:
    """Return the files of the project that have changed or gone since the end of the recording."""
    from reactor_runtime.recording.file import hash_file

    return [name for name, hash in recording.files.items() if hash_file(project / name) != hash]


def _write_page(
    path: Path, recording: SessionRecording, result: Replay, frame_diff: FrameDiff | None, changed: list[str]
) -> None:
    from reactor_runtime.testing.diff_page import diff_page

    try:
        path.write_text(diff_page(recording, result, frame_diff, changed), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} can't be written: {error.strerror}") from error
    console.err(f"written: {path}")


def _is_accepted(result: Replay, frame_diff: FrameDiff, tolerance: float) -> bool:
    """Print and return whether output that differs is similar enough."""
    refusal = frame_diff.refusal(result, tolerance)
    if refusal:
        console.out(f"not accepted: {refusal}")
    else:
        unsent = frame_diff.unsent
        rest = f"; {count_of(unsent, 'frame')} without a JPEG not compared" if unsent else ""
        console.out(f"accepted: the lowest PSNR is {frame_diff.lowest_psnr:.1f} dB{rest}")
    return not refusal


def _print_result(recording: SessionRecording, result: Replay, changed: list[str], took_s: float) -> None:
    if changed:
        console.out(f"changed since the recording: {console.printable(', '.join(changed))}")
    last = _print_code_changes(recording)
    steps = f"{result.steps} steps in {took_s:.1f} s"
    if not result.total:
        console.out(f"{console.paint('equal', 'green')}: {steps}, {result.frames} frames and pieces of sound")
        return
    share = f"{result.different} of {result.frames} frames and pieces of sound differ"
    outdated = f", {result.outdated} of them up to step {last}" if result.outdated else ""
    console.out(f"{console.paint('different', 'yellow')}: {steps}, {share}{outdated}")
    differences = [each for each in result.differences if each.step > last]
    for difference in differences[:MOST_DIFFERENCES]:
        console.out(f"  {console.printable(str(difference))}")
    more = max(0, len(differences) - MOST_DIFFERENCES) + result.total - len(result.differences)
    if more:
        console.out(f"  and {more} more")


def _print_code_changes(recording: SessionRecording) -> int:
    """Print after which steps the code changed in the recorded session; return the last of them, 0 if it did not."""
    steps = [change.step for change in recording.code_changes]
    if not steps:
        return 0
    after = f"after step {steps[-1]}" if len(steps) == 1 else f"{len(steps)} times, at last after step {steps[-1]}"
    console.out(f"the code changed {after} of the recording; other code made the frames before")
    return steps[-1]
