"""The header of a media file: track, sequence number, times and metadata, as big-endian fields.

`containers.py` has the place of these fields in each kind of file.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from enum import IntFlag
from typing import Self

from reactor_runtime.errors import WireError
from reactor_runtime.errors.codes import ErrorCode

VERSION = 1

_FIELDS = struct.Struct(">BBIQQIB")
_MAX_NAME_BYTES = 255
# Of the segment of a JPEG, with its length and the magic before the fields; a header fits every container.
_MAX_FIELDS_BYTES = 0xFFFF - 2 - 8


class FrameFlag(IntFlag):
    """Mark special frames."""

    AFTER_FLUSH = 1
    HELD = 2


@dataclass(frozen=True, slots=True)
class MediaHeader:
    """Hold the fields of a frame's header; `metadata` is empty, or up to 65,498 bytes less those of the track's name.

    Of a server it is the text of a JSON object, of a client any bytes for the model.
    """

    track: str
    seq: int
    pts_us: int
    wall_us: int
    applied: int = 0
    flags: int = 0
    metadata: bytes = b""

    @property
    def is_after_flush(self) -> bool:
        return bool(self.flags & FrameFlag.AFTER_FLUSH)

    def as_after_flush(self) -> Self:
        """Return the header with the flag for the first frame after a flush."""
        return replace(self, flags=self.flags | FrameFlag.AFTER_FLUSH)

    def pack(self) -> bytes:
        """Encode the fields from `version` on. Raises `ValueError` if they don't fit."""
        name = self.track.encode()
        if len(name) > _MAX_NAME_BYTES:
            raise ValueError(f"track name of {len(name)} bytes: at most {_MAX_NAME_BYTES}")
        _check_metadata(len(name), len(self.metadata))
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
            _check_metadata(name_bytes, len(data) - end)
        except ValueError as error:
            raise _bad(f"reactor header with {error}") from error
        try:
            track = data[_FIELDS.size : end].decode()
        except UnicodeDecodeError as error:
            raise _bad("reactor header with a track name that is not UTF-8") from error
        return cls(track, seq, pts_us, wall_us, applied, flags, data[end:])


def _check_metadata(name_bytes: int, size: int) -> None:
    most = _MAX_FIELDS_BYTES - _FIELDS.size - name_bytes
    if size > most:
        raise ValueError(f"metadata of {size} bytes: at most {most}")


def _bad(message: str) -> WireError:
    return WireError(ErrorCode.BAD_MEDIA, message)
