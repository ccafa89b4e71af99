"""How many sessions fit: by what those that run need of the time and of the memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from reactor_runtime.engine.capacity import (
    FEWEST,
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
