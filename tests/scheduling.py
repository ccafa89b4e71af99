"""How tests are distributed over the workers of a parallel run."""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

PAGES = "tests/page/"
# Each starts a Ray, whose processes have little time to start: one after the other.
RAY = ("tests/cluster/test_ray.py", "tests/cluster/test_requirements.py")
WITH_RAY = "tests/cluster/ with Ray"
# So many workers run the tests of pages, with one browser each. Two would still be at it when the others have ended.
BROWSERS = 3


class Scheduling(LoadFileScheduling):  # type: ignore[misc]  # it has no types
    """Run the tests of a file in one worker, the files with browsers in few, and those with Ray in one, at first."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        # tests/conftest.py has sorted the files.
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return WITH_RAY if file in RAY else file

    def _assign_work_unit(self, node: WorkerController) -> None:
        has_browser = self.nodes.index(node) < BROWSERS

        def order(unit: str) -> tuple[bool, bool]:
            return unit.startswith(PAGES) != has_browser, unit != WITH_RAY

        self.workqueue.move_to_end(min(self.workqueue, key=order), last=False)
        super()._assign_work_unit(node)
