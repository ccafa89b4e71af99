"""What a client gets of pictures and sound: one value a file, with what its header says."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.error_codes import ErrorCode
from reactor_runtime.errors import WireError
from reactor_runtime.media import jpeg, wav
from reactor_runtime.wire.media_header import FrameFlag, MediaHeader, detach


@dataclass(frozen=True, slots=True, eq=False)  # arrays have no equality that is true or false
class Sound:
    """A piece of sound: int16 `(channels, samples)`, the file it came as, and what its header says.

    `pts_s` is when its first sample is due, on the time line of the frames; `after_flush` says that it replaces what is
    still to be heard.
    """

    track: str
    seq: int
    pts_s: float
    applied: int
    after_flush: bool
    delay_ms: float
    sample_rate: int
    array: NDArray[np.int16] = field(repr=False)
    wav: bytes = field(repr=False)


@dataclass(frozen=True)  # no slots: the decoded picture is kept where the first look puts it
class Frame:
    """A picture: `array` is uint8 RGB `(height, width, 3)`, `jpeg` the file as it came.

    `seq` counts the frames of its track in the session: a gap is what this client was spared. `pts_s` is when it is
    due, in seconds since the session's start; `applied` the number of the last event applied before it was made.
    `delay_ms` is from the model's hand-over to the arrival here. `held` is the picture on screen when this client came.
    """

    track: str
    seq: int
    pts_s: float
    applied: int
    after_flush: bool
    held: bool
    delay_ms: float
    jpeg: bytes = field(repr=False)

    @functools.cached_property
    def array(self) -> NDArray[np.uint8]:
        """The pixels; decoded by whoever asks first."""
        return jpeg.decode(self.jpeg)


def read_header(data: bytes) -> MediaHeader:
    """Read what the server's file says of itself. Raises `WireError` for a file without."""
    header, _ = detach(data)
    if header is None:
        raise WireError(ErrorCode.BAD_MEDIA, "a file without a reactor header")
    return header


def read_frame(header: MediaHeader, data: bytes, *, delay_s: float) -> Frame:
    """Make a frame out of a JPEG of the server's; nothing is decoded yet."""
    return Frame(
        header.track,
        header.seq,
        header.pts_us / 1e6,
        header.applied,
        bool(header.flags & FrameFlag.AFTER_FLUSH),
        bool(header.flags & FrameFlag.HELD),
        1e3 * delay_s,
        data,
    )


def read_sound(header: MediaHeader, data: bytes, *, delay_s: float) -> Sound:
    """Make a piece of sound out of a WAV of the server's."""
    return Sound(
        header.track,
        header.seq,
        header.pts_us / 1e6,
        header.applied,
        bool(header.flags & FrameFlag.AFTER_FLUSH),
        1e3 * delay_s,
        wav.read_header(data).sample_rate,
        wav.decode(data),
        data,
    )
