"""Divides the event loop's time for reading among clients: a slice for each, the one that used least first."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from reactor_runtime.server.net.limits import TokenBucket

SLICE_S = 0.0005
TURN_S = 0.002
AT_ONCE_S = 0.1
POOL_PER_S = 0.1
LONG_WORK = 5.0
LONGEST_REST_S = 1.0
# The time in the kernel and the loop, which is not measured.
RECEIVED_S_A_BYTE = 0.25e-9


class Readable(Protocol):
    """A socket with bytes that may be unread."""

    share: Share

    def read_slice(self) -> bool:
        """Read for about half a millisecond; return whether there is more to read now."""


class Share:
    """Limit the time spent on what one client sends to `per_s`, and more while the common pool has some.

    Work that can't be interrupted delays all clients: time above 2 ms counts five times more, and never comes from the
    pool. Time is CPU time of the thread, so that a busy machine does not count.
    """

    def __init__(self, per_s: float, pool: TokenBucket, now: float) -> None:
        self.per_s = per_s
        self.left_s = AT_ONCE_S
        self._pool = pool
        self._at = now

    def spend(self, now: float, seconds: float) -> float:
        """Charge for work; return for how long to pause reading, usually 0."""
        long_s = max(0.0, seconds - TURN_S)
        self.left_s = min(AT_ONCE_S, self.left_s + (now - self._at) * self.per_s) - seconds - LONG_WORK * long_s
        self._at = now
        if self.left_s >= 0:
            return 0.0
        if not long_s and self._pool.take(now, -self.left_s):
            self.left_s = 0.0
            return 0.0
        return min(LONGEST_REST_S, -self.left_s / self.per_s)


class Reading:
    """Read the sockets of all clients in slices, for at most 2 ms in each iteration of the event loop.

    The socket with most of its share left is next: a client that sends little is read before those that send much,
    however many they are.
    """

    def __init__(
        self,
        now: Callable[[], float] = time.monotonic,
        call_soon: Callable[[Callable[[], None]], object] = lambda call: asyncio.get_running_loop().call_soon(call),
    ) -> None:
        self.pool = TokenBucket(POOL_PER_S, POOL_PER_S)
        self._now = now
        self._call_soon = call_soon
        self._waiting: dict[Readable, None] = {}
        self._spent_s = 0.0
        self._scheduled = False
        self._serving = False

    def read(self, socket: Readable) -> None:
        """Read a socket at once if this iteration of the loop has time left, and else in a later one."""
        self._waiting[socket] = None
        if not self._serving:
            self._serve()

    def forget(self, socket: Readable) -> None:
        """Stop reading a socket."""
        self._waiting.pop(socket, None)

    def _serve(self) -> None:
        self._serving = True
        try:
            began = self._now()
            before = self._spent_s
            while self._waiting and self._spent_s < TURN_S:
                socket = self._next()
                del self._waiting[socket]
                if socket.read_slice():
                    self._waiting[socket] = None
                self._spent_s = before + self._now() - began
        finally:
            self._serving = False
            if not self._scheduled and (self._waiting or self._spent_s > TURN_S / 10):
                self._scheduled = True
                self._call_soon(self._next_iteration)

    def _next(self) -> Readable:
        return max(self._waiting, key=lambda socket: socket.share.left_s)

    def _next_iteration(self) -> None:
        self._scheduled = False
        self._spent_s = 0.0
        if self._waiting:
            self._serve()
