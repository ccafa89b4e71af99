from __future__ import annotations

import itertools

from reactor_runtime.server.workers.restarts import LONGEST_PAUSE_S, MOST_FAILED_LOADS, STEADY_S, Restarts


def test_each_end_in_a_row_is_followed_by_a_longer_pause_up_to_a_bound() -> None:
    restarts = Restarts()
    pauses = [restarts.after_serving(1.0) for _ in range(9)]
    assert pauses == [0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, LONGEST_PAUSE_S, LONGEST_PAUSE_S]


def test_a_process_that_has_served_for_a_while_resets_the_pause() -> None:
    restarts = Restarts()
    for _ in range(5):
        restarts.after_serving(STEADY_S)
    assert restarts.after_serving(STEADY_S + 1) == 0.0
    assert restarts.after_serving(1.0) == 0.5


def test_the_pause_is_bounded_after_thousands_of_crashes() -> None:
    restarts = Restarts()
    assert max(restarts.after_serving(1.0) for _ in range(3000)) == LONGEST_PAUSE_S


def test_a_model_that_has_never_served_is_not_loaded_again() -> None:
    assert Restarts().after_failed_load() is None


def test_a_model_that_has_served_is_loaded_again_a_few_times_after_longer_pauses() -> None:
    restarts = Restarts()
    restarts.after_serving(1.0)
    pauses = list(itertools.takewhile(lambda pause: pause is not None, iter(restarts.after_failed_load, "")))
    assert pauses == [0.5, 1.0, 2.0, 4.0]
    assert restarts.failed_loads == MOST_FAILED_LOADS


def test_a_successful_load_resets_the_count_of_failed_loads() -> None:
    restarts = Restarts()
    restarts.after_serving(1.0)
    for _ in range(10):
        assert restarts.after_failed_load() is not None
        restarts.after_load()
        assert restarts.failed_loads == 0


def test_a_shortage_of_descriptors_or_memory_never_counts_as_a_failed_load() -> None:
    restarts = Restarts()
    pauses = [restarts.after_shortage() for _ in range(20)]
    assert pauses[:4] == [0.5, 0.5, 1.0, 2.0]
    assert pauses[-1] == LONGEST_PAUSE_S
    assert restarts.failed_loads == 0
