"""Shared memory for the large buffers of one message; it has no name, so nothing of it is left after a crash."""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.distributed.errors import SharedSlotAllocationFailed
from reactor_runtime.ipc.ring import create_memory

ALIGNMENT = 64


class SharedSlot:
    """Hold the buffers of the newest message; the readers copy them before the next one is written.

    `fd` is the descriptor of memory that another process has made; without it the memory is new. It grows as needed.
    Raises SharedSlotAllocationFailed if there is no memory.
    """

    def __init__(self, fd: int | None = None) -> None:
        try:
            self.fd = create_memory() if fd is None else fd
        except OSError as error:
            raise _failure(0, error) from error
        self._memory: NDArray[np.uint8] = np.empty(0, np.uint8)

    def write(self, buffers: Sequence[memoryview]) -> None:
        """Replace the buffers of the former message."""
        sizes = [buffer.nbytes for buffer in buffers]
        *starts, total = _offsets(sizes)
        if total > self._memory.size:
            try:
                os.ftruncate(self.fd, total)
                self._map(total)
            except (OSError, ValueError) as error:
                raise _failure(total, error) from error
        for start, size, buffer in zip(starts, sizes, buffers, strict=True):
            # Unlike the assignment of a slice of bytes, this releases the GIL.
            np.copyto(self._memory[start : start + size], np.frombuffer(buffer, np.uint8))

    def read(self, sizes: Sequence[int]) -> list[memoryview]:
        """Return copies of the buffers, which have these sizes in bytes."""
        *starts, total = _offsets(sizes)
        if total > self._memory.size:
            try:
                self._map(total)
            except OSError as error:
                raise _failure(total, error) from error
        return [self._memory[start : start + size].copy().data for start, size in zip(starts, sizes, strict=True)]

    def close(self) -> None:
        """Close the descriptor; may be called twice."""
        self._memory = np.empty(0, np.uint8)
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def _map(self, size: int) -> None:
        self._memory = np.frombuffer(mmap.mmap(self.fd, size), np.uint8)


def _offsets(sizes: Sequence[int]) -> list[int]:
    """Return the offset of each buffer, and the size of all."""
    return list(accumulate((-(-size // ALIGNMENT) * ALIGNMENT for size in sizes), initial=0))


def _failure(size: int, error: Exception) -> SharedSlotAllocationFailed:
    reason = error.strerror if isinstance(error, OSError) else error
    return SharedSlotAllocationFailed(f"no shared memory of {size} bytes: {reason}")
