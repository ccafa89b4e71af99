"""Print what CHANGELOG.md says of the version in pyproject.toml; with --unreleased of the next one."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def changes(changelog: str, version: str) -> str:
    """Return the text below the heading of a version; raise ValueError if there is none, or nothing below it."""
    heading = rf"^## {re.escape(version)}(?: [^\n]*)?\n"
    found = re.search(rf"{heading}(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if found is None or not found[1].strip():
        raise ValueError(f"CHANGELOG.md says nothing of {version}: rename 'Unreleased' to '{version} - DATE'")
    return found[1].strip()


if __name__ == "__main__":
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version = "Unreleased" if "--unreleased" in sys.argv else project["version"]
    try:
        sys.stdout.write(changes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version) + "\n")
    except ValueError as error:
        sys.exit(str(error))
