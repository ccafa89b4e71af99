"""Decodes video streams with PyAV, which the extra `video` installs and the first message imports.

Decides when a stream is requested anew, and when the client does without video; `streams.py` sends that.
"""

from __future__ import annotations

import functools
import importlib.util
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.client.media import Decoder, EarlierMessage
from reactor_runtime.errors import WireError
from reactor_runtime.wire.containers import MP4
from reactor_runtime.wire.fragmented_mp4 import VideoConfig, byte_stream_of, parameter_sets_of, read_message
from reactor_runtime.wire.media_header import MediaHeader

if TYPE_CHECKING:
    from av import VideoFrame

CODEC = "h264"
# After a second error in this time the client does without video for the rest of the session.
TWICE_S = 60.0
# A server may not answer every request.
REQUEST_AGAIN_S = 2.0
# A reader of frames that is late by more of them skips some in its file.
MOST_EARLIER = 8


class VideoError(Exception):
    """A message of a video stream can't be decoded; `lacks_key`: because no key has come yet."""

    def __init__(self, track: str, message: str, *, lacks_key: bool = False) -> None:
        super().__init__(message)
        self.track = track
        self.lacks_key = lacks_key


@dataclass(frozen=True, slots=True)
class DecodedMessage:
    """A message of a video stream and its frame: `number` counts the messages, `decode` returns the pixels in RGB.

    `earlier` are the few messages before it.
    """

    header: MediaHeader
    number: int
    decode: Decoder
    earlier: tuple[EarlierMessage, ...]


class VideoStreams:
    """The video streams of a client, one for each track.

    `decode` blocks and is called on a thread, one call at a time; the other methods belong to the loop.
    """

    def __init__(self, *, is_installed: bool | None = None) -> None:
        self._is_installed = importlib.util.find_spec("av") is not None if is_installed is None else is_installed
        self._decoders: dict[str, _TrackDecoder] = {}
        self._numbers: dict[str, int] = {}
        self._recent: dict[str, deque[EarlierMessage]] = {}
        # When the key was requested that a track lacks.
        self._requested: dict[str, float] = {}
        self._failed_at: float | None = None
        self._gave_up = False

    @property
    def codecs(self) -> list[str]:
        """Return the names of the encodings that this client can decode besides JPEG."""
        return [CODEC] if self._is_installed and not self._gave_up else []

    def restart(self) -> None:
        """Start a session: earlier errors do not count."""
        self.reset()
        self._failed_at, self._gave_up = None, False

    def reset(self) -> None:
        """Forget the streams: those of another connection begin with a key."""
        self._decoders.clear()
        self._requested.clear()

    def decode(self, data: bytes) -> DecodedMessage:
        """Decode a message. Raises `WireError` if it is malformed, and `VideoError` if it can't be decoded."""
        try:
            header, message = MP4.read(data), read_message(data)
        except WireError:
            # Frames that depend on this one can't be decoded, and of which track it is may be unknown.
            self._decoders.clear()
            raise
        if header is None:
            raise VideoError("", "a message without a header")
        track = header.track
        number = self._numbers[track] = self._numbers.get(track, 0) + 1
        decoder = self._decoders.get(track)
        if message.config is not None:
            self._requested.pop(track, None)
            if decoder is None or decoder.config != message.config:
                decoder = self._decoders[track] = _TrackDecoder(message.config)
        if decoder is None:
            raise VideoError(track, "it does not begin with a key", lacks_key=True)
        try:
            picture = decoder.decode(message.sample)
        except ValueError as error:
            del self._decoders[track]
            raise VideoError(track, str(error)) from error
        recent = self._recent.setdefault(track, deque(maxlen=MOST_EARLIER))
        decoded = DecodedMessage(header, number, functools.partial(_rgb, picture, decoder.config), tuple(recent))
        recent.append(EarlierMessage(number, header.pts_us / 1e6, data))
        return decoded

    def must_request(self, error: VideoError, now: float) -> bool:
        """Return whether to request the stream anew after an error; gives up after a second error in a minute."""
        if not error.lacks_key:
            self._gave_up = self._failed_at is not None and now - self._failed_at < TWICE_S
            self._failed_at = now
        if self._gave_up:
            self.reset()
            return False
        if now - self._requested.get(error.track, -REQUEST_AGAIN_S) < REQUEST_AGAIN_S:
            return False
        self._requested[error.track] = now
        return True


def is_key(data: bytes) -> bool:
    """Return whether decoding can begin with a message of a video stream."""
    return read_message(data).config is not None


def read_packet(data: bytes) -> tuple[bytes, bytes, tuple[int, int] | None]:
    """Return a message of a video stream for a file: its byte stream; of a key the parameter sets and the size."""
    message = read_message(data)
    config = message.config
    if config is None:
        return byte_stream_of(message.sample), b"", None
    return byte_stream_of(message.sample), parameter_sets_of(config), (config.width, config.height)


class _TrackDecoder:
    """A decoder for the frames of one configuration."""

    def __init__(self, config: VideoConfig) -> None:
        import av
        from av.codec.context import Flags
        from av.video.codeccontext import VideoCodecContext

        context = av.CodecContext.create(CODEC, "r")
        assert isinstance(context, VideoCodecContext), "a video codec has a video context"
        context.extradata = config.avcc
        context.flags |= Flags.low_delay
        # Several threads would hold frames back.
        context.thread_count = 1
        self.config = config
        self._context = context

    def decode(self, sample: bytes) -> VideoFrame:
        """Return the frame of a sample. Raises `ValueError` if it has none, or a broken one."""
        import av

        try:
            frames = self._context.decode(av.Packet(sample))
        except av.FFmpegError as error:
            raise ValueError(error.strerror or str(error)) from error
        if len(frames) != 1 or frames[0].is_corrupt:
            raise ValueError("the frame is damaged")
        return frames[0]


def _rgb(picture: VideoFrame, config: VideoConfig, _data: bytes) -> NDArray[np.uint8]:
    """Return the pixels in the size of the track: coded sizes are even."""
    return np.asarray(picture.to_ndarray(format="rgb24"), np.uint8)[: config.height, : config.width]
