from __future__ import annotations

import pytest

from reactor_cli.commands.down import report_removed
from reactor_runtime.errors import ReactorError


@pytest.mark.parametrize(
    ("found", "line"), [(0, "demo: there were no workers"), (1, "demo: 1 worker ended"), (3, "demo: 3 workers ended")]
)
def test_the_workers_that_have_ended_are_counted(found: int, line: str) -> None:
    assert report_removed("demo", found, found) == line


def test_workers_that_have_not_ended_are_an_error() -> None:
    with pytest.raises(ReactorError, match="demo: 1 of 3 workers ended") as failed:
        report_removed("demo", 3, 1)
    assert failed.value.exit_code == 1
