"""How many sessions fit: by what those that run need of the time and of the memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from reactor_runtime.engine.batch_shares import BATCHES, FEWEST, FORGOTTEN_S
from reactor_runtime.engine.capacity import (
    MEASURED_S,
    MEASURING,
    REPORT_S,
    UNPACED,
    CapacityEstimate,
    CapacityReports,
    Memory,
    read_memory,
)
from reactor_runtime.ipc import messages as ipc
from tests.fakes import FakeClock

AMPLE = {"memory": Memory(used=1000, free=10**9)}
INTERVAL_S = 1 / 30


def running(*steps_s: float, most: int = 64, memory: dict[str, Memory] = AMPLE) -> CapacityEstimate:
    """Return the capacity of a model with so many sessions, whose steps take so long for a frame at 30 fps."""
    capacity = CapacityEstimate(most)
    for slot, step_s in enumerate(steps_s):
        capacity.begin_session(slot, 0.0, memory)
        for _ in range(10):
            capacity.add_step(slot, step_s, INTERVAL_S)
    return capacity


@pytest.mark.parametrize(
    ("steps_s", "fits"),
    [
        ([0.010], 3),
        ([0.010, 0.010], 3),
        ([0.0101], 2),
        ([0.001], 30),
        ([0.025], 1),
        # Those that run are not ended.
        ([0.020, 0.020, 0.020], 3),
        ([0.002, 0.010], 5),
        ([0.0], 64),
    ],
)
def test_steps_of_all_sessions_fit_the_interval_with_a_tenth_in_reserve(steps_s: list[float], fits: int) -> None:
    assert running(*steps_s).estimate(1.0, AMPLE)[0] == fits


def test_a_single_slow_step_changes_nothing() -> None:
    capacity = running(0.010)
    capacity.add_step(0, 3.0, INTERVAL_S)
    assert capacity.estimate(1.0, AMPLE) == (3, "a step takes 10.0 ms of 33.3 ms")


def test_no_other_session_fits_until_one_that_has_begun_is_measured() -> None:
    capacity = CapacityEstimate(4)
    capacity.begin_session(0, 0.0, AMPLE)
    assert capacity.estimate(MEASURED_S - 0.1, AMPLE) == (1, MEASURING)
    # It waits for an input, or it has no rate.
    assert capacity.estimate(MEASURED_S, AMPLE) == (4, "")


def test_a_stepped_session_is_measured_by_one_step_and_takes_no_time_of_others() -> None:
    capacity = CapacityEstimate(8)
    capacity.begin_session(0, 0.0, AMPLE)
    capacity.add_step(0, 3.0, UNPACED)
    assert capacity.estimate(0.1, AMPLE) == (8, "")
    capacity.begin_session(1, 0.1, AMPLE)
    for _ in range(FEWEST):
        capacity.add_step(1, 0.010, INTERVAL_S)
    assert capacity.estimate(0.2, AMPLE) == (4, "a step takes 10.0 ms of 33.3 ms")


def test_sessions_fit_into_the_free_memory_by_what_the_first_has_needed() -> None:
    capacity = running(0.0001, most=64, memory={"GPU memory": Memory(used=10**9, free=5 * 10**9)})
    fits, reason = capacity.estimate(1.0, {"GPU memory": Memory(used=2 * 10**9, free=4 * 10**9)})
    assert (fits, reason) == (4, "a session needs 1000 MB of GPU memory")


def test_memory_that_a_session_has_needed_once_counts_when_it_has_ended() -> None:
    capacity = running(0.0001, memory={"memory": Memory(used=10**9, free=10**10)})
    capacity.estimate(1.0, {"memory": Memory(used=3 * 10**9, free=8 * 10**9)})
    capacity.end_session(0)
    capacity.begin_session(0, 2.0, AMPLE)
    assert capacity.estimate(9.0, {"memory": Memory(used=10**9, free=10**10)})[0] == 1 + 4


def in_batches(used: dict[int, float], most: int = 8) -> CapacityEstimate:
    """Return the capacity of a model whose batches of so many sessions were measured, in shares of the time."""
    capacity = CapacityEstimate(most, in_batches=True)
    for slot, (count, share) in enumerate(used.items()):
        capacity.begin_session(slot, 0.0, AMPLE)
        batched(capacity, count, share)
        capacity.estimate(1.0, AMPLE)
    return capacity


def batched(capacity: CapacityEstimate, count: int, share: float, steps: int = BATCHES) -> None:
    for _ in range(steps):
        for slot in range(count):
            capacity.add_step(slot, share * INTERVAL_S, INTERVAL_S, count)


@pytest.mark.parametrize(
    ("used", "fits"),
    [
        # The second may cost next to nothing, so it is tried.
        ({1: 0.8}, 2),
        ({1: 0.91}, 1),
        ({1: 0.5, 2: 0.52}, 3),
        # The third would cost as much as the second.
        ({1: 0.4, 2: 0.66}, 2),
        ({1: 0.4, 2: 0.64}, 3),
        # The third is no faster than the second.
        ({1: 0.89, 2: 0.85}, 3),
        # One too many runs on.
        ({1: 0.8, 2: 1.6}, 2),
        ({1: 0.3, 2: 0.35, 3: 0.4, 4: 0.45, 5: 0.5, 6: 0.55, 7: 0.6, 8: 0.65}, 8),
        ({1: 0.0, 2: 0.0}, 3),
    ],
)
def test_batches_grow_by_one_session_while_they_fit(used: dict[int, float], fits: int) -> None:
    assert in_batches(used).estimate(1.0, AMPLE)[0] == fits


def test_the_reason_says_what_one_session_more_would_take() -> None:
    assert (
        in_batches({1: 0.4, 2: 0.66}).estimate(1.0, AMPLE)[1] == "the steps of 3 in a batch would take 92 % of the time"
    )


def test_what_larger_batches_take_is_known_when_sessions_have_ended() -> None:
    capacity = in_batches({1: 0.8, 2: 1.6})
    capacity.end_session(1)
    batched(capacity, 1, 0.8)
    assert capacity.estimate(2.0, AMPLE) == (1, "the steps of 2 in a batch take 160 % of the time")
    # The model has become faster.
    batched(capacity, 1, 0.4)
    assert capacity.estimate(2.0, AMPLE)[0] == 2
    capacity = in_batches({1: 0.3, 2: 0.35, 3: 0.4})
    for slot in (2, 1):
        capacity.end_session(slot)
    batched(capacity, 1, 0.3)
    assert capacity.estimate(2.0, AMPLE) == (4, MEASURING)


def test_a_number_of_sessions_that_was_too_many_is_tried_again_after_ten_minutes() -> None:
    capacity = in_batches({1: 0.4})
    capacity.begin_session(1, 2.0, AMPLE)
    batched(capacity, 2, 1.5, FEWEST)
    assert capacity.estimate(3.0, AMPLE)[0] == 2
    capacity.end_session(1)
    batched(capacity, 1, 0.4)
    assert capacity.estimate(4.0, AMPLE) == (1, "the steps of 2 in a batch take 150 % of the time")
    batched(capacity, 1, 0.4)
    assert capacity.estimate(4.0 + FORGOTTEN_S, AMPLE) == (2, MEASURING)


def test_a_number_of_sessions_that_played_between_two_reports_is_tried_again_too() -> None:
    capacity = in_batches({1: 0.3, 2: 0.4})
    capacity.begin_session(2, 2.0, AMPLE)
    batched(capacity, 3, 1.2, FEWEST)
    capacity.end_session(2)
    batched(capacity, 2, 0.4)
    assert capacity.estimate(3.0, AMPLE) == (2, "the steps of 3 in a batch take 120 % of the time")
    assert capacity.estimate(4.0 + FORGOTTEN_S, AMPLE) == (3, MEASURING)


def test_steps_with_fewer_sessions_do_not_count_for_a_batch_with_more() -> None:
    capacity = in_batches({1: 0.75})
    capacity.begin_session(1, 10.0, AMPLE)
    batched(capacity, 2, 0.78, FEWEST - 1)
    assert capacity.estimate(10.1, AMPLE) == (2, MEASURING)
    batched(capacity, 2, 0.78, 1)
    assert capacity.estimate(10.2, AMPLE) == (3, MEASURING)
    capacity.end_session(1)
    assert capacity.estimate(10.3, AMPLE) == (3, MEASURING)


def test_a_first_slow_batch_with_more_sessions_says_nothing_about_other_numbers() -> None:
    capacity = in_batches({1: 0.4})
    capacity.begin_session(1, 2.0, AMPLE)
    # It compiles for the new number of sessions.
    for share in [5.0] * FEWEST + [0.41] * (BATCHES - 2):
        batched(capacity, 2, share, 1)
        capacity.estimate(3.0, AMPLE)
    capacity.end_session(1)
    batched(capacity, 1, 0.4)
    assert capacity.estimate(5.0, AMPLE) == (3, MEASURING)


def test_sessions_that_make_no_steps_fit_beside_a_batch() -> None:
    capacity = CapacityEstimate(8, in_batches=True)
    for slot in range(4):
        capacity.begin_session(slot, 0.0, AMPLE)
    batched(capacity, 1, 0.1)
    assert capacity.estimate(MEASURED_S, AMPLE) == (4, MEASURING)
    assert capacity.estimate(2 * MEASURED_S, AMPLE) == (5, MEASURING)


@pytest.mark.parametrize(("share", "fits"), [(0.1, 5), (0.2, 4), (0.4, 4)])
def test_sessions_that_were_never_in_one_batch_need_their_time_each(share: float, fits: int) -> None:
    capacity = CapacityEstimate(8, in_batches=True)
    for slot in range(4):
        capacity.begin_session(slot, 0.0, AMPLE)
        for _ in range(FEWEST):
            capacity.add_step(slot, share * INTERVAL_S, INTERVAL_S)
    assert capacity.estimate(1.0, AMPLE)[0] == fits


def test_a_new_session_of_a_number_that_was_measured_holds_nobody_up() -> None:
    capacity = in_batches({1: 0.3, 2: 0.35, 3: 0.4})
    capacity.end_session(1)
    capacity.begin_session(1, 10.0, AMPLE)
    assert capacity.estimate(10.0, AMPLE) == (4, MEASURING)


@pytest.mark.parametrize("in_batches", [False, True])
def test_long_blocks_have_the_time_to_be_measured(in_batches: bool) -> None:
    capacity = CapacityEstimate(8, in_batches=in_batches)
    capacity.begin_session(0, 0.0, AMPLE)
    for _ in range(FEWEST - 1):
        capacity.add_step(0, 0.95, 1.0)
    assert capacity.estimate(MEASURED_S + FEWEST - 0.1, AMPLE) == (1, MEASURING)
    capacity.add_step(0, 0.95, 1.0)
    assert capacity.estimate(MEASURED_S + FEWEST - 0.1, AMPLE)[0] == 1
    # Another one waits for the next block.
    capacity.begin_session(1, 10.0, AMPLE)
    assert capacity.estimate(10.0 + MEASURED_S, AMPLE) == (2, MEASURING)
    # A session that makes a few steps, and waits for an event, keeps no other waiting.
    capacity = CapacityEstimate(8, in_batches=in_batches)
    capacity.begin_session(0, 0.0, AMPLE)
    capacity.add_step(0, 0.95, 1.0)
    assert capacity.estimate(MEASURED_S + FEWEST, AMPLE) == (8, "")


async def test_why_no_second_session_fits_is_sent_once_it_is_known() -> None:
    clock, sent = FakeClock(), list[ipc.Capacity]()
    reports = CapacityReports(8, clock, sent.append, lambda: AMPLE)
    reports.begin_session(0)
    await clock.advance(REPORT_S)
    assert not sent
    for _ in range(50):
        reports.add_step(0, 0.035, INTERVAL_S)
    await clock.advance(3 * REPORT_S)
    assert sent == [ipc.Capacity(1, "a step takes 35.0 ms of 33.3 ms")]
    reports.end_session(0)


async def test_a_change_is_sent_once() -> None:
    clock, sent = FakeClock(), list[ipc.Capacity]()
    reports = CapacityReports(8, clock, sent.append, lambda: AMPLE)
    reports.begin_session(2)
    for _ in range(50):
        reports.add_step(2, 0.010, INTERVAL_S)
    await clock.advance(3 * REPORT_S)
    assert sent == [ipc.Capacity(3, "a step takes 10.0 ms of 33.3 ms")]
    reports.end_session(2)
    assert clock.upcoming is None


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="only Linux tells")
def test_the_memory_of_this_process_is_known() -> None:
    memory = read_memory()["memory"]
    assert memory.used > 10**6
    assert memory.free > 0
