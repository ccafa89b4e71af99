"""The match of docs/seats.md, which the host starts."""

from __future__ import annotations

from pathlib import Path

from tests.cli.command import run_pytest
from tests.docs.snippets import one

MATCH = """
import pytest

from match import Match
from reactor_runtime import PipelineExecutor


def test_the_host_alone_starts_a_match_and_sets_its_length():
    with PipelineExecutor(Match) as ex:
        ex.connect()
        with pytest.raises(Exception, match="a match needs a client in each seat"):
            ex.send_event("set_running", running=True)
        second = ex.join()
        for name, value in (("running", True), ("seconds", 20)):
            with pytest.raises(Exception, match="only the host"):
                second.send_event(f"set_{name}", **{name: value})
        second.send_event("set_move", move=1)
        next(ex)
        assert ex.model.x == [24, 48]
        ex.send_event("set_seconds", seconds=10)
        ex.send_event("set_running", running=True)
        for _ in range(310):
            next(ex)
        assert ex.model.x == [24, (48 + 2 * 300) % 96]
        assert not ex.state.running
"""


def test_the_host_starts_the_match(tmp_path: Path) -> None:
    for title in ("duel.py", "match.py"):
        (tmp_path / title).write_text(one("seats.md", title).text)
    (tmp_path / "test_match.py").write_text(MATCH)
    outcome = run_pytest(tmp_path)
    assert outcome.code == 0, outcome.out
