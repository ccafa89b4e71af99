"""Record a session with each template, in which every event comes once: python -m tests.cli.template_recordings

Run it, with its name as an argument, after a change of what a template shows. `test_templates.py` replays the files.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from reactor_cli.scaffold import find, templates, write
from reactor_runtime import manifest
from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.importing import import_class
from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.testing import Studio
from tests.cli.command import python
from tests.cli.values import value
from tests.testing.recorded import recorded

RECORDINGS = Path(__file__).parent / "recordings"
SMALL = {"width": 64, "height": 64, "scale": 1, "device": "cpu"}
STEP_S = 0.12


def record_template(name: str) -> None:
    """Record a session with a template into its file."""
    with tempfile.TemporaryDirectory() as folder:
        project, sessions = Path(folder) / name, Path(folder) / "sessions"
        write(find(name), project, name)
        # Templates have modules of the same names.
        made = python("-m", "tests.cli.template_recordings", "--project", str(sessions), cwd=project)
        assert made.code == 0, made.err
        (file,) = sessions.iterdir()
        file.replace(RECORDINGS / f"{name}.mcap")


def record_project(project: Path, directory: Path) -> None:
    """Record a session with the project into the directory."""
    checked = manifest.load(project)
    model = import_class(project, checked.module, checked.class_name)
    assert issubclass(model, Model)
    config = yaml.safe_load((project / "config.yml").read_text())
    small = {key: SMALL.get(key, default) for key, default in config.items()}
    with recorded(model, directory, small, project=project) as studio:
        play(studio, Contract.of(model).to_json())


def play(studio: Studio[Any], contract: dict[str, Any]) -> None:
    """Send each event once, and media before it."""
    noise = np.random.default_rng(3).integers(0, 256, (24, 32, 3), np.uint8)
    for name, spec in contract["schema"]["events"].items():
        for track in contract["tracks"]:
            if track["direction"] == "in":
                studio.push_media(track["name"], noise if track["kind"] == "video" else np.zeros((1, 800), np.int16))
        studio.run(STEP_S)
        studio.send_event(name, **value(spec["parameters"]))
    studio.run(STEP_S)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--project"]:
        record_project(Path.cwd(), Path(sys.argv[2]))
    else:
        for each in sys.argv[1:] or [template.name for template in templates()]:
            record_template(each)
