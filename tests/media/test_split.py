from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from reactor_runtime.media.jpeg_frame import JpegFrame
from reactor_runtime.media.split import split as split_payloads


def batch(count: int) -> NDArray[np.uint8]:
    return np.arange(count * 12, dtype=np.uint8).reshape(count, 2, 2, 3)


def sound(count: int, channels: int = 2) -> NDArray[np.int16]:
    return np.arange(channels * count, dtype=np.int16).reshape(channels, count)


def lengths(moments: list[dict[str, NDArray[Any]]], track: str) -> list[int]:
    return [moment[track].shape[1] if track in moment else 0 for moment in moments]


def split(payloads: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Split payloads, all of them arrays unless a test says something else."""
    return [dict(bundle) for bundle in split_payloads(payloads)]


def test_a_jpeg_beside_a_batch_is_repeated_as_a_frame_is() -> None:
    jpeg = JpegFrame(b"", 4, 6)
    assert [moment["depth"] is jpeg for moment in split({"depth": jpeg, "main_video": batch(3)})] == [True] * 3
    (alone,) = split({"depth": jpeg})
    assert alone["depth"] is jpeg


def test_single_frame_is_one_moment() -> None:
    frame = batch(1)[0]
    [moment] = split({"main_video": frame})
    assert moment["main_video"] is frame


def test_batch_becomes_one_moment_a_frame() -> None:
    frames = batch(4)
    moments = split({"main_video": frames})
    assert [moment["main_video"].tolist() for moment in moments] == frames.tolist()


def test_nothing_is_copied() -> None:
    frames, samples = batch(4), sound(10)
    for moment in split({"main_video": frames, "main_audio": samples}):
        assert np.shares_memory(moment["main_video"], frames)
        assert np.shares_memory(moment["main_audio"], samples)


def test_single_frame_beside_a_batch_is_repeated() -> None:
    depth = batch(1)[0]
    moments = split({"depth": depth, "main_video": batch(3)})
    assert [moment["depth"] is depth for moment in moments] == [True, True, True]


def test_batches_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="main_video has 4, depth has 8 frames"):
        split({"main_video": batch(4), "depth": batch(8)})


def test_batches_of_one_length_run_side_by_side() -> None:
    assert [list(moment) for moment in split({"a": batch(2), "b": batch(2)})] == [["a", "b"], ["a", "b"]]


def test_longer_pieces_of_sound_come_first() -> None:
    assert lengths(split({"main_video": batch(4), "main_audio": sound(10)}), "main_audio") == [3, 3, 2, 2]


def test_too_little_sound_leaves_the_last_moments_without() -> None:
    moments = split({"main_video": batch(4), "main_audio": sound(2)})
    assert [sorted(moment) for moment in moments] == [["main_audio", "main_video"]] * 2 + [["main_video"]] * 2


def test_sound_alone_and_sound_beside_one_frame_stay_whole() -> None:
    samples = sound(10)
    assert lengths(split({"main_audio": samples}), "main_audio") == [10]
    assert lengths(split({"main_video": batch(1)[0], "main_audio": samples}), "main_audio") == [10]


def test_nothing_gives_no_moments() -> None:
    assert split({}) == []


@given(st.integers(1, 40), st.integers(1, 200), st.integers(1, 2))
def test_sound_is_cut_evenly_and_completely(count: int, samples: int, channels: int) -> None:
    original = sound(samples, channels)
    moments = split({"main_video": np.zeros((count, 1, 1, 3), np.uint8), "main_audio": original})
    sizes = lengths(moments, "main_audio")
    assert len(moments) == count
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] - sizes[-1] <= 1
    pieces = [moment["main_audio"] for moment in moments if "main_audio" in moment]
    assert np.array_equal(np.concatenate(pieces, axis=1), original)


@given(
    count=st.integers(1, 20),
    batches=st.integers(1, 3),
    singles=st.integers(0, 2),
    samples=st.lists(st.integers(1, 100), max_size=3),
)
def test_every_moment_has_every_picture_and_each_sound_stays_whole(
    count: int, batches: int, singles: int, samples: list[int]
) -> None:
    pictures = {f"batch {number}": batch(count) + np.uint8(number) for number in range(batches)}
    still = {f"single {number}": batch(1)[0] for number in range(singles)}
    sounds = {f"sound {number}": sound(length, 1 + number % 2) for number, length in enumerate(samples)}
    moments = split({**still, **sounds, **pictures})
    assert len(moments) == count
    for index, moment in enumerate(moments):
        assert all(np.array_equal(moment[name], frames[index]) for name, frames in pictures.items())
        assert all(moment[name] is frame for name, frame in still.items())
    for name, whole in sounds.items():
        pieces = [moment[name] for moment in moments if name in moment]
        assert np.array_equal(np.concatenate(pieces, axis=1), whole)
        assert all(piece.shape[1] > 0 for piece in pieces)
