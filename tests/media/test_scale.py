from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactor_runtime.media.scale import SMALLEST, halved


@given(st.integers(2 * SMALLEST, 2 * SMALLEST + 9), st.integers(2 * SMALLEST, 2 * SMALLEST + 9), st.integers(0, 9))
def test_each_pixel_is_the_rounded_mean_of_four(height: int, width: int, seed: int) -> None:
    frame = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    even = frame[: height // 2 * 2, : width // 2 * 2].astype(float)
    means = even.reshape(height // 2, 2, width // 2, 2, 3).mean(axis=(1, 3))
    assert np.array_equal(halved(frame), np.floor(means + 0.5).astype(np.uint8))


def test_white_stays_white() -> None:
    assert halved(np.full((400, 400, 3), 255, np.uint8)).min() == 255


@pytest.mark.parametrize("shape", [(1, 1, 3), (180, 400, 3), (2 * SMALLEST - 1, 1000, 3)])
def test_a_small_picture_is_left_as_it_is(shape: tuple[int, int, int]) -> None:
    frame = np.zeros(shape, np.uint8)
    assert halved(frame) is frame


def test_a_view_and_a_read_only_frame_are_fine() -> None:
    frame = np.arange(500 * 500 * 3, dtype=np.uint32).astype(np.uint8).reshape(500, 500, 3)
    frame.flags.writeable = False
    crop = frame[10:410, 20:420]
    assert np.array_equal(halved(crop), halved(crop.copy()))
