"""A lock on loading a model on a GPU, for all workers of a machine: on Linux only one socket can have an abstract name.

It leaves no file, and a worker that is killed while it loads releases it. Other systems have no abstract names, and so
no lock.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys

RETRY_S = 0.2


class GpuLoadLock:
    """Hold the lock of the GPUs in `devices`, as in CUDA_VISIBLE_DEVICES; use on one event loop."""

    def __init__(self, devices: str) -> None:
        self._name = f"\0reactor-load-{os.getuid()}-{devices}"[:100]
        self._socket: socket.socket | None = None

    def locked(self) -> bool:
        """Return whether a worker loads on these GPUs."""
        if self._socket is None and self._take():
            self.release()
            return False
        return True

    async def acquire(self) -> None:
        # A thread that waits for the lock could not be cancelled, and would keep the process from ending.
        while self._socket is None and not self._take():  # noqa: ASYNC110  (other processes set no event)
            await asyncio.sleep(RETRY_S)

    def release(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _take(self) -> bool:
        taken = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            if sys.platform == "linux":
                taken.bind(self._name)
        except OSError:
            taken.close()
            return False
        self._socket = taken
        return True
