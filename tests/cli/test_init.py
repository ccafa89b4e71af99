from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from reactor_cli.scaffold import Template, templates
from reactor_runtime.manifest import load
from tests.cli.command import Outcome, python, reactor
from tests.forks import ROOT

FILES = {
    "pipeline.py",
    "reactor.yaml",
    "config.yml",
    "requirements.txt",
    "README.md",
    "AGENTS.md",
    "tests/test_pipeline.py",
    "Dockerfile",
    ".dockerignore",
    ".gitignore",
}


def files_below(directory: Path) -> set[str]:
    return {path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file()}


def files_shown(outcome: Outcome) -> set[str]:
    """Return the paths in the tree that init printed."""
    shown, parents = set(), [""]
    for branches, name in re.findall(r"^([│ ├└─]+)── ?(\S+)", outcome.out, re.MULTILINE):
        del parents[len(branches) // 4 + 1 :]
        if name.endswith("/"):
            parents.append(parents[-1] + name)
        else:
            shown.add(parents[-1] + name)
    return shown


def test_init_writes_the_tree_it_prints_and_prints_the_next_commands(tmp_path: Path) -> None:
    outcome = reactor("init", "my-model", cwd=tmp_path)
    assert (outcome.code, outcome.err) == (0, "")
    assert files_below(tmp_path / "my-model") == files_shown(outcome) == FILES
    assert outcome.out.endswith("\n\nNext:\n  cd my-model\n  reactor run\n")


def test_the_default_name_is_my_model(tmp_path: Path) -> None:
    assert reactor("init", cwd=tmp_path).code == 0
    assert load(tmp_path / "my-model").name == "my-model"


def test_manifest_and_readme_have_the_name(tmp_path: Path) -> None:
    assert reactor("init", "Lake_2", cwd=tmp_path).code == 0
    manifest = load(tmp_path / "Lake_2")
    assert (manifest.name, manifest.model, manifest.class_name) == ("Lake_2", "pipeline:MyModel", "MyModel")
    assert (tmp_path / "Lake_2" / "README.md").read_text().startswith("# Lake_2\n")
    assert not any("PROJECT_NAME" in path.read_text() for path in (tmp_path / "Lake_2").rglob("*.*") if path.is_file())


def test_a_project_may_be_elsewhere_and_have_a_dot_in_its_name(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    for given, name in (("../my.model", "my-model"), (f"{tmp_path}/lakes/Lake_3", "Lake_3"), ("sub/pond/", "pond")):
        outcome = reactor("init", given, cwd=here)
        assert (outcome.code, outcome.err) == (0, "")
        assert f"  cd {given}\n" in outcome.out
        assert load(here / given).name == name
    assert reactor("init", "../3d", cwd=here).code == 2
    assert reactor("init", "", cwd=here).code == 2
    assert not (tmp_path / "3d").exists()


@pytest.mark.parametrize("given", [".", "./"])
def test_a_dot_is_this_directory(tmp_path: Path, given: str) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "lake").mkdir()
    assert reactor("init", given, cwd=tmp_path / "lake").code == 0
    assert load(tmp_path / "lake").name == "lake"


def test_the_config_has_the_documented_values(tmp_path: Path) -> None:
    reactor("init", "m", cwd=tmp_path)
    assert yaml.safe_load((tmp_path / "m" / "config.yml").read_text()) == {"width": 640, "height": 480, "chunk_size": 4}


def test_here_uses_the_name_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "notes.txt").write_text("mine")
    outcome = reactor("init", "--here", cwd=tmp_path / "lake")
    assert outcome.code == 0
    assert outcome.out.startswith("./\n")
    assert outcome.out.endswith("\n\nNext:\n  reactor run\n")
    assert files_below(tmp_path / "lake") == FILES | {"notes.txt"}
    assert load(tmp_path / "lake").name == "lake"


def test_here_needs_a_name_if_that_of_the_directory_is_invalid(tmp_path: Path) -> None:
    (tmp_path / "2 lakes").mkdir()
    outcome = reactor("init", "--here", cwd=tmp_path / "2 lakes")
    assert outcome.code == 2
    assert "must start with a letter" in outcome.err
    assert reactor("init", "lakes", "--here", cwd=tmp_path / "2 lakes").code == 0


def test_existing_files_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "pipeline.py").write_text("mine")
    for arguments, cwd in ((["init", "m"], tmp_path), (["init", "--here"], tmp_path / "m")):
        outcome = reactor(*arguments, cwd=cwd)
        assert (outcome.code, outcome.out) == (2, "")
        assert "pipeline.py" in outcome.err
    assert files_below(tmp_path / "m") == {"pipeline.py"}
    assert (tmp_path / "m" / "pipeline.py").read_text() == "mine"


def test_force_replaces_files(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "pipeline.py").write_text("mine")
    assert reactor("init", "m", "--force", cwd=tmp_path).code == 0
    assert "class MyModel" in (tmp_path / "m" / "pipeline.py").read_text()


def test_an_invalid_name_writes_nothing(tmp_path: Path) -> None:
    outcome = reactor("init", "my model", cwd=tmp_path)
    assert outcome.code == 2
    assert "a valid name: `reactor init my-model`" in outcome.err
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_the_system_is_reported(tmp_path: Path) -> None:
    (tmp_path / "m").symlink_to(tmp_path / "m")
    outcome = reactor("init", "m", "--force", cwd=tmp_path)
    assert outcome.code == 2
    assert outcome.err.startswith("error: ")


def test_the_templates_are_listed(tmp_path: Path) -> None:
    outcome = reactor("init", "--list", cwd=tmp_path)
    assert outcome.code == 0
    assert re.fullmatch(r"(\w+  .+\n)+", outcome.out)
    assert outcome.out.startswith("pipeline  ")
    assert outcome.out.count("\n") == len(templates())


def test_another_template_is_written(tmp_path: Path) -> None:
    outcome = reactor("init", "lake", "-t", "world", cwd=tmp_path)
    assert (outcome.code, outcome.err) == (0, "")
    assert files_below(tmp_path / "lake") == files_shown(outcome) > {"landscape.py", "requirements.txt", ".gitignore"}


@pytest.mark.parametrize("template", templates(), ids=lambda template: template.name)
def test_a_template_with_packages_prints_their_installation(template: Template, tmp_path: Path) -> None:
    outcome = reactor("init", "m", "-t", template.name, cwd=tmp_path)
    has_own = (ROOT / "templates" / template.name / "requirements.txt").exists()
    assert has_own == template.needs_more == ("\n  pip install -r requirements.txt\n" in outcome.out)


def test_a_project_named_like_a_template_gets_a_hint(tmp_path: Path) -> None:
    outcome = reactor("init", "world", cwd=tmp_path)
    assert outcome.code == 0
    assert "reactor init NAME -t world" in outcome.err


def test_an_unknown_template_writes_nothing(tmp_path: Path) -> None:
    outcome = reactor("init", "m", "--template", "pipelin", cwd=tmp_path)
    assert outcome.code == 2
    assert 'did you mean "pipeline"?' in outcome.err
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("scaffold")
    assert reactor("init", "my-model", cwd=directory).code == 0
    return directory / "my-model"


SHAPE = """
from pipeline import MyModel, MyState
model = MyModel()
model.load({})
model.state = MyState()
batch = next(model.inference()).main_video
print(*batch.shape, batch.dtype)
"""


def test_a_step_makes_frames_of_the_configured_size(project: Path) -> None:
    outcome = python("-c", SHAPE, cwd=project, PYTHONPATH=f"{project}:{Path(__file__).resolve().parents[2]}")
    assert outcome.out.split() == ["4", "480", "640", "3", "uint8"]
