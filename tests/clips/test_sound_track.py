from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from reactor_runtime.clips.sound_track import SoundTrack

RATE = 1000


def joined(*pieces: tuple[float, list[int]], end_s: float) -> list[int]:
    """Return the left channel of pieces, each with its start time, up to `end_s`."""
    line = SoundTrack(RATE)
    found = [line.add(at_s, np.array([samples], np.int16)) for at_s, samples in pieces]
    whole = np.concatenate([*found, line.close(end_s)], axis=1)
    assert (whole[0] == whole[1]).all()
    left: list[int] = whole[0].tolist()
    return left


def test_pieces_end_to_end_are_joined() -> None:
    assert joined((0.0, [1, 2]), (0.002, [3]), end_s=0.003) == [1, 2, 3]


def test_a_piece_that_is_off_by_a_rounding_follows_without_a_gap() -> None:
    assert joined((0.0, [1] * 10), (0.014, [2] * 2), (0.009, [3]), end_s=0.013) == [1] * 10 + [2] * 2 + [3]


def test_a_gap_becomes_silence() -> None:
    assert joined((0.0, [1]), (0.010, [2]), end_s=0.011) == [1, *[0] * 9, 2]


def test_sound_begins_with_silence_if_it_comes_late() -> None:
    assert joined((0.010, [2]), end_s=0.011) == [*[0] * 10, 2]


def test_a_piece_replaces_the_rest_of_the_one_before() -> None:
    assert joined((0.0, [1] * 100), (0.050, [2] * 10), end_s=0.060) == [1] * 50 + [2] * 10


def test_the_end_cuts_and_fills() -> None:
    assert joined((0.0, [1, 2, 3]), end_s=0.002) == [1, 2]
    assert joined((0.0, [1, 2]), end_s=0.004) == [1, 2, 0, 0]


def test_both_channels_are_kept_and_one_becomes_two() -> None:
    line = SoundTrack(RATE)
    line.add(0.0, np.array([[1], [2]], np.int16))
    assert line.add(0.001, np.array([[3]], np.int16)).tolist() == [[1], [2]]
    assert line.close(0.002).tolist() == [[3], [3]]


def test_a_piece_is_copied() -> None:
    line, samples = SoundTrack(RATE), np.array([[1]], np.int16)
    line.add(0.0, samples)
    samples[:] = 9
    assert line.close(0.001).tolist() == [[1], [1]]


@given(st.lists(st.tuples(st.floats(0, 2), st.integers(1, 900))), st.floats(0, 4))
def test_there_are_as_many_samples_as_time_passed(pieces: list[tuple[float, int]], end_s: float) -> None:
    line = SoundTrack(RATE)
    found: list[NDArray[np.int16]] = [line.add(at_s, np.ones((1, count), np.int16)) for at_s, count in pieces]
    before = sum(samples.shape[1] for samples in found)
    assert before + line.close(end_s).shape[1] == max(before, round(end_s * RATE))
