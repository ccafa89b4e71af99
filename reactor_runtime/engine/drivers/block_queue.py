"""The queue from the code of a block model to the loop: blocks and messages, in order."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from reactor_runtime.engine.drivers.threads import Gate, Turns
from reactor_runtime.engine.output.unpack import ByTrack
from reactor_runtime.ipc.messages import MessageSent

MOST_MESSAGES = 1000


@dataclass(slots=True, eq=False)
class Block:
    """Hold frames that are shown one after the other.

    `made_in_s` is how long they took to make, if measured; `applied` is the number of events handled when that began.
    The loop sets `handed_over_at` when it has room for them.
    """

    payload: ByTrack
    frames: int
    made_in_s: float | None
    applied: int
    handed_over_at: float | None = None


class BlockQueue:
    """Pass blocks and messages from any thread to the loop, to which all methods but `put` belong.

    `put` waits until a block was handed over, when its array is the author's again; it waits for a message only if
    1,000 items wait. `arrived` is called on any thread, after each `put`.
    """

    def __init__(self, turns: Turns, arrived: Callable[[], None]) -> None:
        self._turns = turns
        self._arrived = arrived
        self._lock = threading.Lock()
        self._items: deque[tuple[Block | MessageSent, Gate | None]] = deque()
        self._stopped = False

    def put(self, item: Block | MessageSent) -> None:
        """Append an item and wait as described above; once stopped, drop it at once."""
        with self._lock:
            if self._stopped:
                return
            waits = isinstance(item, Block) or len(self._items) >= MOST_MESSAGES
            gate = self._turns.gate() if waits else None
            self._items.append((item, gate))
        self._arrived()
        if gate is not None:
            gate.wait()

    def first(self) -> Block | MessageSent | None:
        """Return the oldest item without removing it."""
        with self._lock:
            return self._items[0][0] if self._items else None

    def taken(self) -> None:
        """Remove the oldest item and wake the thread that brought it; do nothing once stopped."""
        with self._lock:
            gate = self._items.popleft()[1] if self._items else None
        if gate is not None:
            gate.open()

    def stop(self) -> None:
        """Drop all items and wake all waiting threads; later items are dropped."""
        with self._lock:
            self._stopped = True
            items, self._items = self._items, deque()
        for _, gate in items:
            if gate is not None:
                gate.open()
