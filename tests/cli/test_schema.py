from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import python, reactor
from tests.openapi import flaws
from tests.server.running import serving

NOISY = """
import atexit, os, subprocess, sys, threading
print("imported")
sys.stdout.write("written")
os.write(1, b"from C")
subprocess.run(["echo", "from a child"])
atexit.register(print, "at exit")
arguments = sys.argv[1:]
assert not arguments, arguments
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    assert reactor("init", "my-model", cwd=tmp_path).code == 0
    return tmp_path / "my-model"


def test_only_the_document_is_printed(project: Path) -> None:
    outcome = reactor("schema", cwd=project)
    assert (outcome.code, outcome.err) == (0, "")
    document = json.loads(outcome.out)
    assert flaws(document) == []
    assert document["info"]["title"] == "my-model"
    assert "Event.set_brightness" in document["components"]["schemas"]


def test_prints_of_the_model_go_to_stderr(project: Path) -> None:
    quiet = reactor("schema", cwd=project).out
    source = (project / "pipeline.py").read_text()
    (project / "pipeline.py").write_text(source.replace("import numpy", f"{NOISY}\nimport numpy", 1))
    outcome = reactor("schema", cwd=project)
    assert (outcome.code, outcome.out) == (0, quiet)
    for text in ("imported", "written", "from C", "from a child", "at exit"):
        assert text in outcome.err


def test_load_is_not_called(project: Path) -> None:
    with (project / "pipeline.py").open("a") as file:
        file.write("\n\ndef load(self, config):\n    raise OSError\n\n\nMyModel.load = load\n")
    assert reactor("schema", cwd=project).code == 0


MADE = """
import numpy as np
from reactor_runtime.interface import InputState, Output, ReactorPipeline, Video


class Player(InputState):
    move: int = 0


class World(InputState):
    speed: int = 1


class MyModel(ReactorPipeline):
    state: World
    seat_state: Player

    def load(self, config):
        self.seats = 2
        self.views = Output.make(p1=Video, p2=Video)

    def inference(self):
        while True:
            yield self.views(p1=np.full((8, 8, 3), 9, np.uint8), p2=np.full((8, 8, 3), 9, np.uint8))
"""


def test_after_a_first_step_there_are_the_tracks_and_the_seats_of_load(project: Path) -> None:
    (project / "pipeline.py").write_text(MADE)
    (project / "reactor.yaml").write_text("model: pipeline:MyModel\n")
    of_class, loaded = (
        reactor("schema", "--format", "typescript", *step, cwd=project).out for step in ((), ("--step",))
    )
    assert "shown: never;" in of_class
    assert 'shown: "p1" | "p2";' in loaded
    # A client of either is up to date.
    assert of_class.replace("shown: never", 'shown: "p1" | "p2"') == loaded
    document = json.loads(reactor("schema", "--step", cwd=project).out)
    assert document["components"]["schemas"]["Event.set_speed"]
    assert flaws(document) == []


def test_the_document_is_written_to_a_file(project: Path) -> None:
    outcome = reactor("schema", "my-model", "--out", "api.json", cwd=project.parent)
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")
    assert (project.parent / "api.json").read_text() == reactor("schema", cwd=project).out


def test_a_file_that_cannot_be_written_is_an_error(project: Path) -> None:
    outcome = reactor("schema", "--out", "no/api.json", cwd=project)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == (
        "error: no/api.json can't be written: No such file or directory\nhint: make the directory first: mkdir -p no\n"
    )


def test_an_error_leaves_stdout_empty(project: Path) -> None:
    (project / "pipeline.py").write_text("print('half way')\nraise ValueError('no')\n")
    outcome = reactor("schema", cwd=project)
    assert (outcome.code, outcome.out) == (2, "")
    assert "error: importing pipeline failed: ValueError: no\n  --> pipeline.py:2:1" in outcome.err


@pytest.mark.parametrize(("format", "file"), [("python", "my_model.py"), ("typescript", "m.ts"), ("openapi", "a.json")])
def test_check_fails_and_shows_the_difference_when_the_model_has_changed(project: Path, format: str, file: str) -> None:
    assert reactor("schema", "--format", format, "--out", file, cwd=project).code == 0
    same = reactor("schema", "--format", format, "--check", file, cwd=project)
    assert (same.code, same.out, same.err) == (0, "", "")
    source = (project / "pipeline.py").read_text()
    # Of another length: Python may take a file of the same size, written in the same second, for the compiled one.
    (project / "pipeline.py").write_text(source.replace('name="splash"', 'name="big_splash"'))
    written = (project / file).read_text()
    changed = reactor("schema", "--format", format, "--check", file, cwd=project)
    assert changed.code == 1
    assert any(line.startswith("-") and "splash" in line for line in changed.out.splitlines())
    assert any(line.startswith("+") and "big_splash" in line for line in changed.out.splitlines())
    assert f"{file} is out of date: reactor schema --format {format} --out {file}" in changed.err
    assert (project / file).read_text() == written


def test_check_of_a_missing_file_is_an_error(project: Path) -> None:
    outcome = reactor("schema", "--check", "none.py", "--format", "python", cwd=project)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("error: none.py can't be read: No such file or directory\nhint: --out writes it")


CALLS = """
import asyncio, sys
from my_model import BlockingMyModel, MyModel
from reactor_runtime.client import connect


async def main():
    async with connect(sys.argv[1]) as session:
        model = MyModel(session)
        await model.set_brightness(brightness=0.5)
        await model.splash(x=0.1)
        print(model.state["brightness"])


asyncio.run(main())
with connect(sys.argv[1]) as session:
    BlockingMyModel(session).set_brightness(brightness=1.5)
    print(session.state["brightness"])
"""


def test_the_python_module_controls_its_model(project: Path) -> None:
    assert reactor("schema", "--format", "python", "--out", "my_model.py", cwd=project).code == 0
    with serving(project, "--set", "width=96", "--set", "height=64") as server:
        outcome = python("-c", CALLS, f"http://127.0.0.1:{server.port}", cwd=project)
    assert (outcome.code, outcome.out, outcome.err) == (0, "0.5\n1.5\n", "")


def test_check_and_out_exclude_each_other(project: Path) -> None:
    outcome = reactor("schema", "--check", "a.json", "--out", "b.json", cwd=project)
    assert outcome.code == 2
    assert "--check writes nothing" in outcome.err
    assert not (project / "b.json").exists()
