"""Received media: a frame or a piece of sound with the values of its header, and the buffers that keep them.

Sockets and acknowledgements belong to `streams.py`.
"""

from __future__ import annotations

import functools
import json
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.errors import WireError
from reactor_runtime.errors.codes import ErrorCode
from reactor_runtime.media import jpeg, npy, wav
from reactor_runtime.wire.containers import JPEG, NPY, Container
from reactor_runtime.wire.media_header import FrameFlag, MediaHeader

MAX_SOUND_S = 5.0

Decoder = Callable[[bytes], NDArray[np.uint8]]
# How this client decodes the pixels of each container of frames.
DECODERS: Mapping[Container, Decoder] = {JPEG: jpeg.decode, NPY: lambda file: npy.decode(NPY.detach(file)[1])}


# Without `eq`: comparing arrays gives an array, not a boolean.
@dataclass(frozen=True, slots=True, eq=False)
class Sound:
    """A piece of sound: int16 `(channels, samples)`, the WAV file it came as, and the values of its header.

    `pts_s` is the due time of its first sample, on the time line of the frames. `after_flush` means that it replaces
    sound that has not been played.
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


class EarlierMessage(NamedTuple):
    """A message of a video stream without its frame, for files."""

    number: int
    pts_s: float
    data: bytes


# Without `slots`: `cached_property` stores the decoded pixels in the instance's dictionary.
@dataclass(frozen=True)
class Frame:
    """A frame: `array` is uint8 RGB `(height, width, 3)`, `jpeg` the frame as a file.

    `data` is what came: that file, or a message of a video stream, of which `number` counts the messages.
    `seq` counts the frames of its track in the session; a gap is frames that this client skipped. `pts_s` is its due
    time, in seconds since the session's start; `applied` the number of the last event applied before it was made.
    `delay_ms` is the time from the model's output to the arrival here. `held` marks the latest frame at the time this
    client joined. `metadata` is what the model sent with the frame, None for none; bytes are `{"b": base64}`.
    """

    track: str
    seq: int
    pts_s: float
    applied: int
    after_flush: bool
    held: bool
    delay_ms: float
    data: bytes = field(repr=False)
    metadata: dict[str, Any] | None = field(default=None, hash=False)
    number: int | None = field(default=None, repr=False, compare=False)
    # The messages of a video stream before this one that a reader may have skipped.
    earlier: tuple[EarlierMessage, ...] = field(default=(), repr=False, compare=False)
    arrived_s: float = field(default=0.0, repr=False, compare=False)
    _decode: Decoder = field(default=DECODERS[JPEG], repr=False, compare=False)

    @functools.cached_property
    def array(self) -> NDArray[np.uint8]:
        """Return the pixels, decoded on first access."""
        return self._decode(self.data)

    @functools.cached_property
    def jpeg(self) -> bytes:
        """Return the JPEG as it came; a frame that came otherwise is encoded on first access."""
        return self.data if JPEG.matches(self.data) else jpeg.encode(self.array)


def read_header(container: Container, data: bytes) -> MediaHeader:
    """Return the header of a media file. Raises `WireError` for a file without one."""
    header = container.read(data)
    if header is None:
        raise WireError(ErrorCode.BAD_MEDIA, "a file without a reactor header")
    return header


def read_frame(
    header: MediaHeader,
    data: bytes,
    decode: Decoder,
    *,
    delay_s: float,
    arrived_s: float = 0.0,
    number: int | None = None,
    earlier: tuple[EarlierMessage, ...] = (),
) -> Frame:
    """Return a frame for a message of the server, without decoding it. Raises `WireError` for malformed metadata.

    `arrived_s` is monotonic; `number` counts the messages of a video stream, of which `earlier` are some.
    """
    return Frame(
        header.track,
        header.seq,
        header.pts_us / 1e6,
        header.applied,
        bool(header.flags & FrameFlag.AFTER_FLUSH),
        bool(header.flags & FrameFlag.HELD),
        1e3 * delay_s,
        data,
        _read_metadata(header.metadata),
        number,
        earlier,
        arrived_s,
        decode,
    )


def _read_metadata(text: bytes) -> dict[str, Any] | None:
    if not text:
        return None
    try:
        metadata = json.loads(text.decode())
    except (ValueError, RecursionError) as error:
        raise WireError(ErrorCode.BAD_MEDIA, f"a frame with metadata that is not JSON: {error}") from error
    if not isinstance(metadata, dict):
        raise WireError(ErrorCode.BAD_MEDIA, "a frame with metadata that is no JSON object")
    return metadata


def read_sound(header: MediaHeader, data: bytes, *, delay_s: float) -> Sound:
    """Return a piece of sound for a WAV file of the server."""
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


class NewestFrames:
    """Keep the newest frame of each track; a frame that was not taken is replaced.

    `arrived` counts the frames of a track over all sessions and connections, `over` those of sessions that have ended.
    """

    def __init__(self) -> None:
        self.arrived: dict[str, int] = {}
        self.over: dict[str, int] = {}
        self._newest: dict[str, Frame] = {}

    def put_frame(self, frame: Frame) -> bool:
        """Add a frame; return False for one that is not newer.

        A server sends the newest again after a break, and JPEGs beside the start of a video stream.
        """
        newest = self._newest.get(frame.track)
        if newest is not None and frame.seq <= newest.seq:
            is_again = frame.held and frame.seq == newest.seq
            overlaps = (frame.number is None) != (newest.number is None)
            if is_again or overlaps:
                return False
        self._newest[frame.track] = frame
        self.arrived[frame.track] = self.arrived.get(frame.track, 0) + 1
        return True

    def newest(self, track: str, *, after: int = 0) -> Frame | None:
        """Return the newest frame, or None if no more than `after` frames of the track have arrived."""
        return self._newest.get(track) if self.arrived.get(track, 0) > after else None

    def end_session(self) -> None:
        """Mark all frames that have arrived as frames of a session that has ended."""
        self.over = dict(self.arrived)

    def clear(self) -> None:
        """Drop the frames of a session that is over; `arrived` continues."""
        self._newest.clear()


class ReceivedSound:
    """Keep the pieces of each track in order; above 5 s the oldest piece is dropped.

    A piece that follows a flush replaces the pieces before it.
    """

    def __init__(self) -> None:
        self._pieces: dict[str, deque[Sound]] = {}
        self._seconds: dict[str, float] = {}

    def put_sound(self, sound: Sound) -> None:
        pieces = self._pieces.setdefault(sound.track, deque())
        if sound.after_flush:
            pieces.clear()
            self._seconds[sound.track] = 0.0
        pieces.append(sound)
        self._count(sound, 1)
        while self._seconds[sound.track] > MAX_SOUND_S and len(pieces) > 1:
            self._count(pieces.popleft(), -1)

    def take_sound(self, track: str) -> Sound | None:
        """Remove and return the oldest piece of a track, None if there is none."""
        pieces = self._pieces.get(track)
        if not pieces:
            return None
        sound = pieces.popleft()
        self._count(sound, -1)
        return sound

    def _count(self, sound: Sound, sign: int) -> None:
        seconds = sign * sound.array.shape[1] / sound.sample_rate
        self._seconds[sound.track] = self._seconds.get(sound.track, 0.0) + seconds
