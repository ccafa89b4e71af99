"""The folder of `reactor steps`: what each step has made, its files, and the video of all steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from reactor_runtime.errors import UsageError
from reactor_runtime.rendering.renderer import StepMade

MOVIE, RESULT = "output.mp4", "result.json"


class StepResults:
    """Write the files of each step to `<step>/<name>` in a new or empty folder, and in the end `result.json`.

    Raises UsageError if the folder can't be used.
    """

    def __init__(self, folder: Path, *, model: str, seed: int | None) -> None:
        self._folder = folder
        self._model = model
        self._seed = seed
        self._steps: list[dict[str, Any]] = []
        try:
            folder.mkdir(parents=True, exist_ok=True)
            occupied = any(folder.iterdir())
        except OSError as error:
            raise UsageError(f"{folder} can't be used: {error.strerror}") from None
        if occupied:
            raise UsageError(f"{folder} is not empty", hint="delete its files, or choose another folder")

    @property
    def count(self) -> int:
        """Return how many steps there are."""
        return len(self._steps)

    @property
    def movie(self) -> Path:
        return self._folder / MOVIE

    def add_step(self, made: StepMade) -> None:
        """Keep what a step has made, and write its files."""
        for name, content in made.files.items():
            folder = self._folder / f"{made.step:06}"
            folder.mkdir(exist_ok=True)
            (folder / name).write_bytes(content)
        self._steps.append(
            {
                "step": made.step,
                "elapsed_seconds": round(made.elapsed_s, 6),
                "tracks": [{key: value for key, value in track.items() if key != "kind"} for track in made.tracks],
                "metadata": made.metadata,
                "messages": [{"type": message.type, "data": message.data} for message in made.messages],
                "files": list(made.files),
                "error": made.error,
            }
        )

    def close(self, error: str | None) -> Path:
        """Write `result.json`, with why the session ended before its last step, and return its path."""
        result = {
            "model": self._model,
            "seed": self._seed,
            "steps": len(self._steps),
            "elapsed_seconds": round(sum(step["elapsed_seconds"] for step in self._steps), 6),
            "error": error,
            "results": self._steps,
        }
        path = self._folder / RESULT
        path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
        return path
