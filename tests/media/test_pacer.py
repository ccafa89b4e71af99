from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactor_runtime.media.pacer import PULL, SURPLUS, Schedule

fps_st = st.floats(0.5, 240)
now_st = st.floats(0, 1e6)


def test_first_frame_is_due_at_once() -> None:
    assert Schedule(30).next(now=5.0) == 5.0
    assert Schedule(30).next(now=5.0, lead_s=0.01) == 5.01


def test_early_frames_wait_for_the_grid() -> None:
    schedule = Schedule(10)
    assert [schedule.next(now=1.0) for _ in range(3)] == pytest.approx([1.0, 1.1, 1.2])


def test_stall_moves_the_grid_instead_of_bursting() -> None:
    schedule = Schedule(10)
    schedule.next(now=1.0)
    assert [schedule.next(now=3.0) for _ in range(3)] == pytest.approx([3.0, 3.1, 3.2])


def test_lead_is_kept_when_a_frame_comes_late() -> None:
    schedule = Schedule(10)
    schedule.next(now=1.0)
    assert schedule.next(now=1.09, lead_s=0.05) == pytest.approx(1.14)


def test_early_frames_pull_the_grid_a_little() -> None:
    schedule = Schedule(10)
    schedule.next(now=1.0)
    assert schedule.next(now=1.15) == pytest.approx(1.15)
    # The frame before was late by 50 ms.
    assert schedule.next(now=1.17, early_s=0.05) == pytest.approx(1.25 - PULL * 0.05)
    assert schedule.next(now=1.32, early_s=0.05) == pytest.approx(1.35 - PULL * 0.05 - PULL * (0.03 - PULL * 0.05))


def test_early_frames_raise_the_rate_by_one_per_cent_at_most() -> None:
    schedule = Schedule(10)
    dues = [schedule.next(now=1.0, early_s=0.05) for _ in range(500)]
    assert dues[-1] - dues[0] == pytest.approx(499 * 0.1 / (1 + SURPLUS), rel=0.002)


def test_early_frames_make_up_for_all_late_frames_before() -> None:
    schedule = Schedule(10)
    for now in (1.0, 1.12, 1.24):
        schedule.next(now)
    dues = [schedule.next(1.24, early_s=0.1) for _ in range(3)]
    assert dues == pytest.approx([1.24 + number * (0.1 - PULL * 0.1) for number in (1, 2, 3)])


@pytest.mark.parametrize(
    "before", [[1.0, 6.0], [1.0 + 0.1 * number for number in range(500)]], ids=["stall", "in time"]
)
def test_the_grid_moves_back_by_one_interval_at_most(before: list[float]) -> None:
    schedule = Schedule(10)
    for now in before:
        last = schedule.next(now)
    dues = [schedule.next(last, early_s=0.1) for _ in range(30)]
    assert dues[-1] - last == pytest.approx(30 * 0.1 * (1 - SURPLUS) - 0.1, abs=0.002)


def test_reset_forgets_frames_that_were_late() -> None:
    schedule = Schedule(10)
    schedule.next(1.0)
    schedule.next(1.15)
    schedule.reset()
    schedule.next(2.0)
    assert schedule.next(2.0, early_s=0.1) == pytest.approx(2.1 - SURPLUS * 0.1)


def test_rate_changes_from_the_next_frame() -> None:
    schedule = Schedule(10)
    schedule.next(now=1.0)
    schedule.set_fps(20)
    assert schedule.fps == 20
    assert schedule.next(now=1.0) == pytest.approx(1.05)


def test_upcoming_is_none_before_the_first_frame_and_after_reset() -> None:
    schedule = Schedule(10)
    assert schedule.upcoming is None
    schedule.next(now=1.0)
    assert schedule.upcoming == pytest.approx(1.1)
    schedule.reset()
    assert schedule.upcoming is None
    assert schedule.next(now=1.01) == 1.01
    assert schedule.fps == 10


@pytest.mark.parametrize("fps", [0, -1, 0.0, math.nan, math.inf, -math.inf, 1e-320], ids=str)
def test_impossible_rates_are_refused_and_change_nothing(fps: float) -> None:
    with pytest.raises(ValueError, match="fps must be above 0"):
        Schedule(fps)
    schedule = Schedule(30)
    with pytest.raises(ValueError, match="fps must be above 0"):
        schedule.set_fps(fps)
    assert schedule.fps == 30


@given(fps_st, now_st, st.lists(st.tuples(st.floats(0, 3), st.floats(0, 0.05)), min_size=2, max_size=50))
def test_due_times_are_an_interval_apart_and_never_past(
    fps: float, start: float, calls: list[tuple[float, float]]
) -> None:
    schedule = Schedule(fps)
    now, previous = start, -math.inf
    for elapsed_s, lead_s in calls:
        now += elapsed_s
        due = schedule.next(now, lead_s)
        assert due >= now + lead_s
        assert due >= previous + 1 / fps
        assert due > previous
        previous = due


@given(fps_st, now_st, st.integers(1, 500))
def test_frames_that_are_never_late_do_not_drift(fps: float, first: float, count: int) -> None:
    schedule = Schedule(fps)
    due = [schedule.next(first) for _ in range(count)][-1]
    assert due == pytest.approx(first + (count - 1) / fps, abs=1e-6)


@given(fps_st, st.lists(fps_st, min_size=1, max_size=20))
def test_each_gap_is_that_of_the_rate_in_force(fps: float, rates: list[float]) -> None:
    schedule = Schedule(fps)
    previous = schedule.next(0.0)
    for rate in rates:
        schedule.set_fps(rate)
        due = schedule.next(0.0)
        assert due - previous == pytest.approx(1 / rate)
        previous = due


def test_a_frame_may_last_longer_or_shorter_than_an_interval() -> None:
    schedule = Schedule(10)
    lengths: list[float | None] = [None, 0.5, 0.02, None]
    assert [schedule.next(1.0, length_s=length) for length in lengths] == pytest.approx([1.0, 1.1, 1.6, 1.62])
    assert schedule.upcoming == pytest.approx(1.72)


@pytest.mark.parametrize(("late_s", "due"), [(0.015625, 1.125), (0.03125, 1.125), (0.046875, 1.171875)])
def test_what_is_forgiven_stays_on_the_grid(late_s: float, due: float) -> None:
    schedule = Schedule(8)
    schedule.next(1.0)
    assert schedule.next(1.125 + late_s, forgiven_s=0.03125) == due
