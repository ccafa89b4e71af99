"""A folder with each frame as a PNG file, and each audio track as a WAV file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import av
import numpy as np
from numpy.typing import NDArray

from reactor_runtime.clips.clip import ClipTrack, VideoPacket
from reactor_runtime.clips.library import name_for_av, writing
from reactor_runtime.clips.sound_track import SoundTrack
from reactor_runtime.media import wav


class ImageFolder:
    """Write `<track>-000001.png` and so on, with the exact pixels, and `<track>.wav`, valid after each call."""

    def __init__(self, path: Path, tracks: Sequence[ClipTrack]) -> None:
        self._path = path
        self._counts: dict[str, int] = {}
        self._sounds = {
            track.name: _WavFile(path / f"{track.name}.wav", track.sample_rate)
            for track in tracks
            if track.sample_rate is not None
        }

    def write_frame(self, track: str, at_s: float, frame: NDArray[np.uint8]) -> None:  # noqa: ARG002 (files have no times)
        number = self._counts[track] = self._counts.get(track, 0) + 1
        path = self._path / f"{track}-{number:06}.png"
        with writing(path):
            av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), "rgb24").save(name_for_av(path))

    def write_packet(self, track: str, at_s: float, packet: VideoPacket) -> bool:  # noqa: ARG002 (images are encoded)
        return False

    def write_sound(self, track: str, at_s: float, samples: NDArray[np.int16]) -> None:
        self._sounds[track].write(at_s, samples)

    def close(self, end_s: float) -> list[Path]:
        written = [sound.close(end_s) for sound in self._sounds.values()]
        return [self._path] if self._counts or any(written) else []


class _WavFile:
    def __init__(self, path: Path, sample_rate: int) -> None:
        self._path = path
        self._sound = SoundTrack(sample_rate)
        self._file: BinaryIO | None = None
        self._count = 0

    def write(self, at_s: float, samples: NDArray[np.int16]) -> None:
        self._append(self._sound.add(at_s, samples))

    def close(self, end_s: float) -> bool:
        """Complete the file, and return whether there is one."""
        if self._file is None:
            return False
        self._append(self._sound.close(end_s))
        self._file.close()
        return True

    def _append(self, samples: NDArray[np.int16]) -> None:
        with writing(self._path):
            file = self._file = self._file or self._path.open("wb")
            self._count += samples.shape[1]
            file.seek(0)
            file.write(wav.header(2, self._sound.sample_rate, self._count))
            file.seek(0, 2)
            file.write(samples.T.astype("<i2").tobytes())
            file.flush()
