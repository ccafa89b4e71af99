"""The build hook of pyproject.toml: a package gets the bundle of the page, if `.ci/package` has built it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUILT = "clients/js/bundle"
SERVED = "reactor_runtime/server/bundle"


class BundleHook(BuildHookInterface[Any]):
    """Add the bundle to the wheel where the server looks for it, and to the sdist, of which the wheel is built."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the folder, unless there is none or the installation is editable: that serves the modules."""
        folder = Path(self.root, BUILT)
        if folder.is_dir() and version != "editable":
            build_data["force_include"][str(folder)] = SERVED if self.target_name == "wheel" else BUILT
