"""`UploadedFile`: a file a client has sent, as the value of a state's field or an event's parameter."""

from __future__ import annotations

import io
import os
import secrets
import weakref
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, Self, cast


class UploadedFile:
    """A file a client has sent: `read()` gives its bytes, `open()` a binary file to read it piece by piece.

    Immutable, and gone when nothing holds it any more; any thread may read it, and several at a time. `name` and
    `content_type` are what the client said; `data`, `size` and `mime_type` are other names of `read()`, `size_bytes`
    and `content_type`. For tests: `UploadedFile(b"…", name="cat.png")`.
    """

    __slots__ = ("__weakref__", "_content", "content_type", "id", "name", "size_bytes")

    def __init__(self, content: bytes, *, name: str = "", content_type: str = "application/octet-stream") -> None:
        self.id = new_id()
        self.name = name
        self.content_type = content_type
        self.size_bytes = len(content)
        self._content: bytes | int = bytes(content)

    @classmethod
    def received(cls, id: str, content: bytes | Path, *, name: str, content_type: str) -> Self:
        """Make one of what a client called `id` has sent; from a path it is opened, and no longer there afterwards."""
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
        """The whole file, read anew each time where it is on disk."""
        return self.read()

    @property
    def size(self) -> int:
        return self.size_bytes

    @property
    def mime_type(self) -> str:
        return self.content_type

    def open(self) -> BinaryIO:
        """Return a binary file, with a position of its own, at its beginning."""
        if isinstance(self._content, bytes):
            return io.BytesIO(self._content)
        return cast("BinaryIO", io.BufferedReader(_OnDisk(self, self._content)))

    def __repr__(self) -> str:
        return f"UploadedFile(name={self.name!r}, content_type={self.content_type!r}, size_bytes={self.size_bytes})"


NO_UPLOADS: Mapping[str, UploadedFile] = MappingProxyType({})


def new_id() -> str:
    """Make an id that nobody guesses."""
    return f"u-{secrets.token_hex(8)}"


class _OnDisk(io.RawIOBase):
    """Read a descriptor that others read too, from a position of one's own."""

    def __init__(self, file: UploadedFile, descriptor: int) -> None:
        self._file = file  # whose end closes the descriptor
        self._descriptor = descriptor
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]  # what a BufferedReader passes
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
