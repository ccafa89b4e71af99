"""The tutorial shows excerpts of projects, each of its projects runs, and the two painters take the same arguments."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.cli.command import python, reactor, run_pytest
from tests.docs.snippets import ROOT, TUTORIAL, Snippet, snippets

PROJECTS = ROOT / "examples" / "tutorial"
# Runs the model of the working directory for a second, with an image of a camera, and prints its frames.
FRAMES = """
import numpy as np
from pipeline import MyModel
from reactor_runtime.testing import Studio

with Studio(MyModel) as studio:
    studio.connect()
    if hasattr(studio.model, "input"):
        studio.push_media("camera", np.full((36, 64, 3), 200, np.uint8))
    studio.run(1)
    first, *_, last = [frame.array for frame in studio.frames] * 2
    print(len(studio.frames), first.shape, int(last.max()))
"""


def project_of(page: Path) -> Path:
    """Return the folder of a chapter; the last one tests and publishes the world."""
    number = page.name.split("-")[0]
    (project,) = PROJECTS.glob(f"{4 if number == '6' else number}_*")
    return project


shown = [snippet for snippet in snippets("python", "yaml") if snippet.page.parent == TUTORIAL]


@pytest.mark.parametrize("snippet", shown, ids=str)
def test_a_chapter_shows_its_project(snippet: Snippet) -> None:
    files = [file for file in project_of(snippet.page).rglob(snippet.title) if "__pycache__" not in file.parts]
    assert any(snippet.text in file.read_text(encoding="utf-8") for file in files)


@pytest.mark.parametrize("file", sorted(PROJECTS.rglob("*.py")), ids=lambda file: f"{file.parent.name}-{file.name}")
def test_a_file_of_a_project_is_shown_whole(file: Path) -> None:
    assert file.read_text(encoding="utf-8") in [snippet.text for snippet in shown]


@pytest.mark.parametrize("project", sorted(PROJECTS.iterdir()), ids=lambda project: project.name)
def test_a_project_makes_frames(project: Path) -> None:
    assert reactor("check", str(project), cwd=project).code == 0
    outcome = python("-W", "error", "-c", FRAMES, cwd=project)
    assert outcome.code == 0, outcome.err
    count, *_, brightest = outcome.out.split()
    assert int(count) >= 1
    assert int(brightest) > 50


def test_the_tests_of_the_world_pass(tmp_path: Path) -> None:
    for file in (PROJECTS / "4_world").glob("*.py"):
        (tmp_path / file.name).write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    outcome = run_pytest(tmp_path)
    assert outcome.code == 0, outcome.out


def test_the_loop_saves_images(tmp_path: Path) -> None:
    for name in ("painter.py", "images.py"):
        (tmp_path / name).write_text((PROJECTS / "5_diffusion" / name).read_text(encoding="utf-8"), encoding="utf-8")
    outcome = python("-W", "error", "images.py", cwd=tmp_path)
    assert outcome.code == 0, outcome.err
    assert len({image.read_bytes() for image in tmp_path.glob("*.png")}) == 5


def test_the_painter_with_weights_replaces_the_stand_in() -> None:
    project = PROJECTS / "5_diffusion"
    assert _signatures(project / "painter.py") == _signatures(project / "weights" / "painter.py")


def _signatures(file: Path) -> dict[str, str]:
    """Return the arguments of the public methods."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return {node.name: ast.unparse(node.args) for node in functions if not node.name.startswith("_")}
