"""What encoding gives: files with our header in them, as they go over the wire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.server.encoding.ladder import RUNGS
from reactor_runtime.wire.media_header import FrameFlag, attach, detach


@dataclass(frozen=True, slots=True)
class EncodedFrame:
    """A JPEG with its header, ready for the socket; `worse` has the same picture on other rungs of the ladder.

    `rung` is that of `data`, the best there is. Where that is a smaller picture, `pixels` has it in full size.
    """

    track: str
    seq: int
    data: bytes
    interval_s: float
    rung: int = 0
    worse: Mapping[int, bytes] = field(default_factory=dict)
    pixels: NDArray[np.uint8] | None = field(default=None, compare=False, repr=False)

    @property
    def in_full_size(self) -> bool:
        """Tell whether the best file has the size that the model made it in."""
        return RUNGS[self.rung].scale == 1

    @property
    def by_rung(self) -> dict[int, bytes]:
        """All the files."""
        return {self.rung: self.data, **self.worse}

    def nearest(self, rung: int) -> tuple[int, bytes]:
        """Give the file of a rung, or of the next worse one there is, or of the worst; and which it is."""
        if not self.worse or rung <= self.rung:
            return self.rung, self.data
        found = min((r for r in self.worse if r >= rung), default=max(self.worse))
        return found, self.worse[found]

    def as_held(self) -> EncodedFrame:
        """Give the same frame as it is sent to a client that came after it was shown."""
        return replace(self, data=_held(self.data), worse={rung: _held(data) for rung, data in self.worse.items()})


def _held(data: bytes) -> bytes:
    header, file = detach(data)
    assert header is not None, "every frame of ours carries its header"
    return attach(replace(header, flags=header.flags | FrameFlag.HELD), file)


@dataclass(frozen=True, slots=True)
class EncodedSound:
    """A WAV with its header, ready for the socket."""

    track: str
    data: bytes
    duration_s: float


class Work(NamedTuple):
    """When a thread of the encoder's was at it."""

    began: float
    ended: float
    thread: int


@dataclass(frozen=True, slots=True)
class Encoded:
    """What a job gave, and the work it took: more than one thread's, where bands were encoded ahead."""

    frames: tuple[EncodedFrame, ...]
    sounds: tuple[EncodedSound, ...]
    work: tuple[Work, ...]

    @property
    def began(self) -> float:
        return min(work.began for work in self.work)

    @property
    def ended(self) -> float:
        return max(work.ended for work in self.work)
