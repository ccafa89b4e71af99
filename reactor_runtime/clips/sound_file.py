"""One track of sound as a WAV file that is valid while it grows."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.media import wav

# So many samples are converted at once: an hour of sound then needs no more memory than a second.
WIDENED_SAMPLES = 1 << 16


class SoundFile:
    """Write one track of sound as a WAV file that follows the presentation times.

    A gap becomes silence. A piece that begins before the end of the file replaces the samples from there on, as after
    a flush. The file is mono until a piece is stereo, and valid after each call.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._channels = 1
        self._written = 0

    def write(self, samples: NDArray[np.int16], sample_rate: int, at_s: float, *, after_flush: bool) -> None:
        file = self._file = self._file or self._path.open("w+b")
        if len(samples) > self._channels:
            self._widen(file)
        elif len(samples) < self._channels:
            samples = np.repeat(samples, self._channels, axis=0)
        begin = round(at_s * sample_rate)
        # A smaller difference is rounding; correcting it would be audible as a click.
        if after_flush or abs(begin - self._written) > sample_rate // 100:
            self._written = begin
        file.truncate(self._offset(self._written))
        file.seek(self._offset(self._written))
        file.write(samples.T.astype("<i2").tobytes())
        self._written += samples.shape[1]
        file.seek(0)
        file.write(wav.header(self._channels, sample_rate, self._written))
        file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _offset(self, sample: int) -> int:
        return wav.HEADER_BYTES + 2 * self._channels * sample

    def _widen(self, file: BinaryIO) -> None:
        """Convert a mono file to stereo from its end to its beginning, so that no unread samples are overwritten."""
        for begin in range((self._written - 1) // WIDENED_SAMPLES * WIDENED_SAMPLES, -1, -WIDENED_SAMPLES):
            file.seek(self._offset(begin))
            mono = file.read(2 * min(WIDENED_SAMPLES, self._written - begin))
            file.seek(wav.HEADER_BYTES + 4 * begin)
            file.write(np.frombuffer(mono, "<i2").repeat(2).tobytes())
        self._channels = 2
