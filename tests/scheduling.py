"""How tests are distributed over the workers of a parallel run."""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

PAGES = "tests/page/"
# Each worker that runs tests of pages has one browser; two browsers keep two cores busy.
BROWSERS = 2


class Scheduling(LoadFileScheduling):  # type: ignore[misc]  # it has no types
    """Run the tests of a file in one worker, and the files with browsers in few workers, one after the other."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        # tests/conftest.py has sorted the files.
        config.option.loadscopereorder = False
        self._units: dict[str, str] = {}

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if not file.startswith(PAGES):
            return file
        return self._units.setdefault(file, f"{PAGES} {len(self._units) % BROWSERS}")
