"""`UploadedFile`: a file that a client has sent, as the value of a state field or an event parameter."""

from __future__ import annotations

import io
import os
import secrets
import weakref
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, Self, cast, overload

DEFAULT_TYPE = "application/octet-stream"
_ORDER = ("name", "mime_type", "data")
_SAME = {"content": "data", "content_type": "mime_type"}
_FORM = 'UploadedFile("cat.png", "image/png", b"…")'
Buffer = bytes | bytearray | memoryview


class UploadedFile:
    """Represent a file that a client has sent: `read()` returns its bytes, `open()` a binary file.

    Immutable; deleted when the last reference is gone; several threads may read it at the same time. The client chose
    `name` and `content_type`. `data`, `size` and `mime_type` are aliases of `read()`, `size_bytes` and `content_type`.
    For tests: `UploadedFile(b"…", name="cat.png")`, or `UploadedFile("cat.png", "image/png", b"…")`.
    """

    __slots__ = ("__weakref__", "_content", "content_type", "id", "name", "size_bytes")

    @overload
    def __init__(
        self, content: Buffer, /, *, name: str = "", content_type: str = DEFAULT_TYPE, mime_type: str = DEFAULT_TYPE
    ) -> None: ...
    @overload
    def __init__(
        self,
        name: str = "",
        mime_type: str = DEFAULT_TYPE,
        data: Buffer = b"",
        *,
        content_type: str = DEFAULT_TYPE,
        content: Buffer = b"",
    ) -> None: ...
    def __init__(self, *given: object, **options: object) -> None:
        order = ("data", "name", "mime_type") if given and not isinstance(given[0], str) else _ORDER
        options = {_SAME.get(option, option): value for option, value in options.items()}
        twice = [name for name, _ in zip(order, given, strict=False) if name in options]
        if len(given) > len(order) or twice or not options.keys() <= {*_ORDER}:
            raise TypeError(f"UploadedFile takes name, mime_type and data, each once: {_FORM}")
        values = {
            "name": "",
            "mime_type": DEFAULT_TYPE,
            "data": b"",
            **dict(zip(order, given, strict=False)),
            **options,
        }
        name, mime_type, data = (values[each] for each in _ORDER)
        if (
            not isinstance(name, str)
            or not isinstance(mime_type, str)
            or not isinstance(data, bytes | bytearray | memoryview)
        ):
            raise TypeError(f"UploadedFile takes two texts and bytes: {_FORM}")
        self.id = new_id()
        self.name = name
        self.content_type = mime_type
        self._content: bytes | int = bytes(data)
        self.size_bytes = len(self._content)

    @classmethod
    def received(cls, id: str, content: bytes | Path, *, name: str, content_type: str) -> Self:
        """Create the file with this id from bytes or from a path, which is opened and removed."""
        file = cls(b"" if isinstance(content, Path) else content, name=name, content_type=content_type)
        file.id = id
        if isinstance(content, Path):
            descriptor = os.open(content, os.O_RDONLY | os.O_CLOEXEC)
            weakref.finalize(file, os.close, descriptor)
            content.unlink()
            file.size_bytes = os.fstat(descriptor).st_size
            file._content = descriptor
        return file

    def read(self) -> bytes:
        """Return the whole file."""
        if isinstance(self._content, bytes):
            return self._content
        with self.open() as file:
            return file.read()

    @property
    def data(self) -> bytes:
        """Return the whole file; a file on disk is read each time."""
        return self.read()

    @property
    def size(self) -> int:
        return self.size_bytes

    @property
    def mime_type(self) -> str:
        return self.content_type

    def open(self) -> BinaryIO:
        """Return a binary file at position 0, independent of others."""
        if isinstance(self._content, bytes):
            return io.BytesIO(self._content)
        return cast("BinaryIO", io.BufferedReader(_OnDisk(self, self._content)))

    def __repr__(self) -> str:
        return f"UploadedFile(name={self.name!r}, content_type={self.content_type!r}, size_bytes={self.size_bytes})"


NO_UPLOADS: Mapping[str, UploadedFile] = MappingProxyType({})


def new_id() -> str:
    """Return an id that can't be guessed."""
    return f"u-{secrets.token_hex(8)}"


class _OnDisk(io.RawIOBase):
    """Read a shared descriptor from an independent position."""

    def __init__(self, file: UploadedFile, descriptor: int) -> None:
        # Dropping the last reference closes the descriptor.
        self._file = file
        self._descriptor = descriptor
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    # BufferedReader passes a memoryview.
    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        data = os.pread(self._descriptor, len(buffer), self._at)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._file.size_bytes}[whence]
        if start + offset < 0:
            raise ValueError(f"there is no position {start + offset} in a file")
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        return self._at
