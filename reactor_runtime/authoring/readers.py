"""Who waits for an input buffer: readers in line, woken from any thread, each on its own event loop.

The line has no lock of its own; `buffer.py` holds its lock around every call but `Reader.call`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, TypeVar

from reactor_runtime.authoring.backlog import Backlog, BufferClosed, Claim, ReadMode
from reactor_runtime.clock import Clock

T = TypeVar("T")


class Reader(Generic[T]):
    """Be one `read` on its way: what it asks for, what it has got so far, and how to wake it."""

    def __init__(self, n: int, mode: ReadMode, openings: int) -> None:
        self.n = n
        self.mode = mode
        self.openings = openings
        self.claim: Claim[T] | None = None
        self.in_turn = False  # whether it waits for its turn, rather than for decoding
        self.interrupted = False
        self._loop = asyncio.get_running_loop()
        self._called: asyncio.Future[None] | None = None

    def expect(self, *, turn: bool) -> asyncio.Future[None]:
        """Return what the next call will resolve."""
        self.in_turn = turn
        self._called = self._loop.create_future()
        return self._called

    def call(self) -> bool:
        """Wake the reader, from any thread; False if its loop is closed, so that nobody waits there any more."""
        self.in_turn = False
        if self._called is not None:
            try:
                self._loop.call_soon_threadsafe(_resolve, self._called)
            except RuntimeError:
                return False
        return True


class ReaderQueue(Generic[T]):
    """Serve the readers of a backlog one after the other, in the order they came."""

    def __init__(self, backlog: Backlog[T]) -> None:
        self._backlog = backlog
        self._readers: deque[Reader[T]] = deque()

    def join(self, n: int, mode: ReadMode) -> Reader[T]:
        reader: Reader[T] = Reader(n, mode, self._backlog.openings)
        self._readers.append(reader)
        return reader

    def leave(self, reader: Reader[T]) -> None:
        """Let the next one come first; what the reader has claimed and not used goes back."""
        if reader.claim is not None:
            self._backlog.put_back(reader.claim)
        if reader in self._readers:
            self._readers.remove(reader)
        self.call_first()

    def claim(self, reader: Reader[T]) -> Claim[T] | None:
        """Take what the reader asks for, if it is its turn and enough is there; BufferClosed if it can't come."""
        self.refuse_interrupted(reader)
        if reader.openings != self._backlog.openings:  # what is there is for those who came after
            raise BufferClosed("the input was closed")
        if self._readers[0] is reader:
            reader.claim = self._backlog.take(reader.n, reader.mode)
            if reader.claim is None and self._backlog.closed:
                raise BufferClosed(f"the input is closed and {len(self._backlog)} of {reader.n} items are left")
        return reader.claim

    def refuse_interrupted(self, reader: Reader[T]) -> None:
        if reader.interrupted:
            raise BufferClosed("the session has ended")

    def call_first(self) -> None:
        """Wake the first in line if there is something for it to know."""
        while self._readers:
            first = self._readers[0]
            ended = self._backlog.closed or first.openings != self._backlog.openings
            if not first.in_turn or (len(self._backlog) < first.n and not ended) or first.call():
                return
            self._readers.popleft()

    def interrupt(self) -> None:
        """Wake everyone, with BufferClosed."""
        for reader in self._readers:
            reader.interrupted = True
            reader.call()


async def give_way() -> None:
    """Let the loop turn once."""
    await asyncio.sleep(0)


async def until(called: asyncio.Future[None], deadline: float | None, clock: Clock) -> None:
    """Wait for a call or for the deadline."""
    if deadline is None:
        await called
        return
    timer = clock.call_at(deadline, lambda: _resolve(called))
    try:
        await called
    finally:
        timer.cancel()


def _resolve(called: asyncio.Future[None]) -> None:
    if not called.done():
        called.set_result(None)
