"""What the code of a block model hands to the loop: blocks, and messages in between, in order."""

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
    """Frames that are shown one after the other.

    `made_in_s` is how long they took to make, if that was measured; `applied` how many events had been handled when
    their making began. The loop notes in `handed_over_at` when it had room for them.
    """

    payload: ByTrack
    frames: int
    made_in_s: float | None
    applied: int
    handed_over_at: float | None = None


class BlockQueue:
    """Let any thread wait until the loop has taken what it brings; the rest belongs to the loop.

    Who brings a block waits until it was handed over, and its array is the author's again; who brings a message goes
    on, unless 1,000 wait. `arrived` is called on any thread, after each `put`.
    """

    def __init__(self, turns: Turns, arrived: Callable[[], None]) -> None:
        self._turns = turns
        self._arrived = arrived
        self._lock = threading.Lock()
        self._items: deque[tuple[Block | MessageSent, Gate | None]] = deque()
        self._stopped = False

    def put(self, item: Block | MessageSent) -> None:
        """Add an item at the end, and wait for the loop where it says so above; once stopped, drop it at once."""
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
        """Look at the oldest item."""
        with self._lock:
            return self._items[0][0] if self._items else None

    def taken(self) -> None:
        """Let go of the oldest item, and let go on who brought it; nothing is left once it was stopped."""
        with self._lock:
            gate = self._items.popleft()[1] if self._items else None
        if gate is not None:
            gate.open()

    def stop(self) -> None:
        """Drop everything, and let everybody go on: nothing is taken any more."""
        with self._lock:
            self._stopped = True
            items, self._items = self._items, deque()
        for _, gate in items:
            if gate is not None:
                gate.open()
