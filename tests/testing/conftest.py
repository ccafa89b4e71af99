from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.testing.projects import Project


@pytest.fixture(scope="module", autouse=True)
def few_objects() -> None:
    """Exclude what other tests have made from the searches of reloads and tests for models, which take 0.1 s each."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Project]:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    yield Project(tmp_path, f"reloaded_{abs(hash(request.node.name))}")
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
