"""A lock on loading a model on a GPU, for all workers of a machine: the file lock of the operating system.

A worker that is killed while it loads releases it.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import tempfile
from pathlib import Path

RETRY_S = 0.2


class GpuLoadLock:
    """Hold the lock of the GPUs in `devices`, as in CUDA_VISIBLE_DEVICES; use on one event loop."""

    def __init__(self, devices: str) -> None:
        name = hashlib.sha256(devices.encode()).hexdigest()[:16]
        self._path = Path(tempfile.gettempdir()) / f"reactor-load-{os.getuid()}-{name}.lock"
        self._file: int | None = None

    def locked(self) -> bool:
        """Return whether a worker loads on these GPUs."""
        if self._file is None and self._take():
            self.release()
            return False
        return True

    async def acquire(self) -> None:
        # A thread that waits for the lock could not be cancelled, and would keep the process from ending.
        while self._file is None and not self._take():  # noqa: ASYNC110  (other processes set no event)
            await asyncio.sleep(RETRY_S)

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _take(self) -> bool:
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        self._file = file
        return True
