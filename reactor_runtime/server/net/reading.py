"""Divides the event loop's time for reading among connections, in slices; the one with most time left is first."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Protocol

from reactor_runtime.server.net.shares import TURN_S, Share

logger = logging.getLogger(__name__)

SLICE_S = 0.0005
# The estimated time in the kernel and the loop, which is not measured: for each byte, and for each read.
RECEIVED_S_A_BYTE = 0.25e-9
RECEIVED_S = 30e-6


class Readable(Protocol):
    """Read a connection in slices, as `Reading` calls it."""

    @property
    def share(self) -> Share: ...

    def read_slice(self) -> bool:
        """Read for about half a millisecond; return whether there is more to read now."""

    def abort(self) -> None:
        """Close the connection at once."""


class Reading:
    """Read the connections of all clients in slices, for at most 2 ms in each iteration of the event loop.

    The connection with most of its share left is next: a client that sends little is read before those that send much,
    however many they are.
    """

    def __init__(
        self,
        now: Callable[[], float] = time.monotonic,
        call_soon: Callable[[Callable[[], None]], object] = lambda call: asyncio.get_running_loop().call_soon(call),
    ) -> None:
        self._now = now
        self._call_soon = call_soon
        self._waiting: dict[Readable, None] = {}
        self._spent_s = 0.0
        self._scheduled = False
        self._serving = False

    def read(self, connection: Readable) -> None:
        """Read a connection at once if this iteration of the loop has time left, and else in a later one."""
        self._waiting[connection] = None
        if not self._serving:
            self._serve()

    def forget(self, connection: Readable) -> None:
        """Stop reading a connection."""
        self._waiting.pop(connection, None)

    def count(self, seconds: float) -> None:
        """Leave less time for reading in this iteration: the time was, or will be, spent on messages that were read."""
        self._spent_s += seconds
        self._schedule()

    def _serve(self) -> None:
        self._serving = True
        try:
            while self._waiting and self._spent_s < TURN_S:
                began = self._now()
                connection = max(self._waiting, key=lambda each: each.share.part_left(began))
                del self._waiting[connection]
                try:
                    if connection.read_slice():
                        self._waiting[connection] = None
                # Without this the connection would stay open, and another one, which called this, be closed.
                except Exception:
                    logger.exception("reading a connection failed")
                    connection.abort()
                self._spent_s += self._now() - began
        finally:
            self._serving = False
            self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled and (self._waiting or self._spent_s > TURN_S / 10):
            self._scheduled = True
            self._call_soon(self._next_iteration)

    def _next_iteration(self) -> None:
        self._scheduled = False
        self._spent_s = 0.0
        if self._waiting:
            self._serve()
