from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactor_runtime.media.rate import Lead, RateEstimate


def fed(*steps: tuple[int, float], max_fps: float = 60) -> RateEstimate:
    estimate = RateEstimate(max_fps)
    for frames, compute_s in steps:
        estimate.add(frames, compute_s)
    return estimate


def test_nothing_is_known_before_the_first_sample() -> None:
    assert RateEstimate(60).fps is None


@pytest.mark.parametrize(("frames", "compute_s", "fps"), [(1, 0.05, 20), (8, 0.4, 20), (16, 2.0, 8)])
def test_first_sample_is_taken_as_it_is(frames: int, compute_s: float, fps: float) -> None:
    assert RateEstimate(60).add(frames, compute_s) == pytest.approx(fps)


@pytest.mark.parametrize("compute_s", [0.0, -1.0, 1e-9, -math.inf], ids=str)
def test_trivial_model_runs_at_the_highest_rate(compute_s: float) -> None:
    assert fed((1, compute_s), (1, compute_s), (4, compute_s)).fps == pytest.approx(60)


def test_very_slow_model_runs_at_one_frame_a_second() -> None:
    assert fed((1, 9.0), (1, math.inf)).fps == pytest.approx(1)


def test_what_is_not_a_number_changes_nothing() -> None:
    assert fed((1, math.nan)).fps is None
    assert fed((1, 0.05), (1, math.nan), (0, 0.1)).fps == pytest.approx(20)


@pytest.mark.parametrize("stall_s", [2.0, 30.0])
def test_one_stall_is_forgiven(stall_s: float) -> None:
    steady = [(1, 0.05)] * 40
    assert fed((1, stall_s), (1, 0.05)).fps == pytest.approx(20)
    assert fed(*steady, (1, stall_s)).fps == pytest.approx(20)


def test_a_negative_time_does_not_shorten_other_steps() -> None:
    assert fed((1, -5.0), (1, 0.05), (1, 0.05)).fps == pytest.approx(30)


def test_a_step_of_twice_the_second_longest_is_no_stall() -> None:
    assert fed((1, 0.25), (1, 0.125)).fps == pytest.approx(2 / 0.375)


def test_the_newest_32_frames_count() -> None:
    steps = [(1, 0.5), (1, 0.5), *[(1, 0.05)] * 30]
    assert fed(*steps).fps == pytest.approx(32 / 2.5)
    # One of the slow steps is left, which is a stall.
    assert fed(*steps, (1, 0.05)).fps == pytest.approx(20)


def test_the_longest_of_uneven_steps_counts() -> None:
    assert fed((16, 1.6), (16, 2.4), (16, 2.0), (16, 2.0)).fps == pytest.approx(8)


def test_jitter_is_smoothed() -> None:
    estimate = fed(*[(1, 0.04), (1, 0.06)] * 20)
    rates = {estimate.add(1, 0.04 + 0.02 * (step % 2)) for step in range(20)}
    assert all(rate == pytest.approx(20, rel=0.02) for rate in rates)


def test_uneven_steps_count_by_their_time() -> None:
    assert fed(*[(1, 0.01), (1, 0.01), (1, 0.01), (1, 0.09)] * 16).fps == pytest.approx(1 / 0.03, rel=0.1)


@pytest.mark.parametrize(("before", "after"), [(0.02, 0.08), (0.08, 0.02)], ids=["slower", "faster"])
def test_lasting_change_is_followed_within_a_window(before: float, after: float) -> None:
    assert fed(*[(1, before)] * 64, *[(1, after)] * 33).fps == pytest.approx(1 / after)


def test_batches_adapt_within_a_few_steps() -> None:
    assert fed(*[(32, 1.0)] * 10, *[(32, 4.0)] * 4).fps == pytest.approx(8)


@pytest.mark.parametrize(("steps", "exceeds"), [(3, False), (4, True), (40, True)])
def test_a_model_faster_than_its_bound_is_known_after_four_steps(steps: int, exceeds: bool) -> None:
    estimate = RateEstimate(max_fps=60)
    for _ in range(steps):
        estimate.add(12, 0.1)
    assert estimate.exceeds_max is exceeds


def test_a_model_at_its_bound_does_not_exceed_it() -> None:
    estimate = RateEstimate(max_fps=60)
    for _ in range(40):
        estimate.add(12, 0.19)
    assert not estimate.exceeds_max


@pytest.mark.parametrize("max_fps", [0, -1, 0.5, math.nan, math.inf], ids=str)
def test_impossible_bound_is_refused(max_fps: float) -> None:
    with pytest.raises(ValueError, match="max_fps"):
        RateEstimate(max_fps)


@given(st.lists(st.tuples(st.integers(-1, 100), st.floats()), max_size=100), st.floats(1, 1000))
def test_rate_stays_in_bounds_whatever_comes(steps: list[tuple[int, float]], max_fps: float) -> None:
    fps = fed(*steps, max_fps=max_fps).fps
    assert fps is None or 1 <= fps <= max_fps


def test_first_step_starts_at_once() -> None:
    assert Lead().value_s == math.inf


def test_lead_covers_nearly_every_step_and_what_usually_follows() -> None:
    lead = Lead()
    for compute_s, ready_s in ((0.010, 0.003), (0.020, 0.002), (0.015, 0.004)):
        lead.add(compute_s, ready_s)
    assert 0.024 < lead.value_s <= 0.025


def test_eight_stalls_of_a_full_window_are_left_out() -> None:
    lead = Lead()
    for compute_s in [0.010] * 56 + [1.0] * 8:
        lead.add(compute_s, 0.001)
    assert lead.value_s < 0.015
    lead.add(1.0, 0.001)
    assert lead.value_s > 1.0


def test_slow_encodes_below_a_quarter_are_left_out() -> None:
    lead = Lead()
    for ready_s in [0.002] * 48 + [0.009] * 16:
        lead.add(0.001, ready_s)
    assert lead.value_s < 0.004


def test_old_steps_leave_the_window() -> None:
    lead = Lead()
    for seconds in [1.0] * 64 + [0.010] * 64:
        lead.add(seconds, seconds)
    assert lead.value_s < 0.025


@given(st.lists(st.tuples(st.floats(), st.floats()), max_size=200))
def test_lead_is_always_above_zero(samples: list[tuple[float, float]]) -> None:
    lead = Lead()
    for compute_s, ready_s in samples:
        lead.add(compute_s, ready_s)
    assert lead.value_s > 0


steps_st = st.tuples(st.integers(1, 32), st.floats(0.001, 1.0))


@given(st.lists(steps_st, min_size=1, max_size=100))
def test_rate_is_never_beyond_the_fastest_and_the_slowest_step(steps: list[tuple[int, float]]) -> None:
    rates = [min(60.0, max(1.0, frames / compute_s)) for frames, compute_s in steps]
    fps = fed(*steps).fps
    assert fps is not None
    assert min(rates) * (1 - 1e-9) <= fps <= max(rates) * (1 + 1e-9)


@given(st.lists(steps_st, max_size=40), steps_st)
def test_rate_reaches_that_of_a_steady_model_whatever_was_before(
    before: list[tuple[int, float]], step: tuple[int, float]
) -> None:
    frames, compute_s = step
    fps = fed(*before, *[step] * 33).fps
    assert fps == pytest.approx(min(60.0, max(1.0, frames / compute_s)))
