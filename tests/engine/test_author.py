from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.importing import import_class
from reactor_runtime.authoring.model_config import ModelConfig, config_of
from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.distributed.errors import RunnerUnhealthy
from reactor_runtime.distributed.owner import Ranks, RunnerOwner, current_owner, owned_by
from reactor_runtime.engine import author
from reactor_runtime.errors import ConfigError, LoadError
from reactor_runtime.interface import InputState, ReactorPipeline

GOOD = """
from reactor_runtime import InputState, Output, ReactorPipeline, Video

class Out(Output):
    video: Video

class State(InputState):
    pass

class MyModel(ReactorPipeline):
    state: State

    def inference(self):
        yield None
"""


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    path, modules = list(sys.path), set(sys.modules)
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def write(project: Path, text: str, name: str = "pipeline.py") -> None:
    (project / name).write_text(text)


def model(project: Path, load: str) -> Model:
    write(project, GOOD + f"\n    def load(self, config):\n        {load}\n")
    found = import_class(project, "pipeline", "MyModel")
    return author.make_model(Contract.of(found), {}, project)


def test_an_exception_of_load_has_the_author_s_line(project: Path) -> None:
    with pytest.raises(LoadError) as raised:
        author.call_load(model(project, "open(config['weights'])"), {}, project)
    error = raised.value
    assert error.message == "load() failed: KeyError: 'weights'"
    assert error.where is not None
    assert error.where.text == "        open(config['weights'])"
    assert "reactor_runtime" not in error.details


def test_an_exception_names_the_values_of_the_config_file_in_its_expression(project: Path) -> None:
    write(project, "model: pipeline:MyModel\nconfig: config.yml\n", "reactor.yaml")
    write(project, "steps: 4\nwidth: wide\n", "config.yml")
    made = model(project, "self.width = int(config['width'])")
    with pytest.raises(LoadError) as raised:
        author.call_load(made, {"steps": 4, "width": "wide"}, project)
    assert raised.value.hint == "width is at config.yml:2"
    with pytest.raises(ValueError) as in_author:
        made.load({"steps": 4, "width": "wide"})
    assert author.session_failure(in_author.value, project).hint == "width is at config.yml:2"


def test_load_that_exits_is_an_error_too(project: Path) -> None:
    with pytest.raises(LoadError, match="SystemExit: 3"):
        author.call_load(model(project, "raise SystemExit(3)"), {}, project)


def test_an_exception_of_init_is_a_load_error(project: Path) -> None:
    write(project, GOOD + "\n    def __init__(self):\n        raise OSError('no device')\n")
    found = import_class(project, "pipeline", "MyModel")
    with pytest.raises(LoadError, match="making MyModel failed: OSError: no device"):
        author.make_model(Contract.of(found), {}, project)


def test_an_exception_that_ends_a_session_has_the_author_s_line(project: Path) -> None:
    made = model(project, "self.weights")
    with pytest.raises(AttributeError) as raised:
        made.load({})
    failure = author.session_failure(raised.value, project)
    assert failure.message.startswith("the model failed: AttributeError")
    assert failure.where is not None
    assert failure.where.text == "        self.weights"


BLOCKS = """
from reactor_runtime import VideoModel, model

@model("blocks", config="blocks.yml")
class MyModel(VideoModel):
    def __init__(self, config):
        self.config = config

    def start_session(self):
        pass
"""


def test_a_block_model_gets_its_own_config_with_the_project_s_laid_over_it(project: Path) -> None:
    write(project, BLOCKS)
    write(project, "width: 3\nheight: 4\n", "blocks.yml")
    found = import_class(project, "pipeline", "MyModel")
    made: Any = author.make_model(Contract.of(found), config_of(found, {"width": 9}, project), project)
    assert made.config == {"width": 9, "height": 4}


def test_a_config_of_a_block_model_that_is_missing_is_a_config_error(project: Path) -> None:
    write(project, BLOCKS)
    with pytest.raises(ConfigError, match=r"blocks\.yml doesn't exist"):
        config_of(import_class(project, "pipeline", "MyModel"), {}, project)


class Owner:
    def on_runner_start(self, ranks: Ranks) -> None: ...

    def on_runner_lost(self, error: RunnerUnhealthy) -> None: ...


class Starting(ReactorPipeline):
    state: InputState
    owner: RunnerOwner | None = None

    async def load(self, _: dict[str, Any]) -> None:
        self.owner = current_owner()

    def inference(self) -> Iterator[None]:
        yield None


@pytest.mark.parametrize("owner", [Owner(), None], ids=["engine", "test"])
async def test_runners_of_an_async_load_in_a_running_loop_have_the_owner(owner: Owner | None) -> None:
    made = Starting()
    with contextlib.nullcontext() if owner is None else owned_by(owner):
        author.run_load(made, ModelConfig({}, {}))
    assert made.owner is owner
