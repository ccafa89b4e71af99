"""The containers of media: the kinds of file that carry one frame or one piece of sound, with the media header in it.

Everything that has to know a file asks these objects: encodings, relays and clients. Pixels and samples are not read,
and attaching or detaching a header changes no other byte.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Literal, Protocol

from reactor_runtime.errors import WireError
from reactor_runtime.errors.codes import ErrorCode
from reactor_runtime.wire.fragmented_mp4 import Box, boxes
from reactor_runtime.wire.media_header import MediaHeader

_SOI = b"\xff\xd8"
_APP15 = b"\xff\xef"
_MAGIC = b"REACTOR\0"
_SEGMENT = struct.Struct(">2s2sH8s")

_RIFF = struct.Struct("<4sI4s")
_CHUNK = struct.Struct("<4sI")
_MAX_RIFF_BYTES = 0xFFFFFFFF
# A file of empty chunks must cost no more time than a valid one.
_MAX_CHUNKS = 64

_USER_BOX = struct.Struct(">I4s16s")
# The user type of the box (ISO/IEC 14496-12, 11.1).
_USER_TYPE = _MAGIC.ljust(16, b"\0")
_NPY = b"\x93NUMPY"
_TRAILER = struct.Struct(">I8s")


class Container(Protocol):
    """Find, insert and remove the media header in one kind of file.

    `kind` is the kind of track that the files belong to, `name` is for messages to people.
    """

    @property
    def name(self) -> str: ...

    @property
    def media_type(self) -> str: ...

    @property
    def kind(self) -> Literal["video", "audio"]: ...

    def matches(self, data: bytes) -> bool:
        """Return whether the first bytes are those of a file of this kind; the other methods require it."""

    def attach(self, header: MediaHeader, file: bytes) -> bytes:
        """Insert a header. Raises `ValueError` for a header that doesn't fit."""

    def read(self, data: bytes) -> MediaHeader | None:
        """Return the header without copying the file. Raises `WireError` with BAD_MEDIA if it can't be read."""

    def detach(self, data: bytes) -> tuple[MediaHeader | None, bytes]:
        """Remove the header and return both; without a header, None and the unchanged file. Raises as `read`."""


class JpegContainer:
    """A JPEG; the header is an APP15 segment directly after SOI."""

    name = "JPEG"
    media_type = "image/jpeg"
    kind: Literal["video"] = "video"

    def matches(self, data: bytes) -> bool:
        return data[:2] == _SOI

    def attach(self, header: MediaHeader, file: bytes) -> bytes:
        fields = header.pack()
        segment = _SEGMENT.pack(_SOI, _APP15, 2 + len(_MAGIC) + len(fields), _MAGIC)
        # The only copy of the encoded frame on its way out: the memoryview avoids a second one.
        return b"".join((segment, fields, memoryview(file)[2:]))

    def read(self, data: bytes) -> MediaHeader | None:
        end = self._segment_end(data)
        return None if end is None else MediaHeader.unpack(data[_SEGMENT.size : end])

    def detach(self, data: bytes) -> tuple[MediaHeader | None, bytes]:
        end = self._segment_end(data)
        if end is None:
            return None, data
        return MediaHeader.unpack(data[_SEGMENT.size : end]), b"".join((_SOI, memoryview(data)[end:]))

    def _segment_end(self, data: bytes) -> int | None:
        """Return where the segment with the header ends; None where there is none."""
        if len(data) < _SEGMENT.size:
            return None
        _, marker, length, magic = _SEGMENT.unpack_from(data)
        if marker != _APP15 or magic != _MAGIC:
            return None
        # The length includes itself and not the marker before it.
        end: int = 4 + length
        if end > len(data):
            raise _bad("truncated reactor header")
        return end


class WavContainer:
    """A WAV; the header is a chunk `rctr` before `fmt `."""

    name = "WAV"
    media_type = "audio/wav"
    kind: Literal["audio"] = "audio"

    def matches(self, data: bytes) -> bool:
        return data[:4] == b"RIFF" and data[8:12] == b"WAVE"

    def attach(self, header: MediaHeader, file: bytes) -> bytes:
        fields = header.pack()
        chunk = b"".join((_CHUNK.pack(b"rctr", len(fields)), fields, b"\0" * (len(fields) % 2)))
        _, size, _ = _RIFF.unpack_from(file)
        if size + len(chunk) > _MAX_RIFF_BYTES:
            raise ValueError("WAV too long for another chunk")
        return b"".join((_RIFF.pack(b"RIFF", size + len(chunk), b"WAVE"), chunk, memoryview(file)[_RIFF.size :]))

    def read(self, data: bytes) -> MediaHeader | None:
        found = self._find_chunk(data)
        return None if found is None else found[0]

    def detach(self, data: bytes) -> tuple[MediaHeader | None, bytes]:
        found = self._find_chunk(data)
        if found is None:
            return None, data
        header, position, end = found
        _, riff_size, _ = _RIFF.unpack_from(data)
        shorter = _RIFF.pack(b"RIFF", riff_size - (end - position), b"WAVE")
        view = memoryview(data)
        return header, b"".join((shorter, view[_RIFF.size : position], view[end:]))

    def _find_chunk(self, data: bytes) -> tuple[MediaHeader, int, int] | None:
        """Return the header, and where its chunk begins and ends; None where there is none."""
        _, riff_size, _ = _RIFF.unpack_from(data)
        position = _RIFF.size
        for _ in range(_MAX_CHUNKS):
            if position + _CHUNK.size > len(data):
                return None
            name, size = _CHUNK.unpack_from(data, position)
            if name == b"fmt ":
                return None
            start, end = position + _CHUNK.size, position + _CHUNK.size + size + size % 2
            if name == b"rctr":
                break
            position = end
        else:
            raise _bad(f"WAV with more than {_MAX_CHUNKS} chunks before its format")
        if end > len(data) or end - 8 > riff_size:
            raise _bad("truncated reactor header")
        return MediaHeader.unpack(data[start : start + size]), position, end


class Mp4Container:
    """A piece of fragmented MP4, as `fragmented_mp4.py` writes it; the header is a box `uuid` before `moof`."""

    name = "MP4"
    media_type = "video/mp4"
    kind: Literal["video"] = "video"

    def matches(self, data: bytes) -> bool:
        return data[4:8] in (b"ftyp", b"moof") or (data[4:8] == b"uuid" and data[8:24] == _USER_TYPE)

    def attach(self, header: MediaHeader, file: bytes) -> bytes:
        fields = header.pack()
        head = _USER_BOX.pack(_USER_BOX.size + len(fields), b"uuid", _USER_TYPE)
        place = next((box.start for box in boxes(file) if box.name == b"moof"), len(file))
        view = memoryview(file)
        return b"".join((view[:place], head, fields, view[place:]))

    def read(self, data: bytes) -> MediaHeader | None:
        found = self._find_box(data)
        return None if found is None else MediaHeader.unpack(data[found.start + _USER_BOX.size : found.end])

    def detach(self, data: bytes) -> tuple[MediaHeader | None, bytes]:
        found = self._find_box(data)
        if found is None:
            return None, data
        header = MediaHeader.unpack(data[found.start + _USER_BOX.size : found.end])
        view = memoryview(data)
        return header, b"".join((view[: found.start], view[found.end :]))

    def _find_box(self, data: bytes) -> Box | None:
        """Return the box with the header; None where there is none."""
        for box in boxes(data):
            if box.name == b"moof":
                return None
            if box.name == b"uuid" and data[box.content : box.content + len(_USER_TYPE)] == _USER_TYPE:
                return box
        return None


class NpyContainer:
    """An array in NumPy's format; the header follows the array, where readers stop, before its length and the magic."""

    name = "NPY"
    media_type = "application/x-npy"
    kind: Literal["video"] = "video"

    def matches(self, data: bytes) -> bool:
        return data[:6] == _NPY

    def attach(self, header: MediaHeader, file: bytes) -> bytes:
        fields = header.pack()
        return b"".join((file, fields, _TRAILER.pack(len(fields), _MAGIC)))

    def read(self, data: bytes) -> MediaHeader | None:
        start = self._fields_start(data)
        return None if start is None else MediaHeader.unpack(data[start : -_TRAILER.size])

    def detach(self, data: bytes) -> tuple[MediaHeader | None, bytes]:
        start = self._fields_start(data)
        if start is None:
            return None, data
        return MediaHeader.unpack(data[start : -_TRAILER.size]), data[:start]

    def _fields_start(self, data: bytes) -> int | None:
        """Return where the fields of the header begin; None where there is none."""
        if not data.endswith(_MAGIC) or len(data) < len(_NPY) + _TRAILER.size:
            return None
        length, _ = _TRAILER.unpack_from(data, len(data) - _TRAILER.size)
        start: int = len(data) - _TRAILER.size - length
        if start < len(_NPY):
            raise _bad("truncated reactor header")
        return start


JPEG = JpegContainer()
WAV = WavContainer()
MP4 = Mp4Container()
NPY = NpyContainer()
# Of what a server sends.
CONTAINERS: tuple[Container, ...] = (JPEG, WAV, MP4, NPY)
# Of what clients send for the input tracks.
INPUTS: tuple[Container, ...] = (JPEG, WAV, NPY)


def container_of(data: bytes, containers: Sequence[Container] = CONTAINERS) -> Container | None:
    """Return the container that matches a file, None if there is none."""
    for container in containers:
        if container.matches(data):
            return container
    return None


def names_of(containers: Sequence[Container], kind: str) -> str:
    """Return the names of the containers of a kind of track, for messages to people."""
    return " or ".join(container.name for container in containers if container.kind == kind)


def attach(header: MediaHeader, file: bytes, containers: Sequence[Container] = CONTAINERS) -> bytes:
    """Insert the header into a file. Raises `ValueError` for an unknown file and for a header that doesn't fit."""
    container = container_of(file, containers)
    if container is None:
        raise ValueError(_unknown(containers))
    return container.attach(header, file)


def detach(data: bytes) -> tuple[MediaHeader | None, bytes]:
    """Remove the header from a file and return both; without a header, None and the unchanged file.

    Raises `WireError` with BAD_MEDIA for an unknown file and for a header that can't be read.
    """
    return required_container_of(data).detach(data)


def replace_header(container: Container, header: MediaHeader, data: bytes) -> bytes:
    """Return a file of this container with another header."""
    _, file = container.detach(data)
    return container.attach(header, file)


def required_container_of(data: bytes, containers: Sequence[Container] = CONTAINERS) -> Container:
    """Return the container that matches a file. Raises `WireError` with BAD_MEDIA if there is none."""
    container = container_of(data, containers)
    if container is None:
        raise _bad(_unknown(containers))
    return container


def _unknown(containers: Sequence[Container]) -> str:
    return f"neither {' nor '.join(container.name for container in containers)}"


def _bad(message: str) -> WireError:
    return WireError(ErrorCode.BAD_MEDIA, message)
