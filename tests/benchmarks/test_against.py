"""Whether a row of the benchmarks is worse than that of another revision."""

from __future__ import annotations

import pytest

from benchmarks.against import LEAST_ROUNDS, Comparison, comparisons
from reactor_cli.bench.significance import SIGNIFICANT, p_value

STEADY = [1.0, 1.01, 1.02, 1.03, 1.04, 1.05]


def scaled(factor: float) -> list[float]:
    return [factor * each for each in STEADY]


@pytest.mark.parametrize(
    ("now", "more_is_better", "is_worse"),
    [
        (scaled(1.2), False, True),
        (scaled(1.2), True, False),
        (scaled(0.8), False, False),
        (scaled(0.8), True, True),
        # Certain, and small.
        (scaled(1.049), False, False),
        # Large, and not certain.
        ([1.0, 1.0, 1.2, 1.3, 1.3, 1.4], False, False),
        # A difference that has a ratio of no meaning.
        (scaled(-1.0), False, False),
    ],
    ids=["slower", "more of what is good", "faster", "less of what is good", "small", "by chance", "negative"],
)
def test_a_row_is_worse_by_a_large_difference_that_is_no_chance(
    now: list[float], more_is_better: bool, is_worse: bool
) -> None:
    assert Comparison("ms", more_is_better, STEADY, now).is_worse == is_worse


def test_the_fewest_rounds_can_show_a_difference() -> None:
    assert p_value(range(LEAST_ROUNDS), range(LEAST_ROUNDS, 2 * LEAST_ROUNDS)) < SIGNIFICANT
    assert p_value(range(LEAST_ROUNDS - 1), range(LEAST_ROUNDS, 2 * LEAST_ROUNDS - 1)) >= SIGNIFICANT


def test_rows_are_compared_by_their_name_and_those_above_them() -> None:
    before = [
        ("720p30", "1,200 µs", ""),
        ("  delay, p50", "4.5 ms", "at most 5 ms"),
        ("    p99", "-0.1 ms", ""),
        ("480p30", "none", ""),
        ("  delay, p50", "2.5 ms", "at most 5 ms"),
        ("  frames a second, worst", "29.5", "30"),
        ("  of one core", "17 %", ""),
        ("  of a bare loop", "1.4", "at least 1.45"),
    ]
    now = [(what, "7 ms" if what == "  delay, p50" else figure, bound) for what, figure, bound in before[1:]]
    found = comparisons([before, before], [before, [before[0], *now]])
    assert {name: (each.unit, each.more_is_better, each.before, each.now) for name, each in found.items()} == {
        "720p30": ("µs", False, [1200, 1200], [1200, 1200]),
        "720p30 · delay, p50": ("ms", False, [4.5, 4.5], [4.5, 7]),
        "720p30 · delay, p50 · p99": ("ms", False, [-0.1, -0.1], [-0.1, -0.1]),
        "480p30 · delay, p50": ("ms", False, [2.5, 2.5], [2.5, 7]),
        "480p30 · frames a second, worst": ("", True, [29.5, 29.5], [29.5, 29.5]),
        "480p30 · of one core": ("%", False, [17, 17], [17, 17]),
        "480p30 · of a bare loop": ("", True, [1.4, 1.4], [1.4, 1.4]),
    }


def test_a_row_that_one_side_lacks_is_left_out() -> None:
    assert comparisons([[("ours", "1 ms", "")]], [[("theirs", "1 ms", "")]]) == {}
