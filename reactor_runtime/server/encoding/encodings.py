"""The encodings that clients can choose from."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from reactor_runtime.server.encoding.h264_encoding import H264, is_installed
from reactor_runtime.server.encoding.jpeg_encoding import JPEG
from reactor_runtime.server.encoding.raw_encoding import RAW
from reactor_runtime.server.encoding.track_encoding import TrackEncoding
from reactor_runtime.server.encoding.video_encoding import VideoEncoding

# The first is the default. Every client can decode it, and snapshots and frames for clients that join are made with it.
ENCODINGS: tuple[TrackEncoding, ...] = (JPEG, RAW)
DEFAULT = ENCODINGS[0]
VIDEO_ENCODINGS: tuple[VideoEncoding, ...] = (H264,)


def choose_encoding(codecs: Collection[str], encodings: Sequence[TrackEncoding] = ENCODINGS) -> TrackEncoding:
    """Return the encoding that comes first in `codecs`, the names in a client's order; the default if none is known."""
    by_name = {encoding.name: encoding for encoding in encodings}
    return next((by_name[name] for name in codecs if name in by_name), encodings[0])


def video_encodings(codec: str) -> tuple[VideoEncoding, ...]:
    """Return the encodings of video streams that this installation has; none if the option `codec` is `never`."""
    return VIDEO_ENCODINGS if codec != "never" and is_installed() else ()


def encoding_names(codec: str) -> list[str]:
    """Return the names of all encodings that a server with this option `codec` offers."""
    return [*(each.name for each in ENCODINGS), *(each.name for each in video_encodings(codec))]
