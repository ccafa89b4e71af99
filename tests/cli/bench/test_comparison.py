from __future__ import annotations

import dataclasses
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from reactor_cli import console
from reactor_cli.bench.client import settable_fields
from reactor_cli.bench.revision import checked_out
from reactor_cli.bench.significance import p_value, rounds_needed
from reactor_cli.bench.tables import comparison, describe_difference, figures_table
from reactor_runtime.errors import UsageError
from tests.cli.bench.test_figures import GOOD


def test_a_shifted_series_differs_and_the_same_one_does_not() -> None:
    source = random.Random(4)
    first = [source.gauss(20, 2) for _ in range(40)]

    assert p_value(first, [source.gauss(24, 2) for _ in range(40)]) < 1e-6
    assert p_value(first, [source.gauss(20, 2) for _ in range(40)]) > 0.05
    assert p_value(first, first) == 1
    assert p_value([5.0] * 10, [5.0] * 10) == 1


def test_the_chance_is_that_of_published_tables() -> None:
    # Two groups of eight whose U is 13: the two-sided 5 % limit of the tables of Mann and Whitney.
    first, second = [1, 2, 3, 4, 5, 6, 13, 14], [7, 8, 9, 10, 11, 12, 15, 16]

    assert p_value(first, second) == pytest.approx(0.05, abs=0.01)


def test_few_values_prove_nothing() -> None:
    assert p_value([1, 2, 3], [100, 200, 300, 400]) == 1


@pytest.mark.parametrize(
    ("first", "second", "rounds", "needed"),
    [
        (20, 20, 1, None),
        (6, 6, 1, None),
        (5, 5, 1, 2),
        (2, 2, 1, 3),
        (6, 6, 3, None),
        (3, 3, 3, 6),
        (1, 20, 1, 4),
        (0, 20, 1, None),
    ],
)
def test_so_many_rounds_are_needed_before_a_difference_can_count(
    first: int, second: int, rounds: int, needed: int | None
) -> None:
    assert rounds_needed(first, second, rounds) == needed


def test_too_few_rounds_are_no_evidence_that_nothing_differs() -> None:
    sentence = describe_difference("ab", GOOD, GOOD, p=1.0, rounds=3)
    assert sentence == (
        "too few steps to tell whether a and b differ: measure longer with --seconds, or 3 rounds with --rounds 3"
    )


@pytest.mark.parametrize(
    ("after", "p", "words"),
    [
        (50.0, 1e-9, "a step takes 100.0% more with b than with a (p < 0.001)"),
        (12.5, 0.004, "a step takes 50.0% less with b than with a (p = 0.004)"),
        (26.0, 0.3, "differ by no more than chance (p = 0.3)"),
        (None, 1.0, "no steps to compare"),
    ],
)
def test_the_verdict_is_one_sentence(after: float | None, p: float, words: str) -> None:
    assert words in describe_difference("ab", GOOD, dataclasses.replace(GOOD, step_p50_ms=after), p=p)


def test_tables_show_what_was_measured(capsys: pytest.CaptureFixture[str]) -> None:
    console.out(figures_table(GOOD))
    console.out(comparison(["steps=4", "steps=8"], GOOD, dataclasses.replace(GOOD, step_p50_ms=50.0)))
    alone, _, both = capsys.readouterr().out.partition("steps=4")

    assert row_of(alone, "step, p50") == ["25.0", "ms"]
    assert "GPU" not in alone
    assert row_of(both, "step, p50") == ["25.0", "50.0", "ms", "2.00"]
    assert row_of(both, "step, p95") == ["26.0", "26.0", "ms", "1.00"]
    assert row_of(both, "input to frame, p95") == ["50.0", "50.0", "ms", "1.00"]


def row_of(table: str, name: str) -> list[str]:
    return next(line.partition(name)[2].split() for line in table.splitlines() if line.strip().startswith(name))


def test_figures_of_one_model_alone_are_compared_with_none(capsys: pytest.CaptureFixture[str]) -> None:
    loop = dataclasses.replace(GOOD, step_name="between emits", stages_ms={"between emits": 24, "send": 3})
    console.out(comparison(["before", "after"], GOOD, loop))
    shown = capsys.readouterr().out

    assert row_of(shown, "step, p95") == ["26.0", "-", "ms"]
    assert row_of(shown, "between emits, p95") == ["-", "26.0", "ms"]
    assert row_of(shown, "of a frame: send") == ["-", "3.00", "ms"]


def test_an_event_that_sets_a_plain_field_is_found() -> None:
    events: dict[str, Any] = {
        name: {"field": field, "parameters": {"properties": {key: {} for key in parameters}}}
        for name, field, parameters in (
            ("splash", None, ["at"]),
            ("set_photo", "photo", ["photo"]),
            ("set_size", "size", ["width", "height"]),
            ("set_speed", "speed", ["value"]),
        )
    }

    state = {"photo": {"$file": "f"}, "size": 3, "speed": 0.5}
    assert list(settable_fields(events, state)) == [("set_speed", "value", "speed")]
    assert list(settable_fields(events, {"photo": None, "size": 3, "speed": None})) == []


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True)


@pytest.mark.process
def test_a_revision_is_checked_out_and_removed(tmp_path: Path) -> None:
    project = tmp_path / "models" / "mine"
    project.mkdir(parents=True)
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "--allow-empty", "-qm", "nothing")
    (project / "pipeline.py").write_text("old")
    (project / "reactor.yaml").write_text("model: pipeline:MyModel\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    (project / "pipeline.py").write_text("new")

    with checked_out(project, "HEAD") as before:
        assert (before / "pipeline.py").read_text() == "old"
        assert (project / "pipeline.py").read_text() == "new"

    assert not before.exists()
    listed = subprocess.run(
        ["git", "-C", str(tmp_path), "worktree", "list"], capture_output=True, text=True, check=True
    )
    assert len(listed.stdout.splitlines()) == 1
    for revision, why in (
        ("no-such", r'the repository of .*mine has no revision "no-such"'),
        ("HEAD~1", r'mine has no reactor.yaml in "HEAD~1"'),
    ):
        with pytest.raises(UsageError, match=why), checked_out(project, revision):
            pass


@pytest.mark.process
def test_a_folder_outside_a_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a git repository"), checked_out(tmp_path, "HEAD"):
        pass
