"""Lines of an input that is no terminal, a pipe or a file, read on a thread: an event loop can't wait for a file."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from io import FileIO

MOST_AHEAD = 100


class Lines:
    """Read lines from a descriptor, at most 100 ahead of their use; made on the event loop that uses them."""

    def __init__(self, descriptor: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._read: asyncio.Queue[str | None] = asyncio.Queue()
        self._room = threading.Semaphore(MOST_AHEAD)
        threading.Thread(target=self._run, args=(descriptor,), name="input", daemon=True).start()

    async def next(self) -> str | None:
        """Return the next line, None once at the end."""
        line = await self._read.get()
        self._room.release()
        return line

    def _run(self, descriptor: int) -> None:
        """Read without a buffer: its lock would be held at the end of the program, which ends Python with an error."""
        # a descriptor that can't be read, as under nohup, is at its end
        with contextlib.suppress(OSError), FileIO(descriptor, closefd=False) as file:
            for line in file:
                self._room.acquire()
                self._hand_over(line.decode("utf-8", "replace").rstrip("\r\n"))
        self._hand_over(None)

    def _hand_over(self, line: str | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits
            self._loop.call_soon_threadsafe(self._read.put_nowait, line)
