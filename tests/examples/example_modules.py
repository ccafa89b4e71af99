"""Import the modules of examples, which have the same names."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest

from tests.forks import ROOT
from tests.template_projects import forget_module


def import_from(example: str, name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import a module of an example anew, and forget it after the test."""
    monkeypatch.syspath_prepend(ROOT / "examples" / example)
    forget_module(name, monkeypatch)
    return importlib.import_module(name)
