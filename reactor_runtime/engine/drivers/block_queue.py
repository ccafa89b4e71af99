"""The queue from a block model's threads to the loop: blocks and messages, in order."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from reactor_runtime.engine.drivers.threads import Gate, ThreadTracker
from reactor_runtime.engine.output.unpack import ByTrack
from reactor_runtime.engine.session import Applied
from reactor_runtime.ipc.messages import EventApplied, EventRefused, MessageSent

MOST_MESSAGES = 1000


@dataclass(slots=True, eq=False)
class Block:
    """Hold the payload of one `emit_block()`.

    `made_in_s` is how long the model took to make it, None if not measured; `applied` is the number of events of
    each seat that were handled when the model began to make it.
    The loop sets `handed_over_at` when it has room for the block.
    """

    payload: ByTrack
    frames: int
    made_in_s: float | None
    applied: Applied
    handed_over_at: float | None = None


Answer = EventApplied | EventRefused


class BlockQueue:
    """Pass blocks and messages to the loop. Any thread may call `put`; only the loop calls the other methods.

    The answer to an event waits for the messages that its handler sent.

    `put` of a block waits until the block was copied, so that the author may use the array again; `put` of a message
    waits only if 1,000 items are queued. `on_put` is called on the thread that calls `put`.
    """

    def __init__(self, threads: ThreadTracker, on_put: Callable[[], None]) -> None:
        self._threads = threads
        self._on_put = on_put
        self._lock = threading.Lock()
        self._items: deque[tuple[Block | MessageSent | Answer, Gate | None]] = deque()
        self._stopped = False

    def put(self, item: Block | MessageSent) -> None:
        """Append an item and wait; drop it at once if the queue was stopped."""
        with self._lock:
            if self._stopped:
                return
            waits = isinstance(item, Block) or len(self._items) >= MOST_MESSAGES
            gate = self._threads.gate() if waits else None
            self._items.append((item, gate))
        self._on_put()
        if gate is not None:
            gate.wait()

    def put_answer(self, answer: Answer) -> bool:
        """Insert an answer after the messages of its handler; return False if none of them waits."""
        with self._lock:
            numbers = [item.n if isinstance(item, MessageSent) else 0 for item, _ in self._items]
            if self._stopped or not answer.n or answer.n not in numbers:
                return False
            self._items.insert(len(numbers) - numbers[::-1].index(answer.n), (answer, None))
        self._on_put()
        return True

    def take_answers(self) -> list[Answer]:
        """Remove and return the answers that wait."""
        with self._lock:
            items, self._items = self._items, deque()
        return [item for item, _ in items if isinstance(item, Answer)]

    def peek(self) -> Block | MessageSent | Answer | None:
        """Return the oldest item without removing it."""
        with self._lock:
            return self._items[0][0] if self._items else None

    def remove_oldest(self) -> None:
        """Remove the oldest item and wake the thread that put it; do nothing after `stop`."""
        with self._lock:
            gate = self._items.popleft()[1] if self._items else None
        if gate is not None:
            gate.open()

    def stop(self) -> None:
        """Drop all items but answers, and wake all waiting threads; later items are dropped."""
        with self._lock:
            self._stopped = True
            items = tuple(self._items)
            self._items = deque(item for item in items if isinstance(item[0], Answer))
        for _, gate in items:
            if gate is not None:
                gate.open()
