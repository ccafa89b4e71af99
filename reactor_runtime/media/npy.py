"""Frames as files of NumPy's format `.npy`, version 1.0: every pixel as it is.

Written and read by hand, because only one kind of array occurs: uint8 of shape (height, width, 3).
"""

from __future__ import annotations

import functools
import re

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.errors import WireError
from reactor_runtime.errors.codes import ErrorCode

MAGIC = b"\x93NUMPY\x01\x00"
# The array begins at a multiple of this.
_ALIGNED = 64
_HEAD = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '\|u1', 'fortran_order': False, 'shape': \((\d{1,5}), (\d{1,5}), 3\), \} *\n",
    re.DOTALL,
)


def encode(frame: NDArray[np.uint8]) -> bytes:
    """Encode an RGB frame `(height, width, 3)`, which may be read-only or a view."""
    height, width, _ = frame.shape
    return b"".join((_head(height, width), np.ascontiguousarray(frame).data))


def read_size(file: bytes) -> tuple[int, int]:
    """Return height and width of the frame in a file. Raises `WireError` with BAD_MEDIA for any other file."""
    return _read_head(file)[:2]


def decode(file: bytes) -> NDArray[np.uint8]:
    """Return the frame of a file as a new array. Raises as `read_size`."""
    height, width, start = _read_head(file)
    return np.frombuffer(file, np.uint8, offset=start).reshape(height, width, 3).copy()


def _read_head(file: bytes) -> tuple[int, int, int]:
    """Return height, width and where the pixels begin."""
    head = _HEAD.match(file)
    if head is None or head.end() != len(MAGIC) + 2 + int.from_bytes(file[len(MAGIC) : len(MAGIC) + 2], "little"):
        raise WireError(ErrorCode.BAD_MEDIA, "NPY that holds no uint8 array of shape (height, width, 3)")
    height, width = int(head[1]), int(head[2])
    if not height * width or len(file) != head.end() + height * width * 3:
        raise WireError(ErrorCode.BAD_MEDIA, f"NPY of {len(file)} bytes for a frame of {width}×{height}")
    return height, width, head.end()


@functools.lru_cache(maxsize=64)
def _head(height: int, width: int) -> bytes:
    described = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({height}, {width}, 3), }}".encode()
    # Two bytes for the length come before it, and a newline after it.
    padding = b" " * (-(len(MAGIC) + 3 + len(described)) % _ALIGNED)
    text = described + padding + b"\n"
    return MAGIC + len(text).to_bytes(2, "little") + text
