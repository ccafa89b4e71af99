"""Input buffers: where what a client sends waits for the model, pushed from any thread, read on one event loop.

No thread is held while a reader waits, and what nobody reads is not decoded. Which items a reader gets is decided in
`backlog.py`, whose turn it is in `readers.py`; this file owns the lock around both, and the decoding.
"""

from __future__ import annotations

import math
import operator
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from reactor_runtime.authoring.ahead import Ahead
from reactor_runtime.authoring.backlog import CAPACITY, Backlog, BufferClosed, Claim, Item, ReadMode
from reactor_runtime.authoring.early import Early
from reactor_runtime.authoring.readers import Reader, ReaderQueue, give_way, until
from reactor_runtime.clock import Clock

T = TypeVar("T")
InWorker = Callable[[Callable[[], None]], object]
Bad = list[tuple[Item[T], Exception]]


class Waits:
    """Add up the seconds during which somebody waits for input; one for all buffers of a model, on its loop."""

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
    def waited_s(self) -> float:
        """The sum up to this moment; two who wait at once count once."""
        return self._finished_s + (self._clock.now() - self._since if self._waiting else 0.0)


@dataclass(slots=True)
class Reads:
    """Count the items that were read, and those that were asked for when too few were there."""

    taken: int = 0
    missed: int = 0


class InputBuffer(Generic[T]):
    """Hold the newest 128 items of an input track until the model reads them; when full, the oldest goes.

    `read` belongs on the model's event loop, everything else on any thread. Readers that wait at the same time are
    served in the order they came. `in_worker` runs what it is given in another thread, or at once; `on_bad` hears, on
    any thread, of an item that can't be decoded and is left out, `on_available` that there is something to read.
    """

    def __init__(
        self,
        clock: Clock,
        in_worker: InWorker,
        *,
        waits: Waits,
        on_bad: Callable[[Item[T], Exception], None],
        on_available: Callable[[], None],
        capacity: int = CAPACITY,
    ) -> None:
        self._clock = clock
        self._in_worker = in_worker
        self._waits = waits
        self._on_bad = on_bad
        self._on_available = on_available
        self._lock = threading.Lock()  # held for moments only; nobody else's code runs under it, nothing is awaited
        self._backlog: Backlog[T] = Backlog(capacity)
        self._line = ReaderQueue(self._backlog)
        self._ahead = Ahead(self._backlog)
        self.early: Early[T] = Early(capacity)
        self.reads = Reads()

    async def read(self, n: int = 1, timeout: float | None = None, mode: ReadMode = ReadMode.LATEST) -> list[T]:
        """Wait until n items are there and return them in order of arrival.

        LATEST takes the newest n and drops those before; FIFO takes the oldest n and keeps the rest. Raises
        BufferClosed when fewer than n are left in a closed buffer, TimeoutError when n don't come within `timeout`
        seconds, ValueError for n below 1 or above the capacity. A read that raises or is cancelled takes nothing.
        """
        n, mode = _checked(n, mode, self._backlog.capacity)
        deadline = _deadline(timeout, self._clock)
        with self._waits:
            with self._lock:
                self._ahead.stop()
                reader = self._line.join(n, mode)
            try:
                while True:
                    claim = await self._turn(reader, deadline)
                    if await self._decoded(reader, claim):
                        return _arrays(claim)
            except BufferClosed:
                await give_way()  # who reads a closed buffer time and again leaves room for what opens it
                raise
            finally:
                with self._lock:
                    self._line.leave(reader)

    def try_read(self, n: int = 1, mode: ReadMode = ReadMode.LATEST) -> list[T] | None:
        """Return n items as `read` would, or None, changing nothing, if fewer are there.

        Raises BufferClosed if the buffer is closed. Never waits, not even for those who wait in `read`. Someone who
        calls this again and again gets items decoded ahead; they are there once that is done.
        """
        n, mode = _checked(n, mode, self._backlog.capacity)
        while True:
            with self._lock:
                if self._backlog.closed:
                    raise BufferClosed("the input is closed")
                self._ahead.polled()
                claim = self._backlog.take(n, mode)
                if claim is None:
                    self.reads.missed += n
                    return None
            bad = _decode(claim.wanted)
            if not bad:
                with self._lock:
                    self.reads.taken += n
                return _arrays(claim)
            with self._lock:
                self._backlog.put_back(claim, without=[item for item, _ in bad])
            _report(bad, self._on_bad)

    def push(self, item: Item[T]) -> None:
        """Add an item; a closed buffer drops it."""
        with self._lock:
            self.early.add(item)
            if not self._backlog.push(item, hold=self._ahead.holds(item)):
                return
            ahead = self._ahead.begin()
            shown = self._backlog.held() is None
            self._line.call_first()
        if ahead is not None:
            self._in_worker(lambda: self._decode_ahead(ahead))
        if shown:
            self._on_available()

    def close(self) -> None:
        """End the input: what comes later is dropped, and whoever waits for more than is left gets BufferClosed."""
        with self._lock:
            self._ahead.forget()
            self._backlog.close()
            self._line.call_first()

    def reset(self) -> None:
        """Begin anew, open and empty; in `@connected`, with what the client has sent since it came."""
        with self._lock:
            self._ahead.forget()
            self._backlog.reset()
            early = self.early.items()
            for item in early:
                self._backlog.push(item)
            self._line.call_first()
        if early:
            self._on_available()

    def clear(self) -> None:
        """Drop what is there; open stays open, closed stays closed."""
        with self._lock:
            self._ahead.forget()
            self._backlog.clear()

    def interrupt(self) -> None:
        """Raise BufferClosed in all who are in `read` at this moment, without closing."""
        with self._lock:
            self._line.interrupt()

    @property
    def available(self) -> int:
        """How many items can be read at this moment."""
        return len(self._backlog)

    @property
    def total_received(self) -> int:
        """How many items have been accepted since the model was loaded."""
        return self._backlog.received

    @property
    def closed(self) -> bool:
        """Whether the buffer is closed."""
        return self._backlog.closed

    async def _turn(self, reader: Reader[T], deadline: float | None) -> Claim[T]:
        missed = reader.n
        while True:
            with self._lock:
                claim = self._line.claim(reader)
                if claim is not None:
                    return claim
                if deadline is not None and self._clock.now() >= deadline:
                    raise TimeoutError(f"{len(self._backlog)} of {reader.n} items came in time")
                self.reads.missed, missed = self.reads.missed + missed, 0
                called = reader.expect(turn=True)
            await until(called, deadline, self._clock)

    async def _decoded(self, reader: Reader[T], claim: Claim[T]) -> bool:
        """Decode a claim in a worker and let the reader have it; False if it has to wait for another."""
        bad: Bad[T] = []
        if not all(item.decoded for item in claim.wanted):
            await self._decode_in_worker(reader, claim.wanted, bad)
        with self._lock:
            self._line.refuse_interrupted(reader)
            reader.claim = None
            if not self._backlog.holds(claim):
                return False
            if bad:
                self._backlog.put_back(claim, without=[item for item, _ in bad])
            else:
                self.reads.taken += reader.n
        _report(bad, self._on_bad)
        return not bad

    async def _decode_in_worker(self, reader: Reader[T], items: Sequence[Item[T]], bad: Bad[T]) -> None:
        with self._lock:
            self._line.refuse_interrupted(reader)
            decoded = reader.expect(turn=False)

        def work() -> None:
            try:
                bad.extend(_decode(items))
            finally:
                reader.call()

        self._in_worker(work)
        await decoded

    def _decode_ahead(self, item: Item[T]) -> None:
        """Decode, in a worker, one item and then whatever has become the newest meanwhile."""
        following: Item[T] | None = item
        while following is not None:
            bad = _decode([following])
            with self._lock:
                if not self._ahead.is_current(following):
                    return
                following = self._ahead.finish(following, good=not bad)
                self._line.call_first()
            _report(bad, self._on_bad)
            self._on_available()


def _decode(items: Sequence[Item[T]]) -> Bad[T]:
    bad: Bad[T] = []
    for item in items:
        try:
            item.array()
        except Exception as error:  # noqa: BLE001  # a client's data, and the decoder's errors; the runtime is told
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
    return clock.now() + float(timeout)  # with a float32 the sum would be one, and hours off
