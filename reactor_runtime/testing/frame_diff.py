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

from reactor_runtime.errors import WireError
from reactor_runtime.media import jpeg
from reactor_runtime.media.quality import psnr, ssim
from reactor_runtime.recording.entries import OutputEntry, hash_pieces
from reactor_runtime.recording.file import SessionRecording
from reactor_runtime.recording.pieces import OWN_QUALITY, Pieces
from reactor_runtime.recording.records import refusing_damage
from reactor_runtime.testing.comparison import Replay

MOST_PAIRS = 6


@dataclass(frozen=True, slots=True)
class FrameSimilarity:
    """Hold PSNR in dB, infinite for equal frames, and SSIM of a frame and the recorded one; 0 if their sizes differ.

    If a JPEG was recorded, they are those of the JPEGs of both, as clients see them.
    """

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
    first. `unsent` counts the frames that differ and have no JPEG, because the model dropped them before the server
    had them, or the recording was cut off.
    """

    recording: SessionRecording
    similarities: list[FrameSimilarity] = field(default_factory=list)
    unsent: int = 0
    _outputs: Iterator[OutputEntry] = field(init=False)
    _has_jpegs: bool = field(init=False)
    # The frames that differ and were compared; of such frames, the JPEGs may be equal.
    _compared: int = 0
    _numbers: dict[str, Iterator[int]] = field(init=False)
    _pairs: list[tuple[float, int, FramePair]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._outputs = iter(self.recording.outputs)
        self._has_jpegs = any(frame.shape is None for frame in self.recording.stored_frames.values())
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
        explained = self._compared + self.unsent
        if explained < result.different:
            return (
                f"{result.different - explained} of what differs is sound, or frames that were left out when recorded"
            )
        return "" if self.lowest_psnr >= tolerance else f"the lowest PSNR is {self.lowest_psnr:.1f} dB"

    def add_output(self, step: int, pieces: Pieces) -> None:
        """Compare the frames of an output; its arrays may change later."""
        recorded, replayed = next(self._outputs).hashes, hash_pieces(pieces)
        for track, arrays in pieces.items():
            for index, array in enumerate(arrays):
                number, before = next(self._numbers[track]), recorded.get(track, [])
                if array.ndim == 3:
                    place = FrameSimilarity(step, track, number, math.inf, 1.0)
                    self._add_frame(place, array, differs=before[index : index + 1] != [replayed[track][index]])

    def _add_frame(self, place: FrameSimilarity, array: NDArray[np.uint8], *, differs: bool) -> None:
        stored = self.recording.stored_frames.get((place.track, place.frame))
        if not differs:
            if stored is not None:
                self.similarities.append(place)
            return
        recorded = self.recording.frame(place.track, place.frame)
        if recorded is None or stored is None:
            self.unsent += self._has_jpegs
        elif not isinstance(recorded.content, bytes):
            self._compare(place, recorded.content, array)
        elif recorded.content:
            # A replayed JPEG of the model is decoded already.
            is_own = recorded.quality == OWN_QUALITY
            with refusing_damage(self.recording.path, stored.recorded_at):
                shown = _decode(recorded.content, strict=not is_own)
            self._compare(place, shown, array if is_own else _decode(jpeg.encode(array, quality=recorded.quality)))

    def _compare(self, place: FrameSimilarity, recorded: NDArray[np.uint8], replayed: NDArray[np.uint8]) -> None:
        same_size = recorded.shape == replayed.shape
        ratio = psnr(recorded, replayed) if same_size else 0.0
        likeness = 1.0 if ratio == math.inf else ssim(recorded, replayed) if same_size else 0.0
        similarity = FrameSimilarity(place.step, place.track, place.frame, ratio, likeness)
        self._compared += 1
        self.similarities.append(similarity)
        if ratio == math.inf or (len(self._pairs) == MOST_PAIRS and -ratio <= self._pairs[0][0]):
            return
        pair = FramePair(similarity, recorded, replayed.copy())
        # The smallest of the heap is the pair with the highest ratio.
        heapq.heappush(self._pairs, (-ratio, -len(self.similarities), pair))
        if len(self._pairs) > MOST_PAIRS:
            heapq.heappop(self._pairs)


def _decode(file: bytes, *, strict: bool = True) -> NDArray[np.uint8]:
    try:
        return jpeg.decode(file, strict=strict)
    except WireError as error:
        raise ValueError(str(error)) from None
