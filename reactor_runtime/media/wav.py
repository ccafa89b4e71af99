"""WAV encoding and decoding: RIFF/WAVE with 16-bit PCM, mono or stereo.

Leaves the `rctr` chunk to wire/media_header; this module skips it like other unknown chunks.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.errors import WireError
from reactor_runtime.errors.codes import ErrorCode

MAX_SAMPLE_RATE = 384_000

_HEADER = struct.Struct("<4sI4s4sIHHIIHH4sI")
HEADER_BYTES = _HEADER.size
_CHUNK = struct.Struct("<4sI")
_FORMAT = struct.Struct("<HHIIHH")
_PCM = 1
_EXTENSIBLE = 0xFFFE
_PCM_SUBFORMAT = bytes.fromhex("0100000000001000800000aa00389b71")
# A file of empty chunks must cost no more time than a valid one.
_MAX_CHUNKS = 64


@dataclass(frozen=True, slots=True)
class WavHeader:
    """Hold a WAV file's format and the position of its samples."""

    channels: int
    sample_rate: int
    start: int
    size_bytes: int


def encode(samples: NDArray[np.int16], sample_rate: int) -> bytes:
    """Return int16 samples `(channels, samples)` as a complete WAV file."""
    channels, count = samples.shape
    return header(channels, sample_rate, count) + samples.T.astype("<i2", copy=False).tobytes()


def header(channels: int, sample_rate: int, count: int) -> bytes:
    """Return the header, `HEADER_BYTES` long, of a file with `count` samples per channel."""
    size = channels * count * 2
    return _HEADER.pack(
        b"RIFF", _HEADER.size - 8 + size, b"WAVE",
        b"fmt ", _FORMAT.size, _PCM, channels, sample_rate, sample_rate * channels * 2, channels * 2, 16,
        b"data", size,
    )  # fmt: skip


def read_header(data: bytes) -> WavHeader:
    """Read the chunks up to the samples and check that the samples are complete.

    Raises `WireError` with BAD_MEDIA for anything but complete, non-empty 16-bit PCM with 1 or 2 channels.
    """
    if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        raise _bad("not a WAV file")
    end = 8 + int.from_bytes(data[4:8], "little")
    if end > len(data):
        raise _bad(f"truncated WAV: it should have {end} bytes and has {len(data)}, or it was written as a stream")
    layout: tuple[int, int] | None = None
    position = 12
    for _ in range(_MAX_CHUNKS):
        if position + _CHUNK.size > end:
            raise _bad("WAV without samples")
        name, size = _CHUNK.unpack_from(data, position)
        start = position + _CHUNK.size
        if start + size > end:
            raise _bad(f"truncated WAV: a chunk of {size} bytes does not fit")
        if name == b"data":
            return _header(layout, start, size)
        if name == b"fmt ":
            layout = _layout(data[start : start + size])
        position = start + size + size % 2
    raise _bad(f"WAV with more than {_MAX_CHUNKS} chunks before its samples")


def decode(data: bytes) -> NDArray[np.int16]:
    """Decode a WAV file to a new array `(channels, samples)`; raise what `read_header` raises."""
    header = read_header(data)
    count = header.size_bytes // 2
    interleaved = np.frombuffer(data, "<i2", count=count, offset=header.start).reshape(-1, header.channels)
    # A copy: the model may change it, and each channel must be contiguous.
    return np.array(interleaved.T, dtype=np.int16, order="C")


def _layout(chunk: bytes) -> tuple[int, int]:
    if len(chunk) < _FORMAT.size:
        raise _bad(f"truncated WAV: a format of {len(chunk)} bytes")
    tag, channels, sample_rate, _, block, bits = _FORMAT.unpack_from(chunk)
    if tag == _EXTENSIBLE and chunk[24:40] == _PCM_SUBFORMAT:
        tag = _PCM
    if tag != _PCM or bits != 16:
        raise _bad(f"WAV with format {tag} and {bits} bits a sample; send 16-bit PCM")
    if channels not in (1, 2) or block != 2 * channels:
        raise _bad(f"WAV with {channels} channels in blocks of {block} bytes; send mono or stereo")
    if not 1 <= sample_rate <= MAX_SAMPLE_RATE:
        raise _bad(f"WAV at {sample_rate} Hz; at most {MAX_SAMPLE_RATE}")
    return channels, sample_rate


def _header(layout: tuple[int, int] | None, start: int, size: int) -> WavHeader:
    if layout is None:
        raise _bad("WAV with samples before their format")
    channels, sample_rate = layout
    if not size or size % (2 * channels):
        raise _bad(f"WAV with {size} bytes of samples for {channels} channels")
    return WavHeader(channels, sample_rate, start, size)


def _bad(message: str) -> WireError:
    return WireError(ErrorCode.BAD_MEDIA, message)
