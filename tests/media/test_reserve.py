from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactor_runtime.media.reserve import PlayoutReserve


def reserve_of(*steps_s: float, frames: int = 16, interval_s: float = 0.125, room: int = 32) -> PlayoutReserve:
    reserve = PlayoutReserve()
    for step_s in steps_s:
        reserve.add(frames, step_s, interval_s=interval_s, room=room)
    return reserve


@pytest.mark.parametrize("steps_s", [(), (2.0,), (2.0,) * 20, (2.0, 1.99, 2.01) * 5], ids=str)
def test_an_even_model_gets_no_reserve(steps_s: tuple[float, ...]) -> None:
    assert reserve_of(*steps_s).target_s == 0


def test_single_frames_get_no_reserve() -> None:
    assert reserve_of(0.01, 0.1, 0.05, frames=1).target_s == 0


@pytest.mark.parametrize("stall_s", [4.3, 60.0])
def test_a_stall_does_not_count(stall_s: float) -> None:
    assert reserve_of(2.0, stall_s).target_s == 0
    assert reserve_of(stall_s, 2.0, 2.0).target_s == 0
    assert reserve_of(1.9, 2.1, stall_s).step_s == pytest.approx(2.0)
    assert reserve_of(*[2.0] * 9, stall_s).target_s == 0


def test_the_reserve_is_what_two_of_the_longest_steps_use_up() -> None:
    # The longest to come: 2.4 s, and three of 15 parts of the range of 0.8 s.
    assert reserve_of(*[1.6, 2.4] * 8).target_s == pytest.approx(2 * (0.4 + 3 * 0.8 / 15))


def test_a_model_faster_than_its_rate_makes_up_for_the_first_long_step() -> None:
    assert reserve_of(*[0.6, 1.0] * 8).target_s == pytest.approx(0.2 + 3 * 0.4 / 15)


def test_a_model_slower_than_its_rate_needs_a_reserve_for_the_longest_steps_alone() -> None:
    assert reserve_of(*[1.9, 2.1] * 8, interval_s=0.0625).target_s == pytest.approx(2 * (0.1 + 3 * 0.2 / 15))


def test_fewer_steps_give_a_longer_reserve() -> None:
    assert reserve_of(2.0, 1.8, 2.2).target_s > reserve_of(*[2.0, 1.8, 2.2] * 4).target_s


def test_old_steps_are_forgotten() -> None:
    assert reserve_of(1.6, 2.4, *[2.0] * 16).target_s == 0


@pytest.mark.parametrize("compute_s", [-1.0, math.nan, math.inf], ids=str)
def test_impossible_times_are_ignored(compute_s: float) -> None:
    assert reserve_of(1.6, compute_s, 2.4).steps == 2


def test_steps_without_frames_are_ignored() -> None:
    assert reserve_of(1.6, 2.4, frames=0).steps == 0


@given(st.lists(st.floats(0.0, 60.0), max_size=20), st.integers(1, 64), st.floats(0.001, 1.0), st.integers(1, 64))
def test_the_reserve_is_at_most_one_block_and_fits_in_the_queue(
    steps_s: list[float], frames: int, interval_s: float, room: int
) -> None:
    target_s = reserve_of(*steps_s, frames=frames, interval_s=interval_s, room=room).target_s
    assert 0 <= target_s <= min(frames, max(0, room - frames)) * interval_s
