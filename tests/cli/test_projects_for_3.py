"""Projects whose manifest has the form of 3.x, with the commands."""

from __future__ import annotations

from pathlib import Path

from tests.cli.command import new_reactor, reactor

PIPELINE = """\
import os
from reactor_runtime import InputState, Output, ReactorPipeline, Video

ENVIRONMENT = os.environ["STEPS"], os.environ["REACTOR_WEIGHTS_PATH"]
assert ENVIRONMENT == ("4", os.environ.get("EXPECTED", os.path.join(os.path.dirname(__file__), "w"))), ENVIRONMENT


class MyOutput(Output):
    main_video: Video


class MyModel(ReactorPipeline):
    state: InputState
    fps = 24

    def inference(self):
        yield None
"""
MANIFEST = """\
model: {name: dreamer, version: 1.0.0, resources: {gpu: 99}}
runtime: {import: pipeline:MyModel, weights_path: w}
build: {runtime_env: {STEPS: 4}, python_requirements: reqs.txt}
"""


def project(directory: Path, *, pipeline: str = PIPELINE) -> Path:
    (directory / "reactor.yaml").write_text(MANIFEST)
    (directory / "pipeline.py").write_text(pipeline)
    return directory


def test_check_prints_what_is_not_used_and_the_gpus_that_are_missing(tmp_path: Path) -> None:
    outcome = reactor("check", ".", cwd=project(tmp_path))
    assert (outcome.code, outcome.out.splitlines()[0]) == (0, "dreamer  pipeline:MyModel"), outcome.err
    notice, warning = outcome.err.splitlines()
    assert notice == "a project for 3.x; not used here: model.version"
    assert warning.startswith("warning: the model asks for 99 GPUs, and ")


def test_variables_that_are_set_are_kept(tmp_path: Path) -> None:
    outcome = new_reactor(
        "check", ".", cwd=project(tmp_path), REACTOR_WEIGHTS_PATH="/mine", EXPECTED="/mine", STEPS="4"
    )
    assert outcome.code == 0, outcome.err


def test_the_hint_of_a_failed_import_names_the_requirements(tmp_path: Path) -> None:
    outcome = reactor("check", ".", cwd=project(tmp_path, pipeline="import nothing_of_this_name\n"))
    assert outcome.code == 2
    assert "install what build.python_requirements names: pip install -r reqs.txt" in outcome.err


def test_the_schema_of_a_class_that_needs_its_variables_when_it_is_imported(tmp_path: Path) -> None:
    outcome = reactor("schema", ".", cwd=project(tmp_path))
    assert outcome.code == 0, outcome.err


OF_PATH = PIPELINE.replace("    def inference", "    def load(self, config_path): ...\n\n    def inference")


def test_a_value_for_a_model_that_reads_a_file_needs_a_config_file(tmp_path: Path) -> None:
    outcome = reactor("check", ".", "--set", "steps=4", cwd=project(tmp_path, pipeline=OF_PATH))
    assert outcome.code == 2
    assert "steps can't be set: MyModel.load() takes the path of a config file, and the project has none" in outcome.err
    assert "add a config file, and name it in reactor.yaml" in outcome.err


def test_a_value_for_a_file_that_is_no_mapping_is_an_error(tmp_path: Path) -> None:
    (project(tmp_path, pipeline=OF_PATH) / "conf.bin").write_bytes(b"\xff\xfe")
    manifest = MANIFEST.replace("weights_path: w", "weights_path: w, config: conf.bin")
    (tmp_path / "reactor.yaml").write_text(manifest)
    assert reactor("check", ".", cwd=tmp_path).code == 0
    outcome = reactor("check", ".", "--set", "steps=4", cwd=tmp_path)
    assert (outcome.code, "conf.bin isn't UTF-8 text" in outcome.err) == (2, True), outcome.err


def test_values_for_a_config_file_that_is_no_yaml_are_refused_with_the_reason(tmp_path: Path) -> None:
    project(tmp_path)
    (tmp_path / "reactor.yaml").write_text("runtime: {import: pipeline:MyModel, config: my.toml}\n")
    (tmp_path / "my.toml").write_text("size = 96\n")
    outcome = reactor("check", "--set", "size=3", cwd=tmp_path)
    assert outcome.code == 2
    assert "error: my.toml is text, not a mapping" in outcome.err
    assert "hint: --set needs a YAML mapping: change the value in the file" in outcome.err


def test_a_checked_step_has_the_rate_that_load_has_set(tmp_path: Path) -> None:
    text = (
        "import numpy as np\nfrom reactor_runtime import *\n\n\nclass Picture(Output):\n    video: Video\n\n\n"
        "class MyModel(ReactorApp):\n    output: Picture\n\n    def load(self, config_path):\n"
        "        type(self).fps = 12.5\n\n    def generate(self, input):\n"
        "        return Picture(np.full((8, 8, 3), 90, np.uint8))\n"
    )
    project(tmp_path, pipeline=text)
    outcome = reactor("check", "--step", cwd=tmp_path)
    assert "  rate      12.5 fps; up to 10 frames queued" in outcome.out, outcome
