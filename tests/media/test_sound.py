from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactor_runtime.media.sound import END_TO_END_S, LONGEST_PIECE_S, SoundLine, length_s, pieces_of


@pytest.mark.parametrize(
    ("durations_s", "lasts_s"),
    [
        ([0.1], 0.1),
        ([0.0999], 0.0999),
        ([0.05], 0.1),
        ([0.15], 0.15),
        ([0.0999, 0.1], 0.0999),
        ([0.1, 0.15], 0.15),
        ([0.15, 0.1], 0.15),
        ([0.05, 0.1], 0.1),
    ],
    ids=["right", "rounded", "little", "much", "two", "one much", "other much", "one little"],
)
def test_a_frame_lasts_as_long_as_its_sound_and_never_less_than_its_interval(
    durations_s: list[float], lasts_s: float
) -> None:
    assert length_s(durations_s, 0.1) == lasts_s


@pytest.mark.parametrize(("duration_s", "pieces"), [(0.02, 1), (0.5, 1), (0.51, 2), (1.0, 2), (5.0, 10)])
def test_sound_alone_is_cut_into_pieces_of_half_a_second_at_most(duration_s: float, pieces: int) -> None:
    assert pieces_of([0.01, duration_s]) == pieces


@given(st.floats(1e-5, 100))
def test_no_piece_is_longer_than_that(duration_s: float) -> None:
    assert duration_s / pieces_of([duration_s]) <= LONGEST_PIECE_S
    assert pieces_of([duration_s]) == 1 or duration_s > LONGEST_PIECE_S


def test_pieces_are_end_to_end() -> None:
    line = SoundLine(10)
    assert [line.next(due, 1) for due in (5.0, 5.102, 5.197)] == pytest.approx([5.0, 5.1, 5.2])


@pytest.mark.parametrize("due", [5.106, 5.05, 7.0])
def test_a_piece_whose_moment_is_elsewhere_begins_with_it(due: float) -> None:
    line = SoundLine(10)
    line.next(5.0, 1)
    assert [line.next(due, 1), line.next(due + 0.1, 1)] == pytest.approx([due, due + 0.1])


def test_after_a_reset_a_piece_begins_with_its_moment() -> None:
    line = SoundLine(10)
    line.next(5.0, 1)
    line.reset()
    assert line.next(5.101, 1) == 5.101


@given(st.lists(st.tuples(st.floats(0, 0.1), st.integers(1, 5000)), min_size=1, max_size=50), st.integers(8000, 96000))
def test_a_piece_begins_near_its_moment_and_never_before_the_one_before_ended(
    pieces: list[tuple[float, int]], rate: int
) -> None:
    line, due, ends = SoundLine(rate), 0.0, 0.0
    for late_s, samples in pieces:
        due = max(due, ends) + late_s
        at = line.next(due, samples)
        assert abs(at - due) <= END_TO_END_S
        assert at >= ends - 1e-9
        ends = at + samples / rate
