from __future__ import annotations

import pytest

from reactor_runtime.server.encoding.arrivals import MOST_SKIPPED, Arrivals


def test_one_acknowledgement_gives_no_measure() -> None:
    arrivals = Arrivals()
    assert arrivals.measure() is None
    arrivals.add_acknowledgement(1, 1000, 0.01, 5.0, 1.0)
    assert arrivals.measure() is None


def test_a_measure_counts_frames_shown_and_skipped() -> None:
    arrivals = Arrivals()
    for number in range(6):
        arrivals.add_acknowledgement(2, 3000, 0.05, number * 0.1, 1.0)
    arrivals.frame_skipped(0.25)
    measure = arrivals.measure()
    assert measure is not None
    assert (measure.acknowledgements, measure.size_bytes) == (6, 1500)
    assert measure.span_s == pytest.approx(0.5)
    assert (measure.shown_fps, measure.fps, measure.offered_fps) == pytest.approx((10, 20, 22))
    assert measure.skips == pytest.approx(1 / 11)
    assert (measure.gap_s, measure.round_trip_s) == pytest.approx((0.05, 0.05))


def test_a_single_stall_does_not_lengthen_the_gap() -> None:
    arrivals = Arrivals()
    for at in (0.0, 0.03, 0.06, 0.5, 0.51, 0.54):
        arrivals.add_acknowledgement(1, 1000, 0.01, at, 1.0)
    measure = arrivals.measure()
    assert measure is not None
    assert measure.gap_s == pytest.approx(0.03)


def test_nothing_is_measured_of_acknowledgements_at_one_time() -> None:
    arrivals = Arrivals()
    for _ in range(3):
        arrivals.add_acknowledgement(1, 1000, 0.01, 5.0, 1.0)
    assert arrivals.measure() is None


def test_a_measure_spans_the_time_that_is_looked_back() -> None:
    arrivals = Arrivals()
    for at in (0.0, 0.3, 0.6, 0.9, 1.2):
        arrivals.add_acknowledgement(1, 1000, 0.01, at, 1.0)
    measure = arrivals.measure()
    assert measure is not None
    assert (measure.acknowledgements, measure.span_s) == (5, 1.2)


def test_the_gap_is_that_of_the_frames_acknowledged_at_its_end() -> None:
    arrivals = Arrivals()
    for number, frames in enumerate((1, 4, 1, 4)):
        arrivals.add_acknowledgement(frames, 1000, 0.01, number * 0.5, 5.0)
    measure = arrivals.measure()
    assert measure is not None
    assert measure.gap_s == 0.125


def test_reset_drops_acknowledgements_and_skips() -> None:
    arrivals = Arrivals()
    for at in (0.0, 0.1):
        arrivals.add_acknowledgement(1, 1000, 0.01, at, 1.0)
        arrivals.frame_skipped(at)
    arrivals.reset()
    assert (arrivals.measure(), arrivals.skips) == (None, 0)


def test_old_acknowledgements_are_dropped_except_the_last_two() -> None:
    arrivals = Arrivals()
    for at in (0.0, 0.1, 0.2, 5.0, 9.0):
        arrivals.frame_skipped(at)
        arrivals.add_acknowledgement(1, 1000, 0.01, at, 1.0)
    measure = arrivals.measure()
    assert measure is not None
    assert (measure.acknowledgements, measure.span_s) == (2, 4.0)
    assert measure.skips == pytest.approx(2 / 3)


def test_the_fastest_frame_counts_for_three_seconds() -> None:
    arrivals = Arrivals()
    for at in (0.0, 1.0, 2.9, 3.1, 4.5):
        arrivals.frame_arrived(1000, 0.01 if at == 1.0 else 0.1, at)
        arrivals.add_acknowledgement(1, 1000, 0.1, at, 1.0)
        measure = arrivals.measure()
        if measure is not None:
            assert measure.bytes_per_s == pytest.approx(100_000 if 1 <= at <= 4 else 10_000)


def test_the_latest_acknowledgements_show_a_network_that_became_slow() -> None:
    arrivals = Arrivals()
    for number in range(20):
        arrivals.add_acknowledgement(1, 1000, 0.01, number / 20, 1.0)
    for at in (0.72, 1.05, 1.1, 1.15, 1.25, 1.3, 1.35):
        arrivals.frame_skipped(at)
    for at in (1.2, 1.4):
        arrivals.add_acknowledgement(1, 1000, 0.2, at, 1.0)
    whole, latest = arrivals.measure(), arrivals.measure(3)
    assert whole is not None
    assert latest is not None
    assert whole.gap_s == pytest.approx(0.05)
    assert latest.skips == pytest.approx(0.75)
    assert latest.gap_s == pytest.approx(0.2)


def test_fewer_acknowledgements_than_the_latest_that_are_asked_for_give_no_measure() -> None:
    arrivals = Arrivals()
    for at in (0.0, 0.1):
        arrivals.add_acknowledgement(1, 1000, 0.01, at, 1.0)
    assert arrivals.measure(3) is None
    assert arrivals.measure(2) is not None


def test_the_skips_of_a_silent_client_are_bounded() -> None:
    arrivals = Arrivals()
    for number in range(2 * MOST_SKIPPED):
        arrivals.frame_skipped(number / 60)
    assert arrivals.skips == MOST_SKIPPED
