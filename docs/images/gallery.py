"""Make the clips of docs/templates.md, or those that are named: `.venv/bin/python docs/images/gallery.py tutorial-1`.

`reactor render` runs each project with a script of events, without a server, so the result depends on the project only.
dream.py and prompt.py make the clips of those templates. It needs the extras `test` and `video`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WIDTH, FPS, SECONDS, QUALITY = 256, 10, 4, 40
Event = dict[str, object]


@dataclass(frozen=True)
class Clip:
    """A project, when its clip begins, its events by their times, and the rate of its model."""

    project: str
    begin_s: float = 0
    events: tuple[Event, ...] = ()
    fps: int = 30
    settings: tuple[str, ...] = ()


def at(at_s: float, event: str, **data: object) -> Event:
    return {"at": at_s, "event": event, "data": data}


FILTERS = ("oil", "neon", "kaleidoscope", "slitscan")
PEBBLES = (at(0.8, "splash", x=0.3, y=0.6), at(2.2, "splash", x=0.7, y=0.4))
CLIPS = {
    "template-pipeline": Clip("templates/pipeline", 0, PEBBLES),
    "template-model": Clip("templates/model", 9, tuple(at(9 + 1.2 * idx, "splash", x=0.3 * idx) for idx in (1, 2))),
    "template-webcam": Clip(
        "templates/webcam",
        2,
        tuple(at(2 + idx, "set_filter", filter=name) for idx, name in enumerate(FILTERS)),
    ),
    "template-world": Clip(
        "templates/world",
        1,
        (at(1, "set_walk", walk=1), at(1.5, "set_turn", turn=0.3), at(3, "set_turn", turn=0)),
        settings=("width=512", "height=288"),
    ),
    "template-sound": Clip(
        "templates/sound",
        1,
        tuple(
            at(1 + 0.4 * idx + wait_s, f"set_{key}", **{key: held})
            for idx, key in enumerate("cegecegec")
            for wait_s, held in ((0, True), (0.3, False))
        ),
        settings=("width=512", "height=288"),
    ),
    "template-torch": Clip(
        "templates/torch",
        4,
        tuple(at(4.5 + 0.05 * idx, "paint", x=0.2 + 0.015 * idx, y=0.3 + 0.01 * idx) for idx in range(40)),
        settings=("device=cpu",),
    ),
    "example-catch": Clip(
        "examples/catch",
        0,
        tuple(at(idx / 6, "set_move", move=(1, 0, -1, -1)[idx // 6]) for idx in range(24)),
        fps=6,
    ),
    "tutorial-1": Clip("examples/tutorial/1_first_frame", 2),
    "tutorial-2": Clip(
        "examples/tutorial/2_controls",
        2,
        (
            at(2, "set_colour", colour="rose"),
            at(2.7, "flare"),
            at(3.5, "set_wind", wind=1),
            at(4.5, "set_colour", colour="gold"),
        ),
    ),
    "tutorial-3": Clip("examples/tutorial/3_camera", 2, fps=25),
    "tutorial-4": Clip("examples/tutorial/4_world", 1.3, (at(0, "set_move", move=[0, 1]),)),
    "tutorial-5": Clip("examples/tutorial/5_diffusion", 1, fps=16),
}


def frames(clip: Clip, folder: Path) -> list[Image.Image]:
    """Render the project, and return the frames of its clip, small."""
    script = folder / "script.yaml"
    script.write_text(json.dumps([*cameras(clip, folder), *clip.events]))
    command = [sys.executable, "-m", "reactor_cli", "render", str(ROOT / clip.project), "--out", str(folder / "frames")]
    length = ["--seconds", str(clip.begin_s + SECONDS), "--script", str(script)]
    subprocess.run([*command, *length, *(f"--set={value}" for value in clip.settings)], check=True)
    files = sorted((folder / "frames").glob("main_video-*.png"))
    fps = min(FPS, clip.fps)
    chosen = [files[round((clip.begin_s + idx / fps) * clip.fps)] for idx in range(SECONDS * fps - 1)]
    return [small(Image.open(file)) for file in chosen]


def small(image: Image.Image) -> Image.Image:
    return image.convert("RGB").resize((WIDTH, WIDTH * image.height // image.width), Image.Resampling.LANCZOS)


def cameras(clip: Clip, folder: Path) -> list[Event]:
    if clip.project != "examples/tutorial/3_camera":
        return []
    sys.path.insert(0, str(HERE))
    from page import nodding_face  # type: ignore[import-not-found]

    video = folder / "face.mjpeg"
    video.write_bytes(b"".join(map(nodding_face, range(60))))
    return [{"camera": str(video)}]


def make(name: str) -> int:
    """Write a clip, and return its size in bytes."""
    with tempfile.TemporaryDirectory() as folder:
        first, *others = frames(CLIPS[name], Path(folder))
        path = HERE / f"{name}.webp"
        duration_ms = 1000 // min(FPS, CLIPS[name].fps)
        first.save(path, save_all=True, append_images=others, duration=duration_ms, loop=0, quality=QUALITY, method=6)
    return path.stat().st_size


def main() -> None:
    for name in sys.argv[1:] or CLIPS:
        sys.stdout.write(f"{name}.webp: {make(name) // 1000} kB\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
