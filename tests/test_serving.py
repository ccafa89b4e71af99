"""`serve`: the project and the options of a class, and a script that serves its own class."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from reactor_runtime import serve
from reactor_runtime.authoring.importing import import_class
from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.errors import ClassError, ManifestError, UsageError
from reactor_runtime.serving import manifest_of
from tests.processes import ended_after
from tests.server.running import RunningServer, environment
from tests.timeouts import TIMEOUT_S

MODEL = """
import numpy as np
from reactor_runtime import InputState, Output, ReactorPipeline, Video, serve

class MyOutput(Output):
    main_video: Video

class MyState(InputState):
    level: int = 3

class MyModel(ReactorPipeline):
    state: MyState

    def load(self, config):
        print("the level is", config["train"]["level"])

    def inference(self):
        while True:
            yield np.zeros((32, 48, 3), np.uint8)
"""


@contextmanager
def imported(project: Path, name: str, text: str) -> Iterator[Any]:
    """Import a module of a project as a program does."""
    file = project.joinpath(*name.split(".")).with_suffix(".py")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    before = set(sys.modules)
    try:
        yield import_class(project, name, "MyModel")
    finally:
        sys.path.remove(str(project))
        for each in set(sys.modules) - before:
            if each.startswith("served_"):
                del sys.modules[each]


def test_the_project_of_a_class_is_the_directory_of_its_file(tmp_path: Path) -> None:
    with imported(tmp_path, "served_alone", MODEL) as model:
        manifest = manifest_of(model)
    assert (manifest.project, manifest.model) == (tmp_path, "served_alone:MyModel")
    assert (manifest.name, manifest.is_named, manifest.config_path) == ("my-model", False, None)


def test_the_project_of_a_class_in_a_package_holds_the_package(tmp_path: Path) -> None:
    with imported(tmp_path, "served_package.below.model", MODEL) as model:
        assert manifest_of(model).project == tmp_path


def test_a_manifest_beside_the_class_is_read_and_its_model_replaced(tmp_path: Path) -> None:
    (tmp_path / "config.yml").write_text("width: 640\n")
    (tmp_path / "reactor.yaml").write_text("model: other:Other\nconfig: config.yml\n")
    with imported(tmp_path, "served_manifest", MODEL) as model:
        manifest = manifest_of(model)
        assert (manifest.model, manifest.name) == ("served_manifest:MyModel", "my-model")
        assert manifest.config_path == tmp_path / "config.yml"
        (tmp_path / "reactor.yaml").write_text("model: other:Other\nnmae: x\n")
        with pytest.raises(ManifestError, match='unknown key "nmae"'):
            manifest_of(model)


def test_a_class_that_no_other_process_can_import_is_refused() -> None:
    class Local(Model):
        pass

    noted = type("Noted", (Model,), {"__module__": "a_notebook", "__qualname__": "Noted"})

    with pytest.raises(ClassError, match="not at the top level of a file"):
        serve(Local)
    with pytest.raises(ClassError, match="can't import a class of a notebook"):
        serve(noted)


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(ClassError, match="is not a class of a model"):
        serve(int)  # type: ignore[arg-type]  # the mistake is the test


async def test_serving_where_an_event_loop_runs_is_refused(tmp_path: Path) -> None:
    with imported(tmp_path, "served_loop", MODEL) as model, pytest.raises(UsageError, match="as in a notebook"):
        serve(model)


def test_a_wrong_option_is_reported_as_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with imported(tmp_path, "served_option", MODEL) as model, pytest.raises(SystemExit) as ended:
        serve(model, prot=9000)  # type: ignore[call-arg]  # a program that is not checked
    assert ended.value.code == 2
    assert "there is no option prot\nhint: did you mean port?" in capsys.readouterr().err


def test_a_script_serves_its_own_class_without_a_guard(tmp_path: Path) -> None:
    script = MODEL + 'serve(MyModel, port=0, set={"train": {"level": 7}})\nprint("after", __name__)\n'
    (tmp_path / "my_model.py").write_text(script)
    output = tmp_path / "output.log"
    with output.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "my_model.py"],
            cwd=tmp_path,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    with ended_after(process):
        server = RunningServer(process, output)
        server.wait_for("ready in")
        assert "the level is 7" in server.log
        assert server.get("/health")[0] == 200
        server.interrupt()
        assert process.wait(TIMEOUT_S) == 0
    assert server.log.count("after my_model\n") == server.log.count("after __main__\n") == 1
