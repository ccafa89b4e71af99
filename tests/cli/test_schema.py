from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import reactor
from tests.openapi import flaws

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


def test_the_document_is_all_that_is_printed(project: Path) -> None:
    outcome = reactor("schema", cwd=project)
    assert (outcome.code, outcome.err) == (0, "")
    document = json.loads(outcome.out)
    assert flaws(document) == []
    assert document["info"]["title"] == "my-model"
    assert "Event.set_brightness" in document["components"]["schemas"]


def test_what_the_model_prints_stays_out_of_it(project: Path) -> None:
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


def test_it_may_be_written_to_a_file(project: Path) -> None:
    outcome = reactor("schema", "my-model", "--out", "api.json", cwd=project.parent)
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")
    assert (project.parent / "api.json").read_text() == reactor("schema", cwd=project).out


def test_a_file_that_cannot_be_written_is_explained(project: Path) -> None:
    outcome = reactor("schema", "--out", "no/api.json", cwd=project)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == "error: no/api.json can't be written: No such file or directory\n"


def test_a_fault_leaves_stdout_empty(project: Path) -> None:
    (project / "pipeline.py").write_text("print('half way')\nraise ValueError('no')\n")
    outcome = reactor("schema", cwd=project)
    assert (outcome.code, outcome.out) == (2, "")
    assert "error: importing pipeline failed: ValueError: no\n  --> pipeline.py:2:1" in outcome.err
