"""What the workflow `release` relies on: one version, its changes, and that only a start by hand publishes."""

from __future__ import annotations

import json
import re
import runpy
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


@pytest.fixture
def changes() -> Callable[[str, str], str]:
    function: Callable[[str, str], str] = runpy.run_path(str(ROOT / ".ci/changes.py"))["changes"]
    return function


def test_the_packages_and_the_templates_have_one_version() -> None:
    assert json.loads((ROOT / "clients/js/package.json").read_text(encoding="utf-8"))["version"] == VERSION
    requirements = (ROOT / "templates/_shared/requirements.txt").read_text(encoding="utf-8")
    assert re.findall(r"^reactor-live>=(.*)$", requirements, re.MULTILINE) == [VERSION]


@pytest.mark.parametrize("version", ["Unreleased", VERSION])
def test_the_changelog_has_the_changes_of_a_version(changes: Callable[[str, str], str], version: str) -> None:
    assert changes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version)


def test_the_changes_of_a_version_end_at_the_next_one(changes: Callable[[str, str], str]) -> None:
    text = "# Changelog\n\n## Unreleased\n\n## 1.10.0 - 2026-11-24\n\n### Added\n\n- One.\n\n## 1.1.0\n\n- Two.\n"
    assert changes(text, "1.10.0") == "### Added\n\n- One."
    assert changes(text, "1.1.0") == "- Two."


@pytest.mark.parametrize("version", ["Unreleased", "1.1", "2.0.0"])
def test_a_version_without_changes_is_not_released(changes: Callable[[str, str], str], version: str) -> None:
    with pytest.raises(ValueError, match="says nothing of"):
        changes("## Unreleased\n\n## 1.1.0\n\n- Two.\n", version)


def test_only_a_start_by_hand_publishes_and_all_else_runs_for_each_change() -> None:
    workflow: dict[Any, Any] = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8"))
    # YAML 1.1 reads `on` as true.
    assert set(workflow[True]) == {"push", "pull_request", "workflow_dispatch"}
    build, publish = workflow["jobs"]["build"], workflow["jobs"]["publish"]
    assert "if" not in build
    assert "github.event_name == 'workflow_dispatch'" in publish["if"]
    assert publish["needs"] == "build"
    assert workflow["permissions"] == {"contents": "read"}
