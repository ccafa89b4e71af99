"""Read clips back with PyAV: the frames with their times, and the sound."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Shown:
    at_s: float
    array: NDArray[Any]


def frames_of(path: Path) -> list[Shown]:
    """Return the frames of a file, as RGB."""
    with av.open(str(path)) as file:
        return [Shown(float(frame.time), frame.to_ndarray(format="rgb24")) for frame in file.decode(video=0)]


def sound_of(path: Path, track: int = 0) -> NDArray[np.int16]:
    """Return the samples `(2, n)` of an audio track."""
    with av.open(str(path)) as file:
        converter = av.AudioResampler(format="s16p", layout="stereo")
        pieces = [piece.to_ndarray() for frame in file.decode(audio=track) for piece in converter.resample(frame)]
    return np.concatenate(pieces, axis=1)


def duration_s(path: Path) -> float:
    with av.open(str(path)) as file:
        assert file.duration is not None, "the container has a length"
        return file.duration / 1_000_000


def codecs_of(path: Path) -> list[str]:
    with av.open(str(path)) as file:
        return [stream.codec_context.name for stream in file.streams.get()]
