"""Frames with a number in their pixels, as JPEGs and as messages of a video stream, with headers."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import av
import numpy as np
import simplejpeg
from av.video.codeccontext import VideoCodecContext
from av.video.frame import PictureType
from numpy.typing import NDArray

from reactor_runtime.wire.containers import JPEG, MP4
from reactor_runtime.wire.fragmented_mp4 import VideoMessage, config_of, nal_units, sample_of, write_message
from reactor_runtime.wire.media_header import MediaHeader

INTERVAL_US = 40_000
# ITU-T H.273.
BT601_MATRIX, BT709_PRIMARIES, SRGB_TRANSFER, LIMITED_RANGE = 6, 1, 13, 1
# The number is in the first rows: a white square, and one for each bit.
SQUARE = 16
BITS = 12


def numbered(number: int, height: int = 96, width: int = 256) -> NDArray[np.uint8]:
    """Return a grey frame whose first rows show a number."""
    pixels = np.full((height, width, 3), 90, np.uint8)
    pixels[:SQUARE] = 0
    for place, bit in enumerate([1, *(number >> bit & 1 for bit in range(BITS))]):
        pixels[:SQUARE, place * SQUARE : (place + 1) * SQUARE] = 255 * bit
    return pixels


def number_in(pixels: NDArray[Any]) -> int:
    """Return the number that a frame shows; -1 for a blank one, and for one with too few bits to read it."""
    middle = SQUARE // 2
    shown = pixels[middle, middle : (BITS + 1) * SQUARE : SQUARE, 0].astype(int)
    bits = shown > 127
    legible = bits[0] and np.abs(shown - 255 * bits).max() < 64
    return int((bits[1:] << np.arange(BITS)).sum()) if legible else -1


def header(seq: int, *, track: str = "main_video", flags: int = 0) -> MediaHeader:
    return MediaHeader(track, seq, seq * INTERVAL_US, 1_000_000 + seq * INTERVAL_US, flags=flags)


def jpeg(seq: int, pixels: NDArray[np.uint8] | None = None, *, track: str = "main_video", flags: int = 0) -> bytes:
    """Return a frame as a JPEG."""
    file = simplejpeg.encode_jpeg(numbered(seq) if pixels is None else pixels, quality=90, colorsubsampling="420")
    return JPEG.attach(header(seq, track=track, flags=flags), file)


class VideoStream:
    """Encode frames as the messages of a video stream; the first is a key.

    Odd sizes are padded, as H.264 needs even ones.
    """

    def __init__(self, height: int = 96, width: int = 256, *, bit_rate: int = 2_000_000) -> None:
        self._size = height, width
        encoder = av.CodecContext.create("libx264", "w")
        assert isinstance(encoder, VideoCodecContext)
        encoder.height, encoder.width, encoder.pix_fmt = height + height % 2, width + width % 2, "yuv420p"
        encoder.time_base = Fraction(1, 1000)
        encoder.bit_rate = bit_rate
        encoder.colorspace, encoder.color_range = BT601_MATRIX, LIMITED_RANGE
        encoder.color_primaries, encoder.color_trc = BT709_PRIMARIES, SRGB_TRANSFER
        encoder.options = {
            "preset": "superfast",
            "tune": "zerolatency",
            "profile": "baseline",
            "forced-idr": "1",
            "threads": "1",
            "g": "100000",
        }
        self._encoder = encoder
        self._count = 0

    def message(
        self, seq: int, pixels: NDArray[np.uint8] | None = None, *, key: bool = False, track: str = "main_video"
    ) -> bytes:
        """Return a frame as a message."""
        height, width = self._size
        pixels = numbered(seq, height, width) if pixels is None else pixels
        even = np.pad(pixels, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
        frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(even), format="rgb24")
        frame = frame.reformat(format="yuv420p", dst_colorspace="ITU601")
        frame.pts = self._count
        self._count += 1
        frame.pict_type = PictureType.I if key else PictureType.NONE
        units = nal_units(b"".join(bytes(packet) for packet in self._encoder.encode(frame)))
        message = VideoMessage(config_of(units, width, height), sample_of(units))
        return MP4.attach(header(seq, track=track), write_message(message, seq, seq * INTERVAL_US, INTERVAL_US))


def numbering_model(fps: int = 30) -> str:
    """Return the code of a model whose frames show their numbers."""
    return f"""
    from tests.video import numbered


    class MyState(InputState):
        level: int = InputField(default=0, ge=0, le=9)


    class MyModel(ReactorPipeline):
        state: MyState
        output: MyOutput
        fps = {fps}

        def inference(self):
            number = 0
            while True:
                yield MyOutput(main_video=numbered(number))
                number += 1
    """
