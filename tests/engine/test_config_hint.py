"""The values of the config file in a failing expression, named with their lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from reactor_runtime.engine.config_hint import config_hint

CONFIG = """\
# The size of the frames.
width: wide
height: 480
device:
model:
  steps: 0
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "reactor.yaml").write_text("model: pipeline:MyModel\nconfig: config.yml\n")
    (tmp_path / "config.yml").write_text(CONFIG)
    return tmp_path


def hint(project: Path, code: str, **names: object) -> str:
    """Return the hint for the exception that the author's code raises."""
    file = project / "pipeline.py"
    file.write_text(code)
    with pytest.raises(Exception) as raised:
        exec(compile(code, str(file), "exec"), names)
    return config_hint(raised.value, project)


class Author:
    def __init__(self, **values: object) -> None:
        vars(self).update(values)


@pytest.mark.parametrize(
    "expression",
    [
        'int(config["width"])',
        'int(config.get("width", 640))',
        "width + 1",
        "range(self.width)",
        '"é" + range(\n  self.width,\n)',
    ],
)
def test_a_value_that_the_expression_reads_is_named_with_its_line(project: Path, expression: str) -> None:
    config = {"width": "wide"}
    found = hint(project, f"value = {expression}", config=config, width="wide", self=Author(width="wide"))
    assert found == "width is at config.yml:2"


def test_all_values_of_the_expression_are_named(project: Path) -> None:
    found = hint(project, "[height, width] + 1", height=480, width="wide")
    assert found == "width is at config.yml:2, height is at config.yml:3"


@pytest.mark.parametrize("expression", ['1 / config["model"]["steps"]', "1 / steps"])
def test_an_inner_value_is_named_with_its_path(project: Path, expression: str) -> None:
    assert hint(project, expression, config={"model": {"steps": 0}}, steps=0) == "model.steps is at config.yml:6"


def test_an_empty_value_is_named(project: Path) -> None:
    assert hint(project, "len(device)", device=None) == "device is at config.yml:4"


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        # Of `--set` or of the model itself, whatever the file has.
        ("range(width)", {"width": "broad"}),
        ("[height, width] + 1", {"height": 480, "width": "broad"}),
        ("1 / steps", {"steps": False}),
        ("steps.x", {"steps": 3}),
        ("width", {}),
        ('config["wdth"]', {"config": {"width": "wide"}}),
        ("1 / 0", {"width": "wide", "height": 480, "device": None}),
        ("raise ValueError(width)", {"width": "wide"}),
    ],
)
def test_other_values_are_not_named(project: Path, expression: str, names: dict[str, object]) -> None:
    assert hint(project, expression, **names) == ""


def test_an_expression_around_the_innermost_is_not_searched(project: Path) -> None:
    code = "def draw(size):\n    return 1 / 0\n\ndraw(width)\n"
    assert hint(project, code, width="wide") == ""


def test_properties_of_the_author_are_not_called_again(project: Path) -> None:
    calls = []

    class Odd:
        @property
        def width(self) -> str:
            calls.append("width")
            return "wide"

    assert hint(project, "range(self.width)", self=Odd()) == ""
    assert calls == ["width"]


@pytest.mark.parametrize("manifest", ["", "model: a:B\n", "config: missing.yml\n", "config: {}\n", "[", "- a\n"])
def test_without_a_config_file_nothing_is_named(project: Path, manifest: str) -> None:
    (project / "reactor.yaml").write_text(manifest)
    assert hint(project, "int(width)", width="wide") == ""


def test_a_config_file_that_became_invalid_names_nothing(project: Path) -> None:
    (project / "config.yml").write_text("width: [")
    assert hint(project, "int(width)", width="wide") == ""


def test_the_config_of_a_project_for_3_is_named_too(project: Path) -> None:
    (project / "reactor.yaml").write_text("runtime: {import: pipeline:MyModel, config: config.yml}\n")
    assert hint(project, "width + 1", width="wide") == "width is at config.yml:2"
