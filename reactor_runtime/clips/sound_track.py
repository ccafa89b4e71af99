"""Joins the pieces of one audio track to continuous stereo samples for a file."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# A piece that is nearer to the end of the previous one than this part of a second follows it without a gap.
ROUNDING = 200


class SoundTrack:
    """Join int16 pieces `(1 or 2, samples)`, which come with their start times, to samples `(2, n)` without holes.

    Gaps become silence. A piece that starts before the end of the previous one replaces the rest of that, as after a
    flush; the newest piece is therefore held back.
    """

    def __init__(self, sample_rate: int) -> None:
        self.sample_rate = sample_rate
        self._position = 0
        self._held = np.zeros((2, 0), np.int16)

    def add(self, at_s: float, samples: NDArray[np.int16]) -> NDArray[np.int16]:
        """Add a piece, and return the samples before it that have not been returned yet."""
        end = self._position + self._held.shape[1]
        begin = round(at_s * self.sample_rate)
        if abs(begin - end) <= self.sample_rate // ROUNDING:
            begin = end
        finished = self._take_until(max(begin, self._position))
        self._held = np.array(np.broadcast_to(samples, (2, samples.shape[1])))
        return finished

    def close(self, end_s: float) -> NDArray[np.int16]:
        """Return the remaining samples, cut or filled with silence at `end_s`."""
        return self._take_until(max(round(end_s * self.sample_rate), self._position))

    def _take_until(self, end: int) -> NDArray[np.int16]:
        count = end - self._position
        taken = self._held[:, :count]
        self._position, self._held = end, self._held[:, :0]
        return np.pad(taken, ((0, 0), (0, count - taken.shape[1])))
