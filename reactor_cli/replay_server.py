"""`reactor replay --serve`: a server whose model replays a recorded session and shows its frames."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reactor_runtime.errors import UsageError

if TYPE_CHECKING:
    from reactor_runtime.manifest import Manifest
    from reactor_runtime.manifest.page_settings import PageSettings
    from reactor_runtime.options.run_options import RunOptions
    from reactor_runtime.recording.configs import ReplayConfig
    from reactor_runtime.recording.file import SessionRecording


def serve_replay(
    recording: SessionRecording, manifest: Manifest, replay_config: ReplayConfig, options: RunOptions
) -> None:
    """Serve the replay of a recording until a signal; raise UsageError for one that the project can't replay."""
    from reactor_cli.child import run_in_child
    from reactor_cli.commands.run import logged, serve_model
    from reactor_runtime import manifest as manifests
    from reactor_runtime.logs import streams
    from reactor_runtime.replaying.player import CLASS, MODULE, write_module

    if not any(output.hashes for output in recording.outputs):
        raise UsageError(f"{recording.path} has no frames", hint="its session ended before the first")
    streams.install()
    with manifests.pointing_at(manifest):
        # The engine imports the class too; here it would keep its libraries in memory.
        fps: float | None = run_in_child(lambda _: _check_contract(recording, manifest))["fps"]
    with tempfile.TemporaryDirectory(prefix="reactor-replay-") as folder, _importable(folder), logged(options):
        write_module(
            Path(folder),
            file=recording.path,
            project=manifest.project,
            module=manifest.module,
            class_name=manifest.class_name,
            over_recorded=replay_config.over_recorded,
            config_file=replay_config.file,
            merged_config=replay_config.merged,
        )
        served = replace(
            manifest,
            module=MODULE,
            class_name=CLASS,
            config_path=None,
            page=None,
            page_settings=_page_settings(recording, manifest, fps),
        )
        serve_model(options.serve_options(served, dict(replay_config.values or {})), open_page=options.open_page)


def _check_contract(recording: SessionRecording, manifest: Manifest) -> dict[str, Any]:
    from reactor_runtime import schema
    from reactor_runtime.testing.session_replay import refuse_other_contract

    contract = schema.contract_of(manifest.project, manifest.module, manifest.class_name)
    refuse_other_contract(recording, contract)
    return {"fps": contract.fps}


def _page_settings(recording: SessionRecording, manifest: Manifest, fps: float | None) -> PageSettings:
    from reactor_runtime.manifest.page_settings import Timeline
    from reactor_runtime.replaying.recorded_frames import RecordedFrames, marks_of

    frames = RecordedFrames.of(recording, fps)
    settings = manifest.page_settings
    title = f"{settings.title or manifest.name}: {recording.path.name}"
    return replace(settings, title=title, presets={}, timeline=Timeline(len(frames), marks_of(recording, frames)))


@contextlib.contextmanager
def _importable(folder: str) -> Iterator[None]:
    """Add a folder to the path from which the engine, which inherits the environment, imports modules."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = folder if not before else f"{folder}{os.pathsep}{before}"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
