"""The measured time of a block."""

from __future__ import annotations

from reactor_runtime.engine.drivers.stopwatch import Stopwatch


def test_the_first_block_is_not_measured() -> None:
    watch = Stopwatch()
    assert watch.read(10.0) is None


def test_it_measures_from_the_end_of_one_hand_over_to_the_next() -> None:
    watch = Stopwatch()
    watch.begin(10.0)
    assert watch.read(10.5) == 0.5
    watch.begin(20.0)
    assert watch.read(20.25) == 0.25


def test_a_pause_and_what_was_before_it_do_not_count() -> None:
    watch = Stopwatch()
    watch.begin(10.0)
    watch.pause()
    watch.pause()
    assert watch.read(15.0) is None
    watch.resume(20.0)
    watch.resume(21.0)
    assert watch.read(21.5) == 1.5


def test_a_pause_before_the_first_block_starts_the_measuring() -> None:
    watch = Stopwatch()
    watch.pause()
    watch.resume(10.0)
    assert watch.read(10.5) == 0.5


def test_a_block_handed_over_in_a_pause_is_not_measured_and_begins_the_next() -> None:
    watch = Stopwatch()
    watch.begin(10.0)
    watch.pause()
    assert watch.read(12.0) is None
    watch.begin(12.0)
    watch.resume(20.0)
    assert watch.read(21.0) == 1.0
