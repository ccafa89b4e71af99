"""Files as inputs: the frames of a video or an image, and the sound of any file, decoded by PyAV."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.clips.library import name_for_av, need_av, reading
from reactor_runtime.errors import UsageError

# An image is one frame of a camera that sends so many a second, and the last frame of a video lasts as long.
IMAGE_FPS = 30.0


def read_frames(path: Path) -> Iterator[tuple[float, NDArray[np.uint8]]]:
    """Yield RGB frames `(H, W, 3)` with their times, without end: a video repeats.

    The array of an image is repeated 30 times a second. Raises UsageError for a file that can't be read or has no
    frames.
    """
    begins_s = 0.0
    while True:
        count, last_s = 0, 0.0
        for at_s, frame in _decode(path):
            yield begins_s + at_s, frame
            count, last_s = count + 1, at_s
        if not count:
            raise UsageError(f"{path} has no frames", hint="name a video or an image")
        while count == 1:
            begins_s += 1 / IMAGE_FPS
            yield begins_s, frame
        begins_s += last_s + 1 / IMAGE_FPS


def read_sound(path: Path, sample_rate: int) -> NDArray[np.int16]:
    """Return the sound of a file, `(channels, samples)` with 1 or 2 channels, converted to `sample_rate`.

    Raises UsageError for a file that can't be read or has no sound.
    """
    need_av(path)
    import av

    with reading(path), av.open(name_for_av(path)) as file:
        if not file.streams.audio:
            raise UsageError(f"{path} has no sound")
        layout = "mono" if file.streams.audio[0].channels == 1 else "stereo"
        converter = av.AudioResampler(format="s16p", layout=layout, rate=sample_rate)
        pieces = [piece.to_ndarray() for frame in file.decode(audio=0) for piece in converter.resample(frame)]
        pieces += [piece.to_ndarray() for piece in converter.resample(None)]
    if not pieces:
        raise UsageError(f"{path} has no sound")
    return np.concatenate(pieces, axis=1).astype(np.int16)


def _decode(path: Path) -> Iterator[tuple[float, NDArray[np.uint8]]]:
    """Yield the frames of one pass, from 0."""
    need_av(path)
    import av

    with reading(path), av.open(name_for_av(path)) as file:
        if not file.streams.video:
            return
        first_s: float | None = None
        for number, av_frame in enumerate(file.decode(video=0)):
            at_s = number / IMAGE_FPS if av_frame.time is None else float(av_frame.time)
            first_s = at_s if first_s is None else first_s
            frame = av_frame.to_ndarray(format="rgb24")
            # Phones store how the camera was held instead of turning the frames.
            yield max(0.0, at_s - first_s), np.ascontiguousarray(np.rot90(frame, round(av_frame.rotation / 90)))
