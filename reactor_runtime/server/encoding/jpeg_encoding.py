"""JPEG as an encoding of video tracks: its ladder, and bands that become restart intervals of one file."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.media import jpeg
from reactor_runtime.media.bands import bands
from reactor_runtime.server.encoding.track_encoding import Rung
from reactor_runtime.wire import containers


class JpegEncoding:
    """Encode each frame as a baseline JPEG."""

    name = "jpeg"
    container = containers.JPEG
    # Each rung takes about half the bytes of the one before for a grainy 720p frame, 0.6 for a smooth one. Below
    # quality 50 half the width and height looks better for the same bytes and takes less time to encode, scaling
    # included.
    rungs = (
        Rung(jpeg.QUALITY, 1.0, 1.0),
        Rung(70, 1.0, 0.58),
        Rung(50, 1.0, 0.38),
        Rung(80, 0.5, 0.2),
        Rung(60, 0.5, 0.12),
        Rung(40, 0.5, 0.075),
        Rung(60, 0.25, 0.03),
    )

    def bands(self, height: int, width: int, threads: int) -> Sequence[slice]:
        return bands(height, width, threads)

    def encode(self, pixels: NDArray[np.uint8], rung: int) -> bytes:
        return jpeg.encode(pixels, quality=self.rungs[rung].quality)

    def join(self, parts: Sequence[bytes]) -> bytes:
        return jpeg.join_bands(parts)


JPEG = JpegEncoding()
