"""The server's end of the ipc: a socket read and written by the event loop."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterator
from typing import cast

from reactor_runtime.clock import Clock
from reactor_runtime.ipc.framing import Framing, encode_parts
from reactor_runtime.ipc.messages import ToEngine, ToServer

MOST_BACKLOG_BYTES = 4 << 20
# The engine refuses values of more than 1 MiB where the author sends them; as ASCII JSON these may have three times as
# many bytes.
MOST_MESSAGE_BYTES = 4 << 20
TURN_S = 0.001
# How much unused time an engine may use at once, in a burst.
AT_ONCE_S = 0.1
LONGEST_REST_S = 1.0


class MessageBudget:
    """Limit the CPU time spent on the messages of one engine to a share of the time."""

    def __init__(self, share: float, now: float) -> None:
        self._share = share
        self._left_s = AT_ONCE_S
        self._at = now

    def spend(self, now: float, seconds: float) -> float:
        """Charge for work; return for how long to pause, usually 0; a pause shorter than a turn is put off."""
        self._left_s = min(AT_ONCE_S, self._left_s + (now - self._at) * self._share) - seconds
        self._at = now
        rest_s = -self._left_s / self._share
        return 0.0 if rest_s < TURN_S else min(LONGEST_REST_S, rest_s)


class Link(asyncio.Protocol):
    """Call `receive` with the slot of each message of the engine and the message, in turns of 1 ms.

    Between these the loop serves the others.

    Messages take at most `share` of the loop's time, beyond a burst of 0.1 s; further messages wait in the socket.
    `cpu_s` reads the CPU time of the thread, so that a busy machine does not count. The future `lost` is done when the
    engine closes its end; it raises ValueError for a message of more than 4 MiB, and what `receive` raises.
    """

    def __init__(
        self,
        receive: Callable[[int, ToServer], None],
        clock: Clock,
        *,
        share: float,
        cpu_s: Callable[[], float] = time.thread_time,
    ) -> None:
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._receive = receive
        self._clock = clock
        self._cpu_s = cpu_s
        self._budget = MessageBudget(share, clock.now())
        self._framing = Framing(MOST_MESSAGE_BYTES)
        self._transport: asyncio.Transport | None = None
        self._rest: Iterator[tuple[int, ToServer]] = iter(())
        # Whether reading is paused because another turn follows.
        self._continues = False
        self._disconnected = False
        self._error: Exception | None = None

    @classmethod
    async def open(
        cls,
        sock: socket.socket,
        receive: Callable[[int, ToServer], None],
        clock: Clock,
        *,
        share: float,
        cpu_s: Callable[[], float] = time.thread_time,
    ) -> Link:
        """Open a link on one end of a socket pair."""
        loop = asyncio.get_running_loop()
        _, link = await loop.create_connection(lambda: cls(receive, clock, share=share, cpu_s=cpu_s), sock=sock)
        return link

    @property
    def backlogged(self) -> bool:
        """Return whether the engine has not read more than 4 MiB, so that callers should refuse what they can."""
        return self._transport is not None and self._transport.get_write_buffer_size() > MOST_BACKLOG_BYTES

    def send(self, message: ToEngine, slot: int = 0) -> None:
        """Write a message without waiting; do nothing if the connection is closed."""
        if self._transport is not None and not self._transport.is_closing():
            head, file = encode_parts(message, slot)
            self._transport.write(head)
            if file:
                # Joined with the head, 16 MiB would be copied on the loop.
                self._transport.write(file)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have no base class to check.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        # An engine sends no other messages.
        self._rest = cast("Iterator[tuple[int, ToServer]]", self._framing.feed(data))
        self._deliver()

    def _deliver(self) -> None:
        """Deliver messages for 1 ms; continue in the next iteration of the loop, or after a rest, if there are more."""
        began = self._cpu_s()
        spent_s, is_over = 0.0, True
        try:
            for slot, message in self._rest:
                self._receive(slot, message)
                spent_s = self._cpu_s() - began
                if spent_s >= TURN_S:
                    is_over = False
                    break
        # The message or its handling is faulty; the owner of the link decides what happens to the engine.
        except Exception as error:  # noqa: BLE001
            self._fail(error)
            return
        now = self._clock.now()
        rest_s = self._budget.spend(now, spent_s)
        if is_over and not rest_s:
            self._all_delivered()
            return
        self._pause()
        if rest_s:
            self._clock.call_at(now + rest_s, self._deliver)
        else:
            asyncio.get_running_loop().call_soon(self._deliver)

    def _pause(self) -> None:
        if not self._continues:
            self._continues = True
            if self._transport is not None and not self._transport.is_closing():
                self._transport.pause_reading()

    def _all_delivered(self) -> None:
        if self._disconnected:
            self._end()
        elif self._continues and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
        self._continues = False

    def _fail(self, error: Exception) -> None:
        self._error = error
        self._rest = iter(())
        if self._disconnected or self._transport is None:
            self._end()
        else:
            self._continues = False
            self._transport.abort()

    # asyncio defines the parameters.
    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._disconnected = True
        if not self._continues:
            self._end()

    def _end(self) -> None:
        if self.lost.done():
            return
        if self._error is None:
            self.lost.set_result(None)
        else:
            self.lost.set_exception(self._error)
