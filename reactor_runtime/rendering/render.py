"""`render`: play a script with a model, and write what it shows to a clip."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.clips.clip import Clip, ClipTrack
from reactor_runtime.errors import ModelFailed
from reactor_runtime.rendering.renderer import Played, Renderer
from reactor_runtime.rendering.script import Script

NO_FRAME_HINT = "a model that waits for an event or an input gets it with --script; see also a longer --seconds"


@dataclass(frozen=True, slots=True)
class Rendered:
    """Hold the files that were written, the length of the clip, and how many frames it has."""

    paths: list[Path]
    end_s: float
    frames: int


def clip_tracks(contract: Contract) -> list[ClipTrack]:
    """Return the tracks that the clip of a model has."""
    return [ClipTrack(track.name, track.sample_rate) for track in contract.tracks if track.direction == "out"]


def render(
    renderer: Renderer,
    script: Script,
    seconds: float,
    clip: Clip,
    *,
    on_played: Callable[[Played], object] = lambda _: None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> Rendered:
    """Write a session of `seconds` to a clip, less if it ends by itself or `is_stopped()` becomes true.

    The clip is closed in any case, so that its file can be played. `on_played` gets each piece when it is written.
    Raises ModelFailed if the model fails or shows nothing, and ReactorError if the clip can't be written.
    """
    end_s, frames, paths = 0.0, 0, list[Path]()
    try:
        for played in renderer.play(script, seconds, is_stopped=is_stopped):
            for frame in played.frames:
                if frame.array.ndim == 3:
                    frames += 1
                    clip.write_frame(frame.track, frame.due_s, frame.array)
                else:
                    clip.write_sound(frame.track, frame.due_s, frame.array)
            end_s = played.end_s
            on_played(played)
    finally:
        paths = clip.close(end_s)
    if not paths and not is_stopped():
        why = f": it skips its steps: {renderer.refusal}" if renderer.refusal else ""
        raise ModelFailed(f"the model showed nothing in {end_s:g} s of its time{why}", hint=NO_FRAME_HINT)
    return Rendered(paths, end_s, frames)
