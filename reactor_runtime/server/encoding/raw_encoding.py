"""Raw pixels as an encoding of video tracks: an array in NumPy's format, without loss and on one rung."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.media import npy
from reactor_runtime.server.encoding.track_encoding import Rung
from reactor_runtime.wire import containers


class RawEncoding:
    """Copy each frame into an NPY."""

    name = "raw"
    container = containers.NPY
    rungs = (Rung(100, 1.0, 1.0),)

    def bands(self, height: int, width: int, threads: int) -> Sequence[slice]:  # noqa: ARG002
        return (slice(0, height),)

    def encode(self, pixels: NDArray[np.uint8], rung: int) -> bytes:  # noqa: ARG002
        return npy.encode(pixels)

    def join(self, parts: Sequence[bytes]) -> bytes:
        (file,) = parts
        return file


RAW = RawEncoding()
