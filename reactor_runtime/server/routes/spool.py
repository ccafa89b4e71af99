"""Bytes of a file while they come: in memory as long as they are few, then in a file."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import BinaryIO

from reactor_runtime.server.routes.folder import TemporaryFolder

MOST_IN_MEMORY_BYTES = 1 << 20


class Spool:
    """Take a file piece by piece; disks are slow, so they are written in other threads, 1 MiB at a time.

    The file lies at `path`, below `folder`. Call `discard` at the end, whatever became of it: a file that nobody took
    is removed by that.
    """

    def __init__(self, folder: TemporaryFolder, path: Path) -> None:
        self.size_bytes = 0
        self._folder = folder
        self._path = path
        self._file: BinaryIO | None = None
        self._buffer = bytearray()

    async def add(self, data: bytes) -> None:
        """Add bytes; OSError when the disk takes no more."""
        self._buffer += data
        self.size_bytes += len(data)
        if len(self._buffer) > MOST_IN_MEMORY_BYTES:
            await asyncio.to_thread(self._write)

    async def finish(self) -> Path | bytes:
        """Return the whole, or the path where it is."""
        if self._file is None:
            return bytes(self._buffer)
        await asyncio.to_thread(self._write)
        await asyncio.to_thread(self._file.close)
        return self._path

    async def discard(self, *, taken: bool) -> None:
        """Let go of everything, of the file too unless somebody has taken it."""
        if self._file is not None:
            await asyncio.to_thread(self._file.close)
            if not taken:
                await asyncio.to_thread(self._path.unlink, missing_ok=True)

    def _write(self) -> None:
        if self._file is None:
            self._folder.make()
            self._path.parent.mkdir(0o700, exist_ok=True)
            self._file = self._path.open("xb")
        self._file.write(self._buffer)
        self._buffer.clear()
