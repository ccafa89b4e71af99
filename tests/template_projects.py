"""Projects of the templates, and the modules that they import."""

from __future__ import annotations

import importlib.metadata
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

from reactor_cli.scaffold import find, templates, write

NAMES = [template.name for template in templates()]


def template_project(name: str, directory: Path) -> Path:
    """Write the project of a template, or skip the test where a package that the project requires is not installed."""
    project = directory / name
    write(find(name), project, name)
    required = re.findall(r"^[a-z][\w-]*", (project / "requirements.txt").read_text(), re.MULTILINE)
    installed = {distribution.name for distribution in importlib.metadata.distributions()}
    missing = [package for package in required if package not in installed]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed")
    return project


@contextmanager
def own_modules() -> Iterator[None]:
    """Forget the modules that are imported inside, and changes of the path, also where the test fails.

    Projects have modules of the same names.
    """
    path, modules = list(sys.path), set(sys.modules)
    try:
        yield
    finally:
        sys.path[:] = path
        for name in set(sys.modules) - modules:
            del sys.modules[name]


def forget_module(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the next import of a module be a new one, and forget that after the test too."""
    # The end of the test undoes this.
    monkeypatch.setitem(sys.modules, name, ModuleType(name))
    del sys.modules[name]
