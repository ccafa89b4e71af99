"""Reads the messages of a client in slices of half a millisecond, and pauses its transport while bytes are unread."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from websockets.frames import Opcode

from reactor_runtime.server.net.limits import (
    PIECES_AT_ONCE,
    PIECES_PER_S,
    PINGS_AT_ONCE,
    PINGS_PER_S,
    Budget,
    TokenBucket,
)
from reactor_runtime.server.net.message_reader import Allowance, MessageReader, Violation
from reactor_runtime.server.net.reading import RECEIVED_S, RECEIVED_S_A_BYTE, SLICE_S, Reading
from reactor_runtime.server.net.shares import Share
from reactor_runtime.wire.protocol import MAX_MEDIA_BYTES, CloseCode

MOST_DROPPED_BYTES = 1 << 20
MESSAGE_S = 10.0
DROPPED = Allowance(MAX_MEDIA_BYTES, 0, f"a message may have {MAX_MEDIA_BYTES} bytes")
NOTHING = Allowance(0, 0, "nothing may be sent here")


class MessageReceiver(Protocol):
    """Receives the messages of one client; each method may raise `Violation`."""

    @property
    def share(self) -> float:
        """Return the seconds of each second that may be spent on the messages of this client."""

    def allowance(self, *, is_text: bool) -> Allowance:
        """Return the limits of the next message."""

    def receive(self, message: bytes | None, size: int, *, is_text: bool) -> float:
        """Receive a message, None in place of one that was dropped; return for how long to pause reading."""


class SlicedReader:
    """Read the messages of one client in turns with those of all others; use on the server's loop.

    Nothing is read before `start`. `on_control` gets each control frame, with its head and masked. `on_violation` is
    called when a message breaks a rule or takes longer than 10 s to arrive; what follows it is dropped.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        reading: Reading,
        budget: Budget,
        share: Share,
        *,
        on_control: Callable[[bytes], None],
        on_violation: Callable[[Violation], None],
    ) -> None:
        self._transport = transport
        self._reading = reading
        self._on_control = on_control
        self._on_violation = on_violation
        self._loop = asyncio.get_running_loop()
        self._messages = MessageReader(self, budget)
        self._pings = TokenBucket(PINGS_PER_S, PINGS_AT_ONCE)
        self._pieces = TokenBucket(PIECES_PER_S, PIECES_AT_ONCE)
        self._receiver: MessageReceiver | None = None
        self._started = self._discarding = self._ignoring = self._paused = False
        # Bytes that wait for a turn, not those of a message that has arrived in part.
        self._has_unread = False
        self._pause_s = 0.0
        self._unpaid_s = 0.0
        self._dropped_bytes = self._awaited = 0
        self._timer: asyncio.TimerHandle | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self.share = share

    def feed(self, data: bytes) -> None:
        """Add bytes to read, now or later; drop them after a violation, and after 1 MiB abort the transport."""
        if self._discarding:
            self._dropped_bytes += len(data)
            if self._dropped_bytes > MOST_DROPPED_BYTES:
                self._transport.abort()
            return
        self._messages.feed(data)
        self._unpaid_s += RECEIVED_S + len(data) * RECEIVED_S_A_BYTE
        self._has_unread = True
        if self._started and self._timer is None:
            self._reading.read(self)
        # A short message, as an acknowledgement, is read by now: to pause and resume takes two system calls.
        if self._has_unread:
            self._pause()

    def start(self, receiver: MessageReceiver) -> None:
        """Pass the messages to a receiver, also those that have arrived before."""
        self._receiver = receiver
        self._started = True
        self._reading.read(self)

    def ignore_messages(self) -> None:
        """Drop messages from here on, and read control frames only, also those that have arrived before."""
        self._ignoring = True
        if not self._started:
            self._started = True
            self._reading.read(self)

    def close(self) -> None:
        """Stop reading, and free the unread bytes."""
        self._stop()
        # The message reader refers to this object.
        del self._messages

    def read_slice(self) -> bool:
        """Read for half a millisecond; return whether there is more to read now."""
        now = time.monotonic()
        began_s = time.thread_time()
        try:
            more = self._read_until(now + SLICE_S)
        except Violation as violation:
            self._end(violation)
            return False
        if self._transport.is_closing():
            return False
        spent_s = time.thread_time() - began_s + self._unpaid_s
        self._unpaid_s = 0.0
        pause_s = max(self._pause_s, self.share.spend(now, spent_s))
        self._pause_s = 0.0
        if pause_s:
            self._timer = self._loop.call_later(pause_s, self._pause_ended)
            return False
        if not more:
            self._has_unread = False
            self._resume()
            self._expect_message()
        return more

    def abort(self) -> None:
        self._transport.abort()

    def allowance(self, *, is_text: bool) -> Allowance:
        if self._ignoring:
            return DROPPED
        return NOTHING if self._receiver is None else self._receiver.allowance(is_text=is_text)

    def on_message(self, message: bytes | None, size: int, *, is_text: bool) -> None:
        if self._receiver is not None and not self._ignoring:
            self.share.per_s = self._receiver.share
            self._pause_s = self._receiver.receive(message, size, is_text=is_text)

    def on_control(self, frame: bytes) -> None:
        if frame[0] & 0x0F != Opcode.CLOSE:
            self._count(self._pings)
        self._on_control(frame)

    def on_continuation(self) -> None:
        self._count(self._pieces)

    def _count(self, rate: TokenBucket) -> None:
        if not rate.take(time.monotonic()):
            raise Violation(CloseCode.RATE_LIMITED, "too many pings or pieces of messages")

    def _read_until(self, deadline: float) -> bool:
        while not self._transport.is_closing():
            if not self._messages.step():
                return False
            if self._pause_s or time.monotonic() > deadline:
                return True
        return False

    def _pause_ended(self) -> None:
        self._timer = None
        self._reading.read(self)

    def _pause(self) -> None:
        if not self._paused and not self._transport.is_closing():
            self._paused = True
            self._transport.pause_reading()

    def _resume(self) -> None:
        if self._paused and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()

    def _expect_message(self) -> None:
        """Limit the time of an unfinished message to 10 s from its first byte on."""
        if self._deadline is not None and not (self._messages.is_partial and self._awaited == self._messages.ended):
            self._deadline.cancel()
            self._deadline = None
        if self._messages.is_partial and self._deadline is None:
            self._awaited = self._messages.ended
            self._deadline = self._loop.call_later(MESSAGE_S, self._message_too_late)

    def _message_too_late(self) -> None:
        self._deadline = None
        self._end(Violation(CloseCode.TOO_SLOW, f"a message has to arrive within {MESSAGE_S:.0f} s"))

    def _end(self, violation: Violation) -> None:
        """Drop all messages that arrive from here on.

        They are read, since a connection that is closed with unread bytes is reset, and its close code is lost.
        """
        self._stop()
        self._discarding = True
        self._has_unread = False
        self._resume()
        self._on_violation(violation)

    def _stop(self) -> None:
        self._reading.forget(self)
        self._messages.clear()
        for timer in (self._timer, self._deadline):
            if timer is not None:
                timer.cancel()
        self._timer = self._deadline = None
