from __future__ import annotations

import time

import pytest

from reactor_cli.run_progress import RunProgress


@pytest.mark.parametrize(
    ("work", "total", "unit", "done", "lines"),
    [
        ("rendering", 10.0, "s", 2.5, ["rendering … 0 of 10 s", "rendering … 2.5 of 10 s, 15 s left"]),
        ("replaying", 918, "steps", 459, ["replaying … 0 of 918 steps", "replaying … 459 of 918 steps, 5 s left"]),
    ],
    ids=["seconds", "steps"],
)
def test_the_line_of_the_progress_has_the_time_left(
    work: str, total: float, unit: str, done: float, lines: list[str]
) -> None:
    progress = RunProgress(work, total, unit)
    now = time.monotonic()
    assert progress.line(now + 7.3).startswith("loading … 7 s")
    progress.begin_work()
    assert progress.line(now) == lines[0]
    progress.update(done)
    assert progress.line(now + 5.0) == lines[1]
