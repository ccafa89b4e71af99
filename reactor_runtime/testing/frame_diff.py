"""Similarity of the frames of a replay to the recorded ones, and the frames that differ most."""

from __future__ import annotations

import heapq
import itertools
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.media.quality import psnr, ssim
from reactor_runtime.recording.entries import FrameEntry, Pieces
from reactor_runtime.recording.file import SessionRecording
from reactor_runtime.testing.comparison import Replay

MOST_PAIRS = 6


@dataclass(frozen=True, slots=True)
class FrameSimilarity:
    """Hold PSNR in dB, infinite for equal frames, and SSIM of a frame and the recorded one; 0 if their sizes differ."""

    step: int
    track: str
    frame: int
    psnr: float
    ssim: float


@dataclass(frozen=True, slots=True, eq=False)
class FramePair:
    """Hold a frame that differs, and the recorded one."""

    similarity: FrameSimilarity
    recorded: NDArray[np.uint8]
    replayed: NDArray[np.uint8]


@dataclass(slots=True)
class FrameDiff:
    """Compare the frames of a replay, as they come, with those of a recording that has frames.

    `similarities` are those of all frames that the recording has, `worst` the six pairs that differ most, the worst
    first.
    """

    recording: SessionRecording
    similarities: list[FrameSimilarity] = field(default_factory=list)
    _frames: Iterator[FrameEntry] = field(init=False)
    _next: FrameEntry | None = field(init=False)
    _numbers: dict[str, Iterator[int]] = field(init=False)
    _pairs: list[tuple[float, int, FramePair]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._frames = self.recording.frames()
        self._next = next(self._frames, None)
        self._numbers = defaultdict(itertools.count)

    @property
    def lowest_psnr(self) -> float:
        """Return the PSNR of the worst frame; infinity if all are equal."""
        return min((each.psnr for each in self.similarities), default=math.inf)

    @property
    def worst(self) -> list[FramePair]:
        return [pair for _, _, pair in sorted(self._pairs, reverse=True)]

    def refusal(self, result: Replay, tolerance: float) -> str:
        """Return why the output of a replay is not accepted; "" if it differs only in frames of at least this PSNR."""
        if result.others:
            return "not only frames differ"
        compared = sum(each.psnr < math.inf for each in self.similarities)
        if compared < result.different:
            return f"{result.different - compared} of what differs is sound, or frames that were left out when recorded"
        return "" if self.lowest_psnr >= tolerance else f"the lowest PSNR is {self.lowest_psnr:.1f} dB"

    def add_output(self, step: int, pieces: Pieces) -> None:
        """Compare the frames of an output; its arrays may change later."""
        for track, arrays in pieces.items():
            for array in arrays:
                number = next(self._numbers[track])
                recorded = self._recorded(track, number) if array.ndim == 3 else None
                if recorded is not None:
                    self._compare(FrameSimilarity(step, track, number, 0.0, 0.0), recorded, array)

    def _recorded(self, track: str, number: int) -> NDArray[np.uint8] | None:
        """Return a frame of the recording, None if it was left out because the disk was too slow."""
        while self._next is not None and self._next.track == track and self._next.frame < number:
            self._next = next(self._frames, None)
        if self._next is None or (self._next.track, self._next.frame) != (track, number):
            return None
        pixels, self._next = self._next.pixels, next(self._frames, None)
        return pixels

    def _compare(self, place: FrameSimilarity, recorded: NDArray[np.uint8], replayed: NDArray[np.uint8]) -> None:
        same_size = recorded.shape == replayed.shape
        ratio = psnr(recorded, replayed) if same_size else 0.0
        likeness = 1.0 if ratio == math.inf else ssim(recorded, replayed) if same_size else 0.0
        similarity = FrameSimilarity(place.step, place.track, place.frame, ratio, likeness)
        self.similarities.append(similarity)
        if ratio == math.inf or (len(self._pairs) == MOST_PAIRS and -ratio <= self._pairs[0][0]):
            return
        pair = FramePair(similarity, recorded, replayed.copy())
        # The smallest of the heap is the pair with the highest ratio.
        heapq.heappush(self._pairs, (-ratio, -len(self.similarities), pair))
        if len(self._pairs) > MOST_PAIRS:
            heapq.heappop(self._pairs)
