from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import simplejpeg

from reactor_runtime import manifest
from tests.cli.command import reactor

PIPELINE = """\
import numpy as np
from reactor_runtime import InputField, InputState, Output, ReactorPipeline, Video

class MyOutput(Output):
    main_video: Video

class MyState(InputState):
    level: int = InputField(default=0, ge=0, le=250)
    prompt: str = InputField(default="", examples=["a fox", "A Harbour, at night!"])

class MyModel(ReactorPipeline):
    state: MyState
    fps = 10

    def load(self, config):
        print("loading weights")

    def inference(self):
        while self.state.level < 200:
            level = 100 if self.state.prompt == "a fox" else self.state.level
            yield MyOutput(main_video=np.full((450, 800, 3), level, np.uint8))
        raise ValueError("out of ideas")
"""
PRESETS = "presets:\n  Low: {level: 40}\n  High: {level: 160}\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pipeline.py").write_text(PIPELINE)
    (tmp_path / "reactor.yaml").write_text(f"model: pipeline:MyModel\n{PRESETS}")
    return tmp_path


def level(image: Path) -> int:
    pixels = simplejpeg.decode_jpeg(image.read_bytes())
    assert pixels.shape == (225, 400, 3)
    return round(float(np.mean(pixels)))


def test_each_preset_and_each_example_has_an_image_of_what_the_model_shows_with_it(project: Path) -> None:
    outcome = reactor("thumbnails", "--seconds", "1", cwd=project)
    assert outcome.code == 0, outcome.err
    assert outcome.out == (
        "thumbnails/1-low.jpg  Low\n"
        "thumbnails/2-high.jpg  High\n"
        "thumbnails/3-a-fox.jpg  a fox\n"
        "thumbnails/4-a-harbour-at-night.jpg  A Harbour, at night!\n"
    )
    # Once for all.
    assert outcome.err == "loading weights\n"
    found = manifest.load(project).page_settings.thumbnails
    assert [(each.values, level(each.path)) for each in found] == [
        ({"level": 40}, 40),
        ({"level": 160}, 160),
        ({"prompt": "a fox"}, 100),
        ({"prompt": "A Harbour, at night!"}, 0),
    ]


def test_a_model_that_fails_changes_no_image(project: Path) -> None:
    assert reactor("thumbnails", "--seconds", "1", cwd=project).code == 0
    before = {path: path.read_bytes() for path in (project / "thumbnails").iterdir()}
    (project / "reactor.yaml").write_text(
        "model: pipeline:MyModel\npresets:\n  Low: {level: 50}\n  Top: {level: 250}\n"
    )
    outcome = reactor("thumbnails", "--seconds", "1", cwd=project)
    assert (outcome.code, outcome.out) == (1, "")
    assert "error: the model failed: ValueError: out of ideas\n  --> pipeline.py:22:9" in outcome.err
    assert before == {path: path.read_bytes() for path in (project / "thumbnails").iterdir()}


def test_without_presets_and_examples_the_error_names_both(project: Path) -> None:
    (project / "reactor.yaml").write_text("model: pipeline:MyModel\n")
    (project / "pipeline.py").write_text(PIPELINE.replace(', examples=["a fox", "A Harbour, at night!"]', ""))
    outcome = reactor("thumbnails", cwd=project)
    assert outcome.code == 2
    assert outcome.err.startswith("error: the project has no presets, and no examples of a prompt\n")


@pytest.mark.parametrize("image", ["../secret.jpg", "gone.jpg", "notes.txt", "link.jpg"])
def test_only_images_in_the_folder_are_shown(project: Path, image: str) -> None:
    folder = project / "thumbnails"
    folder.mkdir()
    (project / "secret.jpg").write_bytes(b"secret")
    (folder / "notes.txt").write_text("mine")
    (folder / "link.jpg").symlink_to(project / "secret.jpg")
    (folder / "1.jpg").write_bytes(b"an image")
    listed = [{"values": {"level": number}, "image": name} for number, name in enumerate(["1.jpg", image])]
    (folder / "thumbnails.json").write_text(json.dumps(listed))
    assert [each.path.name for each in manifest.load(project).page_settings.thumbnails] == ["1.jpg"]


@pytest.mark.parametrize("text", ["[", '["1.jpg"]', '[{"image": "1.jpg"}]', '{"a": 1}'])
def test_an_index_that_can_t_be_read_is_an_error_with_its_fix(project: Path, text: str) -> None:
    (project / "thumbnails").mkdir()
    (project / "thumbnails" / "thumbnails.json").write_text(text)
    outcome = reactor("check", cwd=project)
    assert outcome.code == 2
    assert "error: thumbnails/thumbnails.json can't be read" in outcome.err
    assert "delete it, and run `reactor thumbnails`" in outcome.err
