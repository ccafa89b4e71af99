"""Shared memory for pixels and samples: anonymous, passed by descriptor, freed with the last process that holds it.

Measured on two cores, 720p, free-running, relative to bare encoding on one core: 1.7 times with this memory, 1.4 times
with the bytes through the socket.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import tempfile
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

PAGE = mmap.PAGESIZE
PIECE = 256 * 1024
# The size of a file that is written into a room; 0 while there is none.
_SIZE = struct.Struct("=Q")


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


@dataclass(eq=False, slots=True)
class _Loan:
    """Room for an array that the author writes: taken while the array exists, or a bundle has it that is not shown."""

    start: int = 0
    address: int = 0
    size: int = 0
    exists: bool = True
    bundles: int = 0
    # Its callback is called when the array and all views of it are gone.
    watch: weakref.ref[Any] | None = None


def room_for(height: int, width: int) -> int:
    """Return the size of a room for the file of a frame: a JPEG of noise has 0.8 bytes a pixel, 2 in quality 100."""
    return 2 * height * width + PAGE


class RingWriter:
    """Place arrays into the shared memory and keep each until it is released; the memory grows as needed. Any thread.

    The first `head` bytes are left alone.
    """

    def __init__(self, fd: int, head: int = 0) -> None:
        self._fd = fd
        self._head = head
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._map: mmap.mmap | None = None
        self._memory = np.empty(0, np.uint8)
        # The room of each bundle for arrays that were copied, and of each loan.
        self._used: dict[int | _Loan, tuple[int, int]] = {}
        self._loans: list[_Loan] = []
        self._loans_of: dict[int, list[_Loan]] = {}
        # Appended to wherever the interpreter frees an array.
        self._returned: deque[_Loan] = deque()

    def write(self, key: int, arrays: Sequence[NDArray[np.generic]], rooms: Sequence[int] = ()) -> list[int]:
        """Place arrays under `key` and return the offset of each; one that `lend` has returned is there already.

        For all others this is the only copy of the pixels. The offsets of `rooms` follow: for each a place where the
        other process may put a file of at most so many bytes, which `read_file` returns.
        """
        with self._lock:
            self._take_back()
            offsets = [self._lent_offset(key, array) for array in arrays]
            copied = [array.nbytes for array, offset in zip(arrays, offsets, strict=True) if offset is None]
            *starts, size = accumulate([*copied, *(_SIZE.size + room for room in rooms)], initial=0)
            start = self._gap(key, size) if starts else 0
            self._ensure(start + size)
            memory, places = self._memory, iter(starts)
        found = []
        for array, offset in zip(arrays, offsets, strict=True):
            at = start + next(places) if offset is None else offset
            if offset is None:
                _copy(memory[at : at + array.nbytes], array)
            found.append(at)
        for place in places:
            memory[start + place : start + place + _SIZE.size] = 0
            found.append(start + place)
        return found

    def read_file(self, room: int) -> bytes:
        """Return the file at the offset of a room; b"" if there is none. Call it before `release`."""
        (size,) = _SIZE.unpack(os.pread(self._fd, _SIZE.size, room))
        return os.pread(self._fd, size, room + _SIZE.size)

    def lend(self, size: int) -> NDArray[np.uint8]:
        """Return memory for an array that `write` need not copy; any memory in a forked child, which has no ring."""
        if os.getpid() != self._process:
            return np.empty(size, np.uint8)
        with self._lock:
            self._take_back()
            loan = _Loan(size=size)
            loan.start = self._gap(loan, size)
            self._ensure(loan.start + size)
            assert self._map is not None, "the memory was made large enough"
            # Views of a view of an array refer to that array alone. This object is no array, so that all views refer to
            # it, and it lives as long as the last of them.
            owner = (ctypes.c_uint8 * size).from_buffer(self._map, loan.start)
            loan.address = ctypes.addressof(owner)
            loan.watch = weakref.ref(owner, lambda _: self._returned.append(loan))
            self._loans.append(loan)
        return np.frombuffer(memoryview(owner), np.uint8)

    def release(self, key: int) -> None:
        """Free the room under `key`; ignore unknown keys."""
        with self._lock:
            self._used.pop(key, None)
            for loan in self._loans_of.pop(key, ()):
                loan.bundles -= 1
                self._free_unused(loan)

    def _lent_offset(self, key: int, array: NDArray[np.generic]) -> int | None:
        """Return the offset of an array that lies in one that was lent, which the bundle `key` keeps from here on."""
        if not self._loans or not array.flags.c_contiguous:
            return None
        address = array.__array_interface__["data"][0]
        for loan in self._loans:
            # The memory of one that is gone may belong to another array by now.
            if loan.exists and loan.address <= address and address + array.nbytes <= loan.address + loan.size:
                loan.bundles += 1
                self._loans_of.setdefault(key, []).append(loan)
                return loan.start + int(address) - loan.address
        return None

    def _take_back(self) -> None:
        while self._returned:
            loan = self._returned.popleft()
            loan.exists = False
            self._free_unused(loan)

    def _free_unused(self, loan: _Loan) -> None:
        if not loan.exists and not loan.bundles:
            loan.watch = None
            del self._used[loan]
            self._loans.remove(loan)

    def _gap(self, key: int | _Loan, size: int) -> int:
        """Return the first gap that is large enough; a scan is fastest for the few pieces in use."""
        size = -(-size // PAGE) * PAGE
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
            self._map = mmap.mmap(self._fd, grown)
            self._memory = np.frombuffer(self._map, np.uint8)


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
    """Return views of arrays that the other process placed, and put files into its rooms, until the credit is sent.

    Any thread.
    """

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

    def file(self, offset: int, size: int) -> bytes:
        """Return a copy of the bytes of a frame that is a file."""
        return self._view(offset, size).tobytes()

    def samples(self, offset: int, channels: int, samples: int) -> NDArray[np.int16]:
        return self._view(offset, channels * samples * 2).view(np.int16).reshape(channels, samples)

    def put_file(self, room: int, file: bytes, most_bytes: int) -> None:
        """Put a file into the room at this offset, unless it is too large for it."""
        with self._lock:
            # A closed descriptor may be that of another file.
            if self._fd >= 0 and len(file) <= most_bytes:
                os.pwritev(self._fd, (_SIZE.pack(len(file)), file), room)

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
