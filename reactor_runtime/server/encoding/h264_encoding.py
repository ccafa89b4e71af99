"""H.264 by x264 through PyAV (the extra `video`), without a frame of delay; PyAV is imported with the first frame."""

from __future__ import annotations

import functools
import importlib.util
import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.server.encoding.video_encoding import VideoEncoder
from reactor_runtime.wire import containers
from reactor_runtime.wire.fragmented_mp4 import VideoMessage, config_of, nal_units, sample_of, write_message
from reactor_runtime.wire.media_header import MediaHeader

if TYPE_CHECKING:
    import av

# The encoder counts bits per frame: its rates are those for so many frames a second, at whatever rate frames come.
NOMINAL_FPS = 30
FEWEST_BITS = 8_000
# With 8 bits for each 256 pixels all of a key can be grey, and the frames after it; with 12 none was, of seven sizes.
FEWEST_BITS_A_MACROBLOCK, MACROBLOCK = 12, 256
# x264 counts a message about itself as a part of the first frame.
MESSAGE_BITS = 6_000
# x264 needs at least one macroblock; more pixels than these are beyond what browsers decode.
SHORTEST_SIDE, MOST_PIXELS = 16, 4096 * 2304
# swscale reads whole vectors, also past the last pixel.
READ_AHEAD_BYTES = 128
# ITU-T H.273: the matrix of BT.601, which swscale converts with, and the primaries and transfer of sRGB.
BT601_MATRIX, BT709_PRIMARIES, SRGB_TRANSFER, LIMITED_RANGE = 6, 1, 13, 1


class H264Encoding:
    """Encode with constrained baseline, which every decoder of H.264 reads."""

    name = "h264"
    container = containers.MP4

    def accepts(self, height: int, width: int) -> bool:
        # With 4:2:0 one chroma sample is for two rows and two columns.
        even = height % 2 == 0 and width % 2 == 0
        return even and min(height, width) >= SHORTEST_SIDE and height * width <= MOST_PIXELS

    def open(self, threads: int) -> VideoEncoder:
        return X264Encoder(threads)


class X264Encoder:
    """Encode frames of one size after the other, each with a tenth more than the bits given for it at most.

    Fewer bits than show more than grey are raised to those.

    The buffer of the rate control (VBV) holds one frame, so a key has as many bits as any other frame. The rate of the
    open encoder is not changed: x264 then encodes with half the rate or twice for as long as it was open, because it
    makes up for what it used before (measured: 45 kbit for 100, after 100 frames with 130). A new one begins with a
    key, in 5 ms.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        # The shape of the frames and their bits.
        self._opened: tuple[tuple[int, ...], int] | None = None
        # Made on the encoder's thread: the import of PyAV takes long, and may fail.
        self._context: av.VideoCodecContext | None = None
        self._to_i420: _I420Converter | None = None
        self._frames = 0

    def encode(
        self, pixels: NDArray[np.uint8], header: MediaHeader, interval_s: float, *, bits: int, key: bool
    ) -> bytes:
        import av

        height, width, _ = pixels.shape
        bits = max(bits, FEWEST_BITS, FEWEST_BITS_A_MACROBLOCK * height * width // MACROBLOCK)
        if self._context is None or self._to_i420 is None or self._opened != (pixels.shape, bits):
            self._context, self._opened = self._open(height, width, bits), (pixels.shape, bits)
            self._to_i420 = _I420Converter(pixels.shape, self._threads)
        frame = self._to_i420.convert(pixels)
        frame.pts = self._frames
        self._frames += 1
        kind = av.video.frame.PictureType
        frame.pict_type = kind.I if key else kind.NONE
        units = nal_units(b"".join(bytes(packet) for packet in self._context.encode(frame)))
        message = VideoMessage(config_of(units, width, height), sample_of(units))
        piece = write_message(message, header.seq, header.pts_us, round(interval_s * 1e6))
        return containers.MP4.attach(header, piece)

    def _open(self, height: int, width: int, bits: int) -> av.VideoCodecContext:
        import av

        context = av.CodecContext.create("libx264", "w")
        context.width, context.height, context.pix_fmt = width, height, "yuv420p"
        context.time_base, context.framerate = Fraction(1, NOMINAL_FPS), Fraction(NOMINAL_FPS)
        context.bit_rate = bits * NOMINAL_FPS
        context.thread_count = self._threads
        context.colorspace, context.color_range = BT601_MATRIX, LIMITED_RANGE
        context.color_primaries, context.color_trc = BT709_PRIMARIES, SRGB_TRANSFER
        context.options = {
            "preset": "superfast",
            # No frame of delay, and slices instead of frames on the threads.
            "tune": "zerolatency",
            "profile": "baseline",
            "maxrate": str(bits * NOMINAL_FPS),
            "bufsize": str(bits + MESSAGE_BITS),
            # Better is not visible, and would use the whole rate for a still frame.
            "qmin": "19",
            "forced-idr": "1",
            # Keys when asked for, and no others.
            "x264-params": f"keyint=infinite:scenecut=0:slices={self._threads}",
        }
        context.open()
        return context


class _I420Converter:
    """Convert frames of one shape from RGB by swscale."""

    def __init__(self, shape: tuple[int, ...], threads: int) -> None:
        import av

        self._threads = threads
        # Frames are copied to memory that is kept, because the pages of new memory cost more than the copy.
        self._rgb = np.empty(math.prod(shape) + READ_AHEAD_BYTES, np.uint8)[:-READ_AHEAD_BYTES].reshape(shape)
        self._frame = av.VideoFrame.from_numpy_buffer(self._rgb, format="rgb24")
        # Kept, because it prepares its tables for each size.
        self._reformatter = av.video.reformatter.VideoReformatter()
        # swscale reads the colours of all pixels in half the time that it needs to read those of two as one.
        scaling = av.video.reformatter.Interpolation
        self._scaling = scaling.BILINEAR | scaling.FULL_CHR_H_INP

    def convert(self, pixels: NDArray[np.uint8]) -> av.VideoFrame:
        np.copyto(self._rgb, pixels)
        return self._reformatter.reformat(
            self._frame, format="yuv420p", interpolation=self._scaling, threads=self._threads
        )


H264 = H264Encoding()


@functools.cache
def is_installed() -> bool:
    """Return whether PyAV is installed, without importing it."""
    return importlib.util.find_spec("av") is not None
