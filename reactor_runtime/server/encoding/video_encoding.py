"""The interface of an encoding whose frames depend on those before them, such as H.264, and of an encoder of it.

Viewers that take the same frames share an encoder; `delivery/cohort.py` owns it. Encodings whose frames are decoded
alone are `track_encoding.py`.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.wire.containers import Container
from reactor_runtime.wire.media_header import MediaHeader


class VideoEncoder(Protocol):
    """Encode the frames of one track in order; one thread at a time uses it. Raises any exception if it can't."""

    def encode(
        self, pixels: NDArray[np.uint8], header: MediaHeader, interval_s: float, *, bits: int, key: bool
    ) -> bytes:
        """Return the file of a frame with its header, of about so many bits; decoding can begin with a `key`.

        A frame of another size than the one before is a key in any case, and so is one after a change of `bits` that
        the open encoder can't follow.
        """


class VideoEncoding(Protocol):
    """Make encoders; `name` is what clients choose it by, `container` the kind of its files."""

    @property
    def name(self) -> str: ...

    @property
    def container(self) -> Container: ...

    def accepts(self, height: int, width: int) -> bool:
        """Return whether frames of a size can be encoded."""

    def open(self, threads: int) -> VideoEncoder:
        """Return an encoder, which may use so many threads."""
