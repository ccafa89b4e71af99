"""How tests are distributed over the workers of a parallel run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

PAGES = "tests/page/"
# Each starts a Ray, whose processes have little time to start: one after the other.
RAY = ("tests/cluster/test_ray.py", "tests/cluster/test_requirements.py")
# Each worker that runs tests of pages has one browser; two browsers keep two cores busy.
BROWSERS = 2


def start_order(file: str, long_tests: Mapping[str, int]) -> tuple[bool, bool, int]:
    """Return the key that sorts the files: the longest unit first, so that no worker is left with it at the end."""
    return file not in RAY, not file.startswith(PAGES), -long_tests[file]


class Scheduling(LoadFileScheduling):  # type: ignore[misc]  # it has no types
    """Run the tests of a file in one worker, the files with browsers in few, and those with Ray in one."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        # tests/conftest.py has sorted the files.
        config.option.loadscopereorder = False
        self._units: dict[str, str] = {}

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if file in RAY:
            return "tests/cluster/ with Ray"
        if not file.startswith(PAGES):
            return file
        return self._units.setdefault(file, f"{PAGES} {len(self._units) % BROWSERS}")
