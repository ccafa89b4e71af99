"""The header inside a media file: track, sequence number, times and metadata.

It is an APP15 segment directly after SOI in a JPEG and a chunk `rctr` before `fmt ` in a WAV, with the same big-endian
fields. Attaching and detaching change no other byte. Pixels and samples are not read.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntFlag
from typing import Literal

from reactor_runtime.error_codes import ErrorCode
from reactor_runtime.errors import WireError

VERSION = 1

_FIELDS = struct.Struct(">BBIQQIB")
_MAX_NAME_BYTES = 255
_MAX_SEGMENT_BYTES = 0xFFFF

_SOI = b"\xff\xd8"
_APP15 = b"\xff\xef"
_MAGIC = b"REACTOR\0"
_SEGMENT = struct.Struct(">2s2sH8s")

_RIFF = struct.Struct("<4sI4s")
_CHUNK = struct.Struct("<4sI")
_MAX_RIFF_BYTES = 0xFFFFFFFF
# A file of empty chunks must cost no more time than a valid one.
_MAX_CHUNKS = 64


class FrameFlag(IntFlag):
    """Mark special frames."""

    AFTER_FLUSH = 1
    HELD = 2


@dataclass(frozen=True, slots=True)
class MediaHeader:
    """Hold the fields of a frame's header; `metadata` is the text of a JSON object, or empty."""

    track: str
    seq: int
    pts_us: int
    wall_us: int
    applied: int = 0
    flags: int = 0
    metadata: bytes = b""

    def pack(self) -> bytes:
        """Encode the fields from `version` on. Raises `ValueError` if they don't fit the segment."""
        name = self.track.encode()
        if len(name) > _MAX_NAME_BYTES:
            raise ValueError(f"track name of {len(name)} bytes: at most {_MAX_NAME_BYTES}")
        size = 2 + len(_MAGIC) + _FIELDS.size + len(name) + len(self.metadata)
        if size > _MAX_SEGMENT_BYTES:
            raise ValueError(
                f"metadata of {len(self.metadata)} bytes: at most {_MAX_SEGMENT_BYTES - size + len(self.metadata)}"
            )
        try:
            fields = _FIELDS.pack(VERSION, self.flags, self.seq, self.pts_us, self.wall_us, self.applied, len(name))
        except struct.error as error:
            raise ValueError(f"{self}: a number doesn't fit its field") from error
        return b"".join((fields, name, self.metadata))

    @classmethod
    def unpack(cls, data: bytes) -> MediaHeader:
        """Decode packed fields. Raises `WireError` with BAD_MEDIA for malformed data and unknown versions."""
        if len(data) < _FIELDS.size:
            raise _bad("truncated reactor header")
        version, flags, seq, pts_us, wall_us, applied, name_bytes = _FIELDS.unpack_from(data)
        if version != VERSION:
            raise _bad(f"reactor header of version {version}: only version {VERSION} is supported")
        end = _FIELDS.size + name_bytes
        if end > len(data):
            raise _bad("reactor header with a track name longer than itself")
        try:
            track = data[_FIELDS.size : end].decode()
        except UnicodeDecodeError as error:
            raise _bad("reactor header with a track name that is not UTF-8") from error
        return cls(track, seq, pts_us, wall_us, applied, flags, data[end:])


def media_kind(file: bytes) -> Literal["video", "audio"] | None:
    """Return the kind of track that a JPEG or WAV file belongs to; None for other files."""
    if file[:2] == _SOI:
        return "video"
    return "audio" if _is_wav(file) else None


def attach(header: MediaHeader, file: bytes) -> bytes:
    """Insert the header into a JPEG or WAV. Raises `ValueError` for other files and for a header that doesn't fit."""
    if file[:2] == _SOI:
        fields = header.pack()
        segment = _SEGMENT.pack(_SOI, _APP15, 2 + len(_MAGIC) + len(fields), _MAGIC)
        # The only copy of the encoded frame on its way out: the memoryview avoids a second one.
        return b"".join((segment, fields, memoryview(file)[2:]))
    if _is_wav(file):
        return _attach_wav(header.pack(), file)
    raise ValueError("neither JPEG nor WAV")


def detach(data: bytes) -> tuple[MediaHeader | None, bytes]:
    """Remove the header from a JPEG or WAV and return both; without a header, None and the unchanged file.

    Raises `WireError` with BAD_MEDIA for other files and for a header that can't be read.
    """
    if data[:2] == _SOI:
        return _detach_jpeg(data)
    if _is_wav(data):
        return _detach_wav(data)
    raise _bad("neither JPEG nor WAV")


def read_jpeg_header(data: bytes) -> MediaHeader | None:
    """Return the header in a JPEG without copying the file. Raises `WireError` with BAD_MEDIA if it can't be read."""
    end = _segment_end(data)
    return None if end is None else MediaHeader.unpack(data[_SEGMENT.size : end])


def _detach_jpeg(data: bytes) -> tuple[MediaHeader | None, bytes]:
    end = _segment_end(data)
    if end is None:
        return None, data
    return MediaHeader.unpack(data[_SEGMENT.size : end]), b"".join((_SOI, memoryview(data)[end:]))


def _segment_end(data: bytes) -> int | None:
    """Return where the segment with the header ends in a JPEG; None where there is none."""
    if len(data) < _SEGMENT.size:
        return None
    _, marker, length, magic = _SEGMENT.unpack_from(data)
    if marker != _APP15 or magic != _MAGIC:
        return None
    # The length includes itself and not the marker before it.
    end: int = 4 + length
    if length < 2 + len(_MAGIC) or end > len(data):
        raise _bad("truncated reactor header")
    return end


def _is_wav(data: bytes) -> bool:
    return data[:4] == b"RIFF" and data[8:12] == b"WAVE"


def _attach_wav(fields: bytes, file: bytes) -> bytes:
    chunk = b"".join((_CHUNK.pack(b"rctr", len(fields)), fields, b"\0" * (len(fields) % 2)))
    _, size, _ = _RIFF.unpack_from(file)
    if size + len(chunk) > _MAX_RIFF_BYTES:
        raise ValueError("WAV too long for another chunk")
    return b"".join((_RIFF.pack(b"RIFF", size + len(chunk), b"WAVE"), chunk, memoryview(file)[_RIFF.size :]))


def _detach_wav(data: bytes) -> tuple[MediaHeader | None, bytes]:
    _, riff_size, _ = _RIFF.unpack_from(data)
    position = _RIFF.size
    for _ in range(_MAX_CHUNKS):
        if position + _CHUNK.size > len(data):
            return None, data
        name, size = _CHUNK.unpack_from(data, position)
        if name == b"fmt ":
            return None, data
        start, end = position + _CHUNK.size, position + _CHUNK.size + size + size % 2
        if name == b"rctr":
            break
        position = end
    else:
        raise _bad(f"WAV with more than {_MAX_CHUNKS} chunks before its format")
    if end > len(data) or end - 8 > riff_size:
        raise _bad("truncated reactor header")
    header = MediaHeader.unpack(data[start : start + size])
    view = memoryview(data)
    shorter = _RIFF.pack(b"RIFF", riff_size - (end - position), b"WAVE")
    return header, b"".join((shorter, view[_RIFF.size : position], view[end:]))


def _bad(message: str) -> WireError:
    return WireError(ErrorCode.BAD_MEDIA, message)
