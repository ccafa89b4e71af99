"""Modules of a project that a reload executes again, and what the old code finds meanwhile and after a failure."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from reactor_runtime.engine.reload.modules import Execution, ProjectModules, Source
from tests.timeouts import TIMEOUT_S


class Project:
    """Modules on disk, of which `entry` is the one with the model."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._modules = ProjectModules(folder)

    def write(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            (self._folder / name).parent.mkdir(exist_ok=True)
            (self._folder / name).write_text(text)

    def import_entry(self) -> None:
        self._modules.record()
        importlib.import_module("entry")

    def executed_again(self) -> Execution:
        return Execution(self._modules, self._modules.importing(self._modules.changed(), "entry"))

    def close(self) -> None:
        self._modules.close()
        for name in self._modules.sources:
            sys.modules.pop(name, None)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    monkeypatch.syspath_prepend(str(tmp_path))
    project = Project(tmp_path)
    yield project
    project.close()


@pytest.mark.parametrize(
    "plugin",
    [
        {"plugin/__init__.py": "from .part import LEVEL", "plugin/part.py": "LEVEL = {}"},
        {"plugin/__init__.py": "import other", "other.py": "import plugin\nLEVEL = {}"},
    ],
    ids=["package", "two modules that import each other"],
)
def test_a_module_that_importlib_has_imported_is_executed_again_with_the_model(
    project: Project, plugin: dict[str, str]
) -> None:
    project.write({"entry.py": "import importlib\nplugin = importlib.import_module('plugin')"})
    project.write({name: text.format(1) for name, text in plugin.items()})
    project.import_entry()
    project.write({name: text.format(2) for name, text in plugin.items()})
    assert "entry" in project.executed_again().old


def test_other_threads_find_the_old_modules_during_the_import(project: Project) -> None:
    old = "def level():\n    return 1"
    project.write({"entry.py": "import parts.part", "parts/__init__.py": "", "parts/part.py": old})
    project.import_entry()
    parts, found = sys.modules["parts"], []

    def run_old_code() -> None:
        found.append(parts.part.level())

    project.write({"parts/part.py": old.replace("1", "2")})
    with project.executed_again().importing():
        thread = threading.Thread(target=run_old_code)
        thread.start()
        thread.join(TIMEOUT_S)
        assert not hasattr(parts, "part")
        importlib.import_module("entry")
    assert found == [1]
    run_old_code()
    assert found == [1, 2]
    assert not hasattr(parts, "__getattr__")


def test_an_import_that_fails_restores_what_packages_had_for_its_modules(project: Project) -> None:
    project.write(
        {
            "entry.py": "import parts\nfrom other import part",
            "parts/part.py": "def part(): ...",
            "other/__init__.py": "",
        }
    )
    project.write({"parts/__init__.py": "from .part import part", "other/part.py": "from parts import part"})
    project.import_entry()
    parts, other = sys.modules["parts"], sys.modules["other"]
    before = parts.part, other.part
    project.write({"parts/part.py": "def part(:"})
    execution = project.executed_again()
    with execution.importing():
        assert not hasattr(other, "part")
        with pytest.raises(SyntaxError):
            importlib.import_module("entry")
        execution.undo()
    assert (parts.part, other.part) == before


def test_a_package_with_attributes_of_its_own_making_keeps_them(project: Project) -> None:
    package = "def __getattr__(name):\n    return name.upper()"
    project.write({"entry.py": "import parts.part", "parts/__init__.py": package, "parts/part.py": ""})
    project.import_entry()
    parts = sys.modules["parts"]
    project.write({"parts/part.py": "LEVEL = 1"})
    with project.executed_again().importing():
        importlib.import_module("entry")
        assert parts.lazy == "LAZY"
    assert parts.lazy == "LAZY"
    assert parts.part.LEVEL == 1


def test_a_new_module_of_an_import_that_fails_is_imported_again(project: Project) -> None:
    project.write({"entry.py": "import parts.part", "parts/__init__.py": "", "parts/part.py": ""})
    project.import_entry()
    project.write({"entry.py": "from parts import new\n1 // 0", "parts/new.py": "LEVEL = 1"})
    execution = project.executed_again()
    with execution.importing(), pytest.raises(ZeroDivisionError):
        importlib.import_module("entry")
    execution.undo()
    project.write({"entry.py": "from parts import new", "parts/new.py": "LEVEL = 2"})
    with project.executed_again().importing():
        assert importlib.import_module("entry").new.LEVEL == 2


def test_only_modules_whose_text_has_the_name_are_parsed(tmp_path: Path) -> None:
    modules = ProjectModules(tmp_path)
    files = {"entry": b"import part", "part": b"", "large": b"no Python"}
    modules.sources.update({name: Source(f"/{name}.py", data) for name, data in files.items()})
    assert modules.importing({"part"}, "entry") == {"part", "entry"}
