"""`reactor check`, `render` and `replay` of a model whose tracks `load()` makes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import reactor

MODEL = """\
import numpy as np
from reactor_runtime import InputState, Output, ReactorPipeline, Video

class MyState(InputState):
    level: int = 0

class Views(ReactorPipeline):
    state: MyState
    fps = 10

    def load(self, config):
        self.views = Output.make(left=Video, right=Video)

    def inference(self):
        while True:
            yield self.views(left=np.full((32, 48, 3), 90, np.uint8), right=np.full((32, 48, 3), 180, np.uint8))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pipeline.py").write_text(MODEL)
    (tmp_path / "reactor.yaml").write_text("model: pipeline:Views\n")
    return tmp_path


def test_check_without_load_says_how_to_see_the_tracks(project: Path) -> None:
    outcome = reactor("check", cwd=project)
    assert outcome.code == 0
    assert "tracks    none" in outcome.out
    assert "the class declares no output; --step shows the tracks that load() makes" in outcome.err


def test_check_with_a_step_shows_them(project: Path) -> None:
    outcome = reactor("check", "--step", "--json", cwd=project)
    assert outcome.code == 0, outcome.err
    described = json.loads(outcome.out)
    assert [track["name"] for track in described["tracks"]] == ["left", "right"]
    assert [track["name"] for track in described["step"]["tracks"]] == ["left", "right"]


def test_a_rendering_has_a_file_for_each(project: Path) -> None:
    outcome = reactor("render", "--seconds", "0.5", "--out", "clip.mkv", cwd=project)
    assert outcome.code == 0, outcome.err
    assert sorted(file.name for file in project.glob("*.mkv")) == ["clip-right.mkv", "clip.mkv"]
