"""Import the modules of examples, which have the same names."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

import pytest

from tests.forks import ROOT


def import_from(example: str, name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import a module of an example anew, and forget it after the test."""
    monkeypatch.syspath_prepend(ROOT / "examples" / example)
    # The end of the test undoes this.
    monkeypatch.setitem(sys.modules, name, ModuleType(name))
    del sys.modules[name]
    return importlib.import_module(name)
