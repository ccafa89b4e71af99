from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from reactor_runtime.media import jpeg
from reactor_runtime.media.bands import BLOCK, MOST, bands

THREADS = st.integers(1, 4)
SIDES = st.integers(1, jpeg.MAX_SIDE)


def noise(height: int, width: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.random.default_rng(7).integers(0, 256, (height, width, 3), np.uint8)


@given(SIDES, SIDES, THREADS)
def test_bands_cover_a_picture_in_order(height: int, width: int, threads: int) -> None:
    cut = bands(height, width, threads)
    assert 1 <= len(cut) <= MOST
    assert [row for band in cut for row in range(height)[band]] == list(range(height))


@given(SIDES, SIDES, THREADS)
def test_all_bands_but_the_last_are_whole_blocks_of_one_height(height: int, width: int, threads: int) -> None:
    *others, last = (band.stop - band.start for band in bands(height, width, threads))
    assert all(rows == others[0] and rows % BLOCK == 0 and last <= rows for rows in others)


@pytest.mark.parametrize(
    ("height", "width", "two", "more"), [(480, 640, 1, 1), (720, 1280, 1, 4), (1080, 1920, 2, 6), (1, 4096, 1, 1)]
)
def test_the_larger_a_frame_the_more_bands(height: int, width: int, two: int, more: int) -> None:
    assert (len(bands(height, width, 2)), len(bands(height, width, 3))) == (two, more)


@given(st.integers(1, 1200), st.integers(600, 1400), st.sampled_from([40, 85]))
def test_what_is_joined_is_the_picture_encoded_at_once_to_the_last_bit(height: int, width: int, quality: int) -> None:
    frame = noise(height, width)
    files = [jpeg.encode(frame[band], quality=quality) for band in bands(height, width, 4)]
    joined = jpeg.join_bands(files)
    assert np.array_equal(jpeg.decode(joined), jpeg.decode(jpeg.encode(frame, quality=quality)))


def test_another_decoder_reads_it_whole() -> None:
    frame = noise(1088, 1920)
    with Image.open(io.BytesIO(jpeg.join_bands([jpeg.encode(frame[band]) for band in bands(1088, 1920, 4)]))) as image:
        assert image.size == (1920, 1088)
        shown = np.asarray(image.convert("RGB"))
    assert np.array_equal(shown, jpeg.decode(jpeg.encode(frame)))
