"""Shared memory for pixels and samples: anonymous, passed by descriptor, freed with the last process that holds it.

Measured on two cores, 720p, free-running, relative to bare encoding on one core: 1.7 times with this memory, 1.4 times
with the bytes through the socket.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

PAGE = mmap.PAGESIZE
PIECE = 256 * 1024


def create_memory(size: int = 0) -> int:
    """Return the descriptor of anonymous memory, filled with zeros."""
    # Linux has it; elsewhere an unlinked file in the page cache serves.
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("reactor-frames", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.ftruncate(fd, size)
    return fd


class RingWriter:
    """Place arrays into the shared memory and keep each until it is released; the memory grows as needed.

    The first `head` bytes are left alone.
    """

    def __init__(self, fd: int, head: int = 0) -> None:
        self._fd = fd
        self._head = head
        self._memory = np.empty(0, np.uint8)
        self._used: dict[int, tuple[int, int]] = {}

    def reserve(self, key: int, sizes: Sequence[int]) -> list[int]:
        """Reserve room under `key` for arrays of these sizes in bytes; return the offset of each."""
        *offsets, size = accumulate(sizes, initial=0)
        start = self._gap(key, size)
        self._ensure(start + size)
        return [start + offset for offset in offsets]

    def copy(self, offset: int, array: NDArray[np.generic]) -> None:
        """Copy an array to its reserved room; the only copy of the pixels."""
        _copy(self._memory[offset : offset + array.nbytes], array)

    def release(self, key: int) -> None:
        """Free the room under `key`; ignore unknown keys."""
        self._used.pop(key, None)

    def _gap(self, key: int, size: int) -> int:
        """Return the first gap that is large enough; a scan is fastest for the few pieces in use."""
        size = -(-max(size, 1) // PAGE) * PAGE
        start = self._head
        for taken, end in sorted(self._used.values()):
            if taken - start >= size:
                break
            start = end
        self._used[key] = (start, start + size)
        return start

    def _ensure(self, size: int) -> None:
        if size > self._memory.size:
            grown = -(-size // PAGE) * PAGE
            os.ftruncate(self._fd, grown)
            # Views of the former mapping stay valid: it is unmapped with the last of them.
            self._memory = np.frombuffer(mmap.mmap(self._fd, grown), np.uint8)


def _copy(target: NDArray[np.uint8], array: NDArray[np.generic]) -> None:
    """Copy in pieces: a large copy in one call bypasses the caches.

    Measured at 720p: 0.17 instead of 0.20 ms, and the encoder that reads it next takes 2.65 instead of 2.84 ms.
    """
    if not array.flags.c_contiguous:
        np.copyto(target.view(array.dtype).reshape(array.shape), array)
        return
    source = array.reshape(-1).view(np.uint8)
    for start in range(0, source.size, PIECE):
        target[start : start + PIECE] = source[start : start + PIECE]


class RingReader:
    """Return views of arrays that the other process placed, valid until their credit is sent. Any thread."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        # Otherwise a thread could map a closed descriptor, or another file of the same number.
        self._lock = threading.Lock()
        self._memory = np.empty(0, np.uint8)

    def frame(self, offset: int, height: int, width: int) -> NDArray[np.uint8]:
        """Return the pixels `(height, width, 3)` of a frame; black for an `offset` below 0."""
        if offset < 0:
            return np.zeros((height, width, 3), np.uint8)
        size = height * width * 3
        return self._view(offset, size).reshape(height, width, 3)

    def samples(self, offset: int, channels: int, samples: int) -> NDArray[np.int16]:
        return self._view(offset, channels * samples * 2).view(np.int16).reshape(channels, samples)

    def close(self) -> None:
        """Unmap the memory when no view is left; new views beyond it raise OSError."""
        with self._lock:
            self._fd = -1
            self._memory = np.empty(0, np.uint8)

    def _view(self, offset: int, size: int) -> NDArray[np.uint8]:
        memory = self._memory
        if offset + size > memory.size:
            memory = self._map(offset + size)
        return memory[offset : offset + size]

    def _map(self, size: int) -> NDArray[np.uint8]:
        with self._lock:
            if size > self._memory.size:
                length = os.fstat(self._fd).st_size
                self._memory = np.frombuffer(mmap.mmap(self._fd, length, access=mmap.ACCESS_READ), np.uint8)
            return self._memory
