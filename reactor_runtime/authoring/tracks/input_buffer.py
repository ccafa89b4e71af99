"""Input buffers: items of an input track, pushed from any thread and read on one event loop.

`InputBuffer` owns the lock, the readers that wait, and the decoding, which happens only for items that are read.
`backlog.py` decides which items a reader gets.
"""

from __future__ import annotations

import asyncio
import math
import operator
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Generic, TypeVar

from reactor_runtime.authoring.tracks.backlog import (
    CAPACITY,
    Backlog,
    BufferClosed,
    Claim,
    DecodeAhead,
    Item,
    ReadInterrupted,
    ReadMode,
)
from reactor_runtime.clock import Clock

T = TypeVar("T")
InWorker = Callable[[Callable[[], None]], object]
Bad = list[tuple[Item[T], Exception]]


class WaitTimer:
    """Measure the seconds during which a reader waits for input; one object serves all buffers of a model."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting = 0
        self._since = 0.0
        self._finished_s = 0.0

    def __enter__(self) -> None:
        if not self._waiting:
            self._since = self._clock.now()
        self._waiting += 1

    def __exit__(self, *_exception: object) -> None:
        self._waiting -= 1
        if not self._waiting:
            self._finished_s += self._clock.now() - self._since

    @property
    def waiting(self) -> bool:
        """Return whether a reader waits."""
        return self._waiting > 0

    @property
    def waited_s(self) -> float:
        """Return the sum until now; readers that wait at the same time count once."""
        return self._finished_s + (self._clock.now() - self._since if self._waiting else 0.0)


@dataclass(slots=True)
class ReadCounts:
    """Count the items that were read, those that were requested when too few were there, and the reads.

    `lost` counts items that were dropped before a model that reads in order, with FIFO or ALL, had read them. The first
    read of a session decides about those that were dropped before it.
    """

    taken: int = 0
    missed: int = 0
    calls: int = 0
    lost: int = 0


class Reader(Generic[T]):
    """Hold one pending `read`: its request, the items it has claimed, and the future that wakes it."""

    def __init__(self, n: int, mode: ReadMode, openings: int) -> None:
        self.n = n
        self.mode = mode
        self.openings = openings
        self.claim: Claim[T] | None = None
        # True while it waits for items, False while it waits for decoding.
        self.queued = False
        self.interrupted = False
        self._loop = asyncio.get_running_loop()
        self._woken: asyncio.Future[None] | None = None

    def next_wake(self, *, queued: bool) -> asyncio.Future[None]:
        """Return the future that the next `wake` resolves."""
        self.queued = queued
        self._woken = self._loop.create_future()
        return self._woken

    def wake(self) -> bool:
        """Wake the reader from any thread; return False if its loop is closed."""
        self.queued = False
        if self._woken is not None:
            try:
                self._loop.call_soon_threadsafe(_resolve, self._woken)
            except RuntimeError:
                return False
        return True


class ReaderQueue(Generic[T]):
    """Serve the readers of a backlog in order of arrival; the buffer holds its lock around every call."""

    def __init__(self, backlog: Backlog[T]) -> None:
        self._backlog = backlog
        self._readers: deque[Reader[T]] = deque()

    def join(self, n: int, mode: ReadMode) -> Reader[T]:
        reader: Reader[T] = Reader(n, mode, self._backlog.openings)
        self._readers.append(reader)
        return reader

    def leave(self, reader: Reader[T]) -> None:
        """Remove a reader, return the items it claimed and did not read, and wake the next."""
        if reader.claim is not None:
            self._backlog.put_back(reader.claim)
        if reader in self._readers:
            self._readers.remove(reader)
        self.wake_first()

    def claim(self, reader: Reader[T]) -> Claim[T] | None:
        """Return a reader's items if it is first and they are there; raise BufferClosed if they can't come any more."""
        self.check_interrupted(reader)
        # After a reset the items belong to readers that joined since.
        if reader.openings != self._backlog.openings:
            raise BufferClosed("the input was closed")
        if self._readers[0] is reader:
            reader.claim = self._backlog.take(reader.n, reader.mode)
            if reader.claim is None and self._backlog.closed:
                raise BufferClosed(f"the input is closed and {len(self._backlog)} of {reader.n} items are left")
        return reader.claim

    def check_interrupted(self, reader: Reader[T]) -> None:
        """Raise ReadInterrupted for a reader that was interrupted."""
        if reader.interrupted:
            raise ReadInterrupted("the client has left")

    def wake_first(self) -> None:
        """Wake the first reader if its items are there or can't come any more."""
        while self._readers:
            first = self._readers[0]
            ended = self._backlog.closed or first.openings != self._backlog.openings
            if not first.queued or (len(self._backlog) < first.n and not ended) or first.wake():
                return
            self._readers.popleft()

    def interrupt(self) -> None:
        """Wake all readers; each raises ReadInterrupted."""
        for reader in self._readers:
            reader.interrupted = True
            reader.wake()


class InputBuffer(Generic[T]):
    """Keep the newest 128 items of an input track until the model reads them; a full buffer drops the oldest.

    Call `read` on the model's event loop, everything else on any thread. Concurrent readers are served in order of
    arrival. `in_worker` runs a function on another thread, or at once. `on_bad` is called on any thread for an item
    that can't be decoded, which is dropped, and `on_available` when there is something to read. `on_read` is called
    with the number of a read and the items it returns, none for one that raises TimeoutError, None for one that was
    cancelled. `on_late_read` is called by a read that comes after items were lost, with its mode and its stack frame.
    """

    def __init__(
        self,
        clock: Clock,
        in_worker: InWorker,
        *,
        waits: WaitTimer,
        on_bad: Callable[[Item[T], Exception], None],
        on_available: Callable[[], None],
        on_read: Callable[[int, Sequence[Item[T]] | None], None] = lambda _, __: None,
        on_late_read: Callable[[ReadMode, FrameType], None] = lambda _, __: None,
        capacity: int = CAPACITY,
    ) -> None:
        self._clock = clock
        self._in_worker = in_worker
        self._waits = waits
        self._on_bad = on_bad
        self._on_available = on_available
        self._on_read = on_read
        self._on_late_read = on_late_read
        # None until the first read.
        self._reads_in_order: bool | None = None
        # How many of the items that the backlog has dropped are counted, as lost or not.
        self._settled = 0
        self._reported = 0
        # No foreign code runs and nothing is awaited under this lock.
        self._lock = threading.Lock()
        self._backlog: Backlog[T] = Backlog(capacity)
        self._queue = ReaderQueue(self._backlog)
        self._ahead = DecodeAhead(self._backlog)
        self.reads = ReadCounts()

    async def read(self, n: int = 1, timeout: float | None = None, mode: ReadMode = ReadMode.LATEST) -> list[T]:
        """Wait until n items are there and return them in order of arrival.

        LATEST takes the newest n and drops those before; FIFO takes the oldest n and keeps the rest; ALL takes all that
        are there, at least n. Raises BufferClosed when fewer than n are left in a closed buffer, TimeoutError when n
        don't come within `timeout` seconds, ValueError for n below 1 or above the capacity. A read that raises or is
        cancelled takes nothing.
        """
        n, mode = self._checked(n, mode, sys._getframe())
        deadline = _deadline(timeout, self._clock)
        with self._waits:
            with self._lock:
                self.reads.calls += 1
                call = self.reads.calls
                self._ahead.stop()
                reader = self._queue.join(n, mode)
            try:
                while True:
                    claim = await self._claim_when_first(reader, deadline)
                    if await self._decode_claim(reader, claim):
                        self._on_read(call, claim.wanted)
                        return _arrays(claim)
            except TimeoutError:
                self._on_read(call, ())
                raise
            except asyncio.CancelledError:
                self._on_read(call, None)
                raise
            except BufferClosed:
                # A loop that reads a closed buffer again and again must not starve the code that opens it.
                await asyncio.sleep(0)
                raise
            finally:
                with self._lock:
                    self._queue.leave(reader)

    def try_read(self, n: int = 1, mode: ReadMode = ReadMode.LATEST) -> list[T] | None:
        """Return n items as `read` would, or None, changing nothing, if fewer are there.

        Raises BufferClosed if the buffer is closed. Never waits, and goes before pending `read` calls. While the model
        keeps calling this, items are decoded ahead and become available when they are decoded.
        """
        n, mode = self._checked(n, mode, sys._getframe())
        self.reads.calls += 1
        call = self.reads.calls
        while True:
            with self._lock:
                if self._backlog.closed:
                    raise BufferClosed("the input is closed")
                self._ahead.on_poll()
                claim = self._backlog.take(n, mode)
                if claim is None:
                    self.reads.missed += n
                    return None
            bad = _decode(claim.wanted)
            if not bad:
                with self._lock:
                    self.reads.taken += claim.n
                self._on_read(call, claim.wanted)
                return _arrays(claim)
            with self._lock:
                self._backlog.put_back(claim, without=[item for item, _ in bad])
            _report(bad, self._on_bad)

    def push(self, item: Item[T], *, decode_ahead: bool = True) -> None:
        """Add an item, to be read at once without `decode_ahead`; a closed buffer drops it."""
        with self._lock:
            if not self._backlog.push(item, hold=decode_ahead and self._ahead.wants(item)):
                return
            self._count_lost()
            ahead = self._ahead.start()
            available = self._backlog.newest_on_hold() is None
            self._queue.wake_first()
        if ahead is not None:
            self._in_worker(lambda: self._decode_ahead(ahead))
        if available:
            self._on_available()

    def close(self) -> None:
        """Drop all later items; pending reads of more items than are left raise BufferClosed."""
        with self._lock:
            self._ahead.forget_current()
            self._backlog.close()
            self._queue.wake_first()

    def reset(self) -> None:
        """Open the buffer and empty it; during `@connected` it keeps what the new client has sent."""
        with self._lock:
            self._ahead.forget_current()
            self._backlog.reset()
            available = len(self._backlog) > 0
            self._queue.wake_first()
        if available:
            self._on_available()

    def clear(self) -> None:
        """Drop all items; an open buffer stays open, a closed one closed."""
        with self._lock:
            self._ahead.forget_current()
            self._backlog.clear()

    def begin_counting(self) -> None:
        """Number reads and count lost items from here on, as a session begins."""
        with self._lock:
            self.reads.calls = self.reads.lost = self._reported = 0
            self._reads_in_order = None
            self._settled = self._backlog.dropped

    def interrupt(self) -> None:
        """Raise ReadInterrupted in all pending reads without closing the buffer."""
        with self._lock:
            self._queue.interrupt()

    def start_retaining(self) -> None:
        """Retain what arrives from now on, also while closed, so that a `reset` keeps it."""
        with self._lock:
            self._backlog.start_retaining()

    def stop_retaining(self) -> None:
        with self._lock:
            self._backlog.stop_retaining()

    @property
    def available(self) -> int:
        """Return how many items can be read now."""
        return len(self._backlog)

    @property
    def capacity(self) -> int:
        """Return the number of items that may wait."""
        return self._backlog.capacity

    @property
    def total_received(self) -> int:
        """Return how many items have been accepted since the buffer was last reset, as at the start of a session."""
        return self._backlog.received - self._backlog.received_before

    @property
    def received_in_all(self) -> int:
        """Return how many items have been accepted since the model was loaded."""
        return self._backlog.received

    @property
    def closed(self) -> bool:
        """Return whether the buffer is closed."""
        return self._backlog.closed

    def _checked(self, n: int, mode: ReadMode, frame: FrameType) -> tuple[int, ReadMode]:
        """Check the arguments of a read, and report it if items were lost since the last one."""
        n, mode = _checked(n, mode, self._backlog.capacity)
        with self._lock:
            self._reads_in_order = mode is not ReadMode.LATEST
            self._count_lost()
            late = self.reads.lost > self._reported
            self._reported = self.reads.lost
        if late:
            self._on_late_read(mode, frame)
        return n, mode

    def _count_lost(self) -> None:
        """Count what the backlog has dropped since the last call, once it is known how the model reads."""
        if self._reads_in_order is None:
            return
        if self._reads_in_order:
            self.reads.lost += self._backlog.dropped - self._settled
        self._settled = self._backlog.dropped

    async def _claim_when_first(self, reader: Reader[T], deadline: float | None) -> Claim[T]:
        missed = reader.n
        while True:
            with self._lock:
                claim = self._queue.claim(reader)
                if claim is not None:
                    return claim
                if deadline is not None and self._clock.now() >= deadline:
                    raise TimeoutError(f"{len(self._backlog)} of {reader.n} items came in time")
                self.reads.missed, missed = self.reads.missed + missed, 0
                woken = reader.next_wake(queued=True)
            await _until(woken, deadline, self._clock)

    async def _decode_claim(self, reader: Reader[T], claim: Claim[T]) -> bool:
        """Decode a claim in a worker; return False if the reader has to wait for another claim."""
        bad: Bad[T] = []
        if not all(item.decoded for item in claim.wanted):
            await self._decode_in_worker(reader, claim.wanted, bad)
        with self._lock:
            self._queue.check_interrupted(reader)
            reader.claim = None
            if not self._backlog.is_valid(claim):
                return False
            if bad:
                self._backlog.put_back(claim, without=[item for item, _ in bad])
            else:
                self.reads.taken += claim.n
        _report(bad, self._on_bad)
        return not bad

    async def _decode_in_worker(self, reader: Reader[T], items: Sequence[Item[T]], bad: Bad[T]) -> None:
        with self._lock:
            self._queue.check_interrupted(reader)
            decoded = reader.next_wake(queued=False)

        def work() -> None:
            try:
                bad.extend(_decode(items))
            finally:
                reader.wake()

        self._in_worker(work)
        await decoded

    def _decode_ahead(self, item: Item[T]) -> None:
        """Decode an item, then the newest that arrived meanwhile, until there is none; runs in a worker."""
        following: Item[T] | None = item
        while following is not None:
            bad = _decode([following])
            with self._lock:
                if not self._ahead.is_current(following):
                    return
                following = self._ahead.finish(following, good=not bad)
                self._queue.wake_first()
            _report(bad, self._on_bad)
            self._on_available()


def _decode(items: Sequence[Item[T]]) -> Bad[T]:
    bad: Bad[T] = []
    for item in items:
        try:
            item.array()
        # A client's data may fail in any way that the decoder can raise; `on_bad` reports it.
        except Exception as error:  # noqa: BLE001
            bad.append((item, error))
    return bad


def _report(bad: Bad[T], on_bad: Callable[[Item[T], Exception], None]) -> None:
    for item, error in bad:
        on_bad(item, error)


def _arrays(claim: Claim[T]) -> list[T]:
    return [item.array() for item in claim.wanted]


def _checked(n: int, mode: ReadMode, capacity: int) -> tuple[int, ReadMode]:
    n = operator.index(n)
    if not 1 <= n <= capacity:
        raise ValueError(f"can't read {n} items at once from a buffer of {capacity}")
    return n, ReadMode(mode)


def _deadline(timeout: float | None, clock: Clock) -> float | None:
    if timeout is None or timeout == math.inf:
        return None
    if math.isnan(timeout):
        raise ValueError("the timeout is not a number of seconds: nan")
    # With a NumPy float32 the sum would be a float32, which is hours off.
    return clock.now() + float(timeout)


async def _until(woken: asyncio.Future[None], deadline: float | None, clock: Clock) -> None:
    """Wait for a wake-up or for the deadline."""
    if deadline is None:
        await woken
        return
    timer = clock.call_at(deadline, lambda: _resolve(woken))
    try:
        await woken
    finally:
        timer.cancel()


def _resolve(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
