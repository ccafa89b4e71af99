"""How tests are distributed over the workers of a parallel run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

PAGES = "tests/page/"
# Files from this name on take half of the CPU time of all tests of pages.
LATER_PAGES = "tests/page/test_p"
# Each starts a Ray, whose processes have little time to start: one after the other.
RAY = ("tests/cluster/test_ray.py", "tests/cluster/test_requirements.py")
# So many long tests have the files that take half of the time of all that are no pages.
MANY = 20


def start_order(file: str, long_tests: Mapping[str, int]) -> tuple[int, int]:
    """Return the key that sorts the files: those of the longest units first, so that none is left over at the end.

    Tests of pages use the CPU all the time, and others often wait: the second half of the pages starts when about half
    of the others are done.
    """
    if file in RAY:
        return 0, 0
    if file.startswith(PAGES):
        return (3, 0) if file >= LATER_PAGES else (1, 0)
    return 2 if long_tests[file] >= MANY else 4, -long_tests[file]


class Scheduling(LoadFileScheduling):  # type: ignore[misc]  # it has no types
    """Run the tests of a file in one worker, the files with browsers in two, and those with Ray in one."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        # tests/conftest.py has sorted the files.
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if file in RAY:
            return "tests/cluster/ with Ray"
        if not file.startswith(PAGES):
            return file
        return f"{PAGES} {'later' if file >= LATER_PAGES else 'first'}"
