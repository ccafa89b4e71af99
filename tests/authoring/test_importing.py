from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from reactor_runtime.authoring import importing
from reactor_runtime.errors import ClassError

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


def refused(project: Path, module: str = "pipeline", name: str = "MyModel") -> ClassError:
    with pytest.raises(ClassError) as raised:
        importing.import_class(project, module, name)
    return raised.value


def write(project: Path, text: str, name: str = "pipeline.py") -> None:
    (project / name).write_text(text)


def test_the_class_is_found_in_the_project_first(project: Path) -> None:
    write(project, GOOD, "json5_like.py")
    assert importing.import_class(project, "json5_like", "MyModel").__name__ == "MyModel"
    assert sys.path[0] == str(project)


def test_a_missing_module_is_named_with_the_nearest_there_is(project: Path) -> None:
    write(project, GOOD)
    error = refused(project, "pipelin")
    assert "'pipelin'" in error.message
    assert error.hint == "did you mean pipeline?"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (GOOD, "pipeline has: MyModel"),
        ("from reactor_runtime import ReactorPipeline\n", "derive yours from it: class MyModel(ReactorPipeline)"),
    ],
    ids=["beside a model", "alone"],
)
def test_a_class_of_ours_is_no_model_and_no_code_of_ours_is_shown(project: Path, text: str, hint: str) -> None:
    write(project, text)
    error = refused(project, name="ReactorPipeline")
    assert (error.message, error.hint) == ("pipeline:ReactorPipeline is Reactor's own class, not a model", hint)
    assert error.where is None


def test_a_missing_package_and_a_missing_module_give_different_errors(project: Path) -> None:
    write(project, "import os\nimport not_installed_at_all\n")
    error = refused(project)
    assert "importing pipeline failed" in error.message
    assert "pip install not_installed_at_all" in error.hint
    assert error.where is not None
    assert (error.where.line, error.where.text) == (2, "import not_installed_at_all")


def test_a_module_that_raises_points_at_the_author_s_line(project: Path) -> None:
    write(project, "import json\n\ndef weights():\n    return json.loads('{')\n\nweights()\n")
    error = refused(project)
    assert "JSONDecodeError" in error.message
    assert error.where is not None
    assert (Path(error.where.file).name, error.where.line) == ("pipeline.py", 4)
    assert [place.line for place in error.trail] == [6, 4]
    assert "json/decoder.py" in error.details


def test_a_module_that_exits_is_an_error_too(project: Path) -> None:
    write(project, "import sys\nsys.exit('set MODEL_HOME')\n")
    assert "SystemExit: set MODEL_HOME" in refused(project).message


def test_a_syntax_error_has_line_column_and_text(project: Path) -> None:
    write(project, "x = 1\ndef f(:\n    pass\n")
    error = refused(project)
    assert error.message.startswith("SyntaxError: ")
    assert error.where is not None
    assert (error.where.line, error.where.column, error.where.text) == (2, 7, "def f(:")


def test_a_file_with_null_bytes_is_named(project: Path) -> None:
    write(project, "x = 1\x00\n")
    error = refused(project)
    assert error.where is not None
    assert error.where.file == str(project / "pipeline.py")


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"pipeline.py": "from .other import x\n", "other.py": "x = 1\n"}, "without the dot"),
        ({"pipeline.py": "from other import x\ny = 1\n", "other.py": "from pipeline import y\n"}, "import each other"),
        (
            {"pipeline.py": "import reactor_runtime.pipelines\n"},
            "reactor_runtime is installed, but has no module pipel",
        ),
    ],
    ids=["relative", "circular", "submodule"],
)
def test_an_import_that_fails_gets_a_hint(project: Path, files: dict[str, str], words: str) -> None:
    for name, text in files.items():
        write(project, text, name)
    assert words in refused(project).hint


def test_a_module_of_python_s_is_not_taken_for_the_project_s(project: Path) -> None:
    write(project, GOOD)
    error = refused(project, "random")
    assert re.search(r"module 'random', which is not the project's but .*random\.py", error.message)
    assert error.hint == "the folder has: pipeline"
    assert "built into Python" in refused(project, "sys").message


def test_a_file_with_the_name_of_another_module_is_to_be_renamed(project: Path) -> None:
    write(project, GOOD, "random.py")
    assert refused(project, "random").hint == "rename random.py: the name is taken"


def test_an_error_whose_str_fails_is_still_named(project: Path) -> None:
    write(project, "class Odd(Exception):\n    def __str__(self):\n        return self.x\n\nraise Odd\n")
    assert "Odd: its message can't be shown" in refused(project).message


def test_a_missing_class_lists_those_that_would_do(project: Path) -> None:
    write(project, GOOD)
    assert refused(project, name="MyModell").hint == "did you mean MyModel?"
    assert "has: MyModel" in refused(project, name="Another").hint


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("MyModel = 3\n", "pipeline:MyModel is int, not a model"),
        ("class MyModel:\n    pass\n", "pipeline:MyModel is a class, not a model"),
    ],
)
def test_a_class_that_is_no_model_is_an_error_with_the_reason(project: Path, text: str, words: str) -> None:
    write(project, text)
    error = refused(project)
    assert error.message == words
    assert "ReactorPipeline" in error.hint


def test_a_wrong_declaration_points_at_its_line(project: Path) -> None:
    write(project, GOOD.replace("    pass\n", "    x: float = 'no'\n"))
    error = refused(project)
    assert error.message == 'State.x: default: "no" is not a number'
    assert error.where is not None
    assert error.where.text == "    x: float = 'no'"
    assert error.trail == ()


def test_frames_of_python_itself_are_not_the_author_s(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)  # where a relative name, as of a frozen module, would lie in the project
    write(project, "import other\n")
    write(project, "1 / 0\n", "other.py")
    assert [Path(place.file).name for place in refused(project).trail] == ["pipeline.py", "other.py"]
