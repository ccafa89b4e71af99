"""The interface of an encoding whose frames are decoded alone: its properties, and how a frame becomes a file.

Clients, ladder, jobs and delivery know encodings by this interface alone. docs/architecture.md describes how to add
one. Encodings whose frames depend on those before them are `video_encoding.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.wire.containers import Container

TOP = 0


class Rung(NamedTuple):
    """One quality of an encoding.

    `quality` is for statistics, 100 is the best. `scale` is that of width and height, `share` the approximate share of
    the top rung's bytes.
    """

    quality: int
    scale: float
    share: float


class TrackEncoding(Protocol):
    """Encode the frames of a video track; encoder threads call the methods, several at once.

    `name` is what clients choose it by; `container` is the kind of its files; `rungs` are its qualities, the best
    first, full size before smaller ones.
    """

    @property
    def name(self) -> str: ...

    @property
    def container(self) -> Container: ...

    @property
    def rungs(self) -> tuple[Rung, ...]: ...

    def bands(self, height: int, width: int, threads: int) -> Sequence[slice]:
        """Return the rows of a frame that are encoded in parallel on `threads`; one range for the whole frame."""

    def encode(self, pixels: NDArray[np.uint8], rung: int) -> bytes:
        """Encode a frame, or a band of one, in the size that it has."""

    def join(self, parts: Sequence[bytes]) -> bytes:
        """Make the file of a frame, without a header, from its encoded bands, or from the encoded frame."""
