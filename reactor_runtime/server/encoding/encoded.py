"""The results of encoding: files with their media header, ready for the socket."""

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
    """A frame as a file with its header: `data` on its best rung, `worse` on the other rungs in use.

    If the best rung is scaled down, `pixels` has the frame in full size.
    """

    track: str
    seq: int
    data: bytes
    interval_s: float
    rung: int = 0
    worse: Mapping[int, bytes] = field(default_factory=dict)
    pixels: NDArray[np.uint8] | None = field(default=None, compare=False, repr=False)

    @property
    def is_full_size(self) -> bool:
        """Whether the best file has the size that the model made the frame in."""
        return RUNGS[self.rung].scale == 1

    @property
    def by_rung(self) -> dict[int, bytes]:
        """The files of all rungs."""
        return {self.rung: self.data, **self.worse}

    def file_on(self, rung: int) -> tuple[int, bytes]:
        """Return the file of a rung, or else of the next worse one, or else of the worst, with its rung."""
        if not self.worse or rung <= self.rung:
            return self.rung, self.data
        found = min((r for r in self.worse if r >= rung), default=max(self.worse))
        return found, self.worse[found]

    def as_held(self) -> EncodedFrame:
        """Return the frame with the flag for clients that joined after it was shown."""
        return replace(
            self,
            data=_with_held_flag(self.data),
            worse={rung: _with_held_flag(data) for rung, data in self.worse.items()},
        )


def _with_held_flag(data: bytes) -> bytes:
    header, file = detach(data)
    assert header is not None, "an encoded frame carries its header"
    return attach(replace(header, flags=header.flags | FrameFlag.HELD), file)


@dataclass(frozen=True, slots=True)
class EncodedSound:
    """A piece of sound as a WAV file with its header."""

    track: str
    data: bytes
    duration_s: float


class Work(NamedTuple):
    """The time that one encoder thread spent."""

    began: float
    ended: float
    thread: int


@dataclass(frozen=True, slots=True)
class Encoded:
    """The result of a job and the work of its threads: several threads where bands were encoded ahead."""

    frames: tuple[EncodedFrame, ...]
    sounds: tuple[EncodedSound, ...]
    work: tuple[Work, ...]

    @property
    def began(self) -> float:
        return min(work.began for work in self.work)

    @property
    def ended(self) -> float:
        return max(work.ended for work in self.work)
