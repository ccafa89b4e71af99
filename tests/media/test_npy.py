from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from reactor_runtime.errors import WireError
from reactor_runtime.media import npy


@given(st.integers(1, 70), st.integers(1, 70), st.integers(0, 2**32 - 1))
def test_numpy_writes_the_same_file_and_reads_it(height: int, width: int, seed: int) -> None:
    frame = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    written = io.BytesIO()
    np.save(written, frame)
    assert npy.encode(frame) == written.getvalue()
    assert np.array_equal(npy.decode(written.getvalue()), frame)


def test_a_view_is_encoded_like_its_copy() -> None:
    frame = np.arange(600, dtype=np.uint8).reshape(10, 20, 3)[::-2, 3:17]
    assert npy.encode(frame) == npy.encode(frame.copy())


def test_decoded_pixels_can_be_changed() -> None:
    decoded = npy.decode(npy.encode(np.zeros((2, 2, 3), np.uint8)))
    decoded[:] = 1


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((2, 3), np.uint8),
        np.zeros((2, 3, 4), np.uint8),
        np.zeros((2, 3, 3), np.float32),
        np.asfortranarray(np.zeros((2, 3, 3), np.uint8)),
    ],
    ids=["two dimensions", "four channels", "float", "fortran order"],
)
def test_another_array_is_refused(array: NDArray[np.generic]) -> None:
    file = io.BytesIO()
    np.save(file, array)
    with pytest.raises(WireError, match="no uint8 array"):
        npy.decode(file.getvalue())


@pytest.mark.parametrize("length", [0, 117, 119, 65535])
def test_a_file_whose_head_has_another_length_is_refused_as_numpy_does(length: int) -> None:
    file = bytearray(npy.encode(np.zeros((8, 4, 3), np.uint8)))
    assert int.from_bytes(file[8:10], "little") == 118
    file[8:10] = length.to_bytes(2, "little")
    with pytest.raises(WireError, match="no uint8 array"):
        npy.decode(bytes(file))


@given(st.integers(0, 200))
def test_a_file_that_is_cut_off_is_refused(keep: int) -> None:
    file = npy.encode(np.zeros((8, 4, 3), np.uint8))
    with pytest.raises(WireError):
        npy.decode(file[:keep])
