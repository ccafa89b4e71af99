"""JPEG encoding and decoding; the only module that uses the codec library.

Defines the JPEG files that clients may send, and refuses others from their markers, before any pixel is decoded. Joins
files of bands to one file. Leaves the REACTOR segment to wire/media_header.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import simplejpeg
from numpy.typing import NDArray

from reactor_runtime.errors import WireError
from reactor_runtime.errors.codes import ErrorCode

MAX_SIDE = 4096
QUALITY = 85

_SOI = b"\xff\xd8"
_EOI, _SOS = 0xD9, 0xDA
_SOF = 0xC0
# The rows and columns of one 4:2:0 unit.
_UNIT = 16
_DRI = b"\xff\xdd\x00\x04"
# Any number of fill bytes may precede a marker.
_MARKER = re.compile(rb"\xff+[^\xff]")
# A file of empty segments must cost no more time than a valid one.
_MAX_SEGMENTS = 1024
# DHT, JPG and DAC share the range of the frame markers.
_START_OF_FRAME = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_SEQUENTIAL_HUFFMAN = (0xC0, 0xC1)
_PROGRESSIVE = (0xC2, 0xC6, 0xCA, 0xCE)


@dataclass(frozen=True, slots=True)
class JpegHeader:
    """Hold a JPEG's properties: 1 component is gray, 3 are colour, 4 CMYK; `size_bytes` is where the image ends."""

    height: int
    width: int
    components: int
    size_bytes: int


def encode(frame: NDArray[np.uint8], *, quality: int = QUALITY) -> bytes:
    """Encode an RGB frame `(height, width, 3)` as baseline JPEG, 4:2:0.

    Holds no lock and releases the GIL, so several threads can encode in parallel. The frame may be read-only or a view.
    """
    row, pixel, channel = frame.strides
    if pixel != 3 or channel != 1 or row < 3 * frame.shape[1]:
        # The encoder accepts a row stride, as a crop has, but no flip, step, swapped channels or broadcast.
        frame = np.array(frame, order="C")
    encoded: bytes = simplejpeg.encode_jpeg(frame, quality, "RGB", "420")
    return encoded


def join_bands(files: Sequence[bytes]) -> bytes:
    """Join the encoded bands of a frame to one JPEG.

    All have one width, and all but the last have one height, a multiple of 16. Each becomes a restart interval (ISO/IEC
    10918-1, B.2.1 and F.1.2.3): prediction restarts there and the bits end at a byte boundary, as at the end of a file,
    so the decoded image is identical.
    """
    if len(files) == 1:
        return files[0]
    # All headers before the data have the same length.
    frame, scan, data = _places(files[0])
    heights = [int.from_bytes(file[frame + 5 : frame + 7], "big") for file in files]
    width = int.from_bytes(files[0][frame + 7 : frame + 9], "big")
    first = bytearray(files[0][:scan])
    first[frame + 5 : frame + 7] = sum(heights).to_bytes(2, "big")
    units = heights[0] // _UNIT * -(-width // _UNIT)
    parts: list[bytes | bytearray | memoryview] = [first, _DRI, units.to_bytes(2, "big"), files[0][scan:data]]
    for number, file in enumerate(files):
        if number:
            parts.append(bytes((0xFF, 0xD0 + (number - 1) % 8)))
        # The end marker has two bytes.
        parts.append(memoryview(file)[data:-2])
    return b"".join((*parts, bytes((0xFF, _EOI))))


def _places(file: bytes) -> tuple[int, int, int]:
    """Return where the frame header and the scan header begin, and where the scan header ends."""
    position, frame = 2, 0
    while file[position + 1] != _SOS:
        if file[position + 1] == _SOF:
            frame = position
        position = _end(file, position)
    return frame, position, _end(file, position)


def _end(file: bytes, position: int) -> int:
    return position + 2 + int.from_bytes(file[position + 2 : position + 4], "big")


def read_header(data: bytes) -> JpegHeader:
    """Read the markers up to the first scan and decode nothing.

    Raises `WireError` with BAD_MEDIA for anything but a sequential Huffman JPEG of at most 4096×4096 with 8 bits per
    sample, 1, 3 or 4 components and no more scans than components.
    """
    if data[:2] != _SOI:
        raise _bad("not a JPEG: it does not start with FF D8")
    position = 2
    frame_header: tuple[int, int, int] | None = None
    for _ in range(_MAX_SEGMENTS):
        marker, payload, position = _segment(data, position)
        if marker == 0xDA:
            break
        if marker in _START_OF_FRAME:
            if frame_header is not None:
                raise _bad("JPEG with two frame headers")
            frame_header = _frame_header(marker, payload)
    else:
        raise _bad(f"JPEG with more than {_MAX_SEGMENTS} segments before the image")
    if frame_header is None:
        raise _bad("JPEG without a frame header")
    height, width, components = frame_header
    return JpegHeader(height, width, components, _picture_end(data, position, components))


def decode(data: bytes, *, strict: bool = True) -> NDArray[np.uint8]:
    """Decode a JPEG to a new RGB array `(height, width, 3)`; gray and CMYK are converted.

    Raises `WireError` with BAD_MEDIA for files that `read_header` refuses and, if `strict`, for a damaged image.
    """
    header = read_header(data)
    try:
        # Bytes after the image must not reach the decoder: they could hold scans that were not counted.
        decoded: NDArray[np.uint8] = simplejpeg.decode_jpeg(memoryview(data)[: header.size_bytes], "RGB", strict=strict)
    except ValueError as error:
        raise _bad(f"damaged JPEG: {error}") from error
    return decoded


def _segment(data: bytes, position: int) -> tuple[int, bytes, int]:
    found = _MARKER.match(data, position)
    if found is None:
        raise _bad(f"JPEG damaged or truncated at byte {position}")
    start = found.end()
    marker = data[start - 1]
    if marker < 0xC0 or 0xD0 <= marker <= 0xD9:
        raise _bad(f"JPEG with marker FF {marker:02X} where its headers should be")
    length = int.from_bytes(data[start : start + 2], "big")
    end = start + length
    if length < 2 or end > len(data):
        raise _bad("truncated JPEG")
    return marker, data[start + 2 : end], end


def _frame_header(marker: int, payload: bytes) -> tuple[int, int, int]:
    if marker in _PROGRESSIVE:
        raise _bad("progressive JPEG; send a baseline one")
    if marker not in _SEQUENTIAL_HUFFMAN:
        raise _bad(f"JPEG of an uncommon kind (SOF{marker - 0xC0}); send a baseline one")
    if len(payload) < 6:
        raise _bad("truncated JPEG")
    if payload[0] != 8:
        raise _bad(f"JPEG with {payload[0]} bits a sample; send one with 8")
    height, width = int.from_bytes(payload[1:3], "big"), int.from_bytes(payload[3:5], "big")
    if not height or not width:
        raise _bad("JPEG without a size in its header")
    if height > MAX_SIDE or width > MAX_SIDE:
        raise _bad(f"JPEG of {width}x{height}; at most {MAX_SIDE}x{MAX_SIDE}")
    if payload[5] not in (1, 3, 4):
        raise _bad(f"JPEG with {payload[5]} components; gray, colour or CMYK are understood")
    return height, width, payload[5]


def _picture_end(data: bytes, start: int, components: int) -> int:
    # Each scan costs a pass over the whole image, and ten bytes of header request one: 4096² with thousands of empty
    # scans would take minutes. In entropy-coded data FF is always followed by 00, so counting the two-byte markers
    # finds every scan up to the first end marker. Calling bytes.find and count instead takes six times as long.
    rest = np.frombuffer(data, np.uint8)[start:]
    found = np.flatnonzero((rest[:-1] == 0xFF) & (rest[1:] & 0xFC == 0xD8))
    markers = rest[found + 1]
    ends = np.flatnonzero(markers == _EOI)
    if not ends.size:
        raise _bad("truncated JPEG")
    if 1 + np.count_nonzero(markers[: ends[0]] == _SOS) > components:
        raise _bad("JPEG with more scans than components")
    return start + int(found[ends[0]]) + 2


def _bad(message: str) -> WireError:
    return WireError(ErrorCode.BAD_MEDIA, message)
