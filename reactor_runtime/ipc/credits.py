"""Credits from the server to the engine: in shared memory, or as messages while the model waits for them.

A message wakes two threads of the engine; a model that is paced by its clock reads the memory when it wakes anyway.
Only the server writes to this part of the memory. A reader that sees a credit in part, or late, takes it the next time:
no order of writes to memory is assumed, and a model that is about to wait has asked for messages before.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from collections.abc import Callable, Iterator

from reactor_runtime.ipc.messages import Credit, CreditsTaken

# The memory of a slot: whole pages on every platform.
SLOT_BYTES = 16384
# The most sessions that share a loaded model.
MOST_SESSIONS = 64
# The memory before the pixels. Pages that are not written do not exist.
CREDITS_BYTES = MOST_SESSIONS * SLOT_BYTES
# The credit's number, from 1 on, the number of its bundle, `ready_at`, and a checksum of these.
_HEAD = struct.Struct("=QQd")
_CREDIT = struct.Struct("=QQdI")
SLOTS = 128
# After so many messages for which the model did not wait, credits go to the memory again.
UNNEEDED = 32


class CreditWriter:
    """Write the credits of a slot; the server's end."""

    def __init__(self, fd: int, slot: int = 0) -> None:
        self._memory = mmap.mmap(fd, SLOT_BYTES, offset=slot * SLOT_BYTES)
        self._written = self._taken = 0
        self._as_messages = False
        self._last: Credit | None = None

    def put_credit(self, credit: Credit) -> bool:
        """Write a credit; return False if it has to be sent as a message: the model waits, or there is no room."""
        if self._as_messages or self._written - self._taken >= SLOTS:
            return False
        slot = self._written % SLOTS
        self._written += 1
        head = _HEAD.pack(self._written, credit.bundle, credit.ready_at)
        _CREDIT.pack_into(self._memory, slot * _CREDIT.size, *_HEAD.unpack(head), zlib.crc32(head))
        self._last = credit
        return True

    def credits_taken(self, message: CreditsTaken) -> Credit | None:
        """Note what the engine has taken, and how it wants credits; return one to send if it waits beside others.

        That one is in the memory too, and wakes the engine, which then takes all.
        """
        self._taken = message.count
        self._as_messages = message.as_messages
        return self._last if message.as_messages and self._written > message.count else None

    def close(self) -> None:
        self._memory.close()


class CreditReader:
    """Take the credits of a slot; the engine's end. Belongs to the model's thread.

    `send` sends a message to the server.
    """

    def __init__(self, fd: int, send: Callable[[CreditsTaken], object], slot: int = 0) -> None:
        self._memory = mmap.mmap(fd, SLOT_BYTES, access=mmap.ACCESS_READ, offset=slot * SLOT_BYTES)
        self._send = send
        self._taken = self._reported = 0
        self._as_messages = self._waits = False
        self._unneeded = 0

    def take_credits(self) -> Iterator[tuple[int, float]]:
        """Yield the number of the bundle, and `ready_at`, of each credit in the memory."""
        while (found := self._next()) is not None:
            self._taken += 1
            if self._taken - self._reported >= SLOTS // 2:
                self._report()
            yield found

    def await_message(self) -> None:
        """Have the next credit sent as a message, because the caller is about to wait for one."""
        self._waits = True
        if not self._as_messages:
            self._as_messages = True
            self._report()

    def message_received(self) -> None:
        """Have the next credits written to the memory again if the model has not waited for the last ones."""
        self._unneeded = 0 if self._waits else self._unneeded + 1
        self._waits = False
        if self._as_messages and self._unneeded >= UNNEEDED:
            self._as_messages = False
            self._report()

    def _report(self) -> None:
        self._reported = self._taken
        self._send(CreditsTaken(self._taken, self._as_messages))

    def _next(self) -> tuple[int, float] | None:
        at = self._taken % SLOTS * _CREDIT.size
        number, bundle, ready_at, checksum = _CREDIT.unpack_from(self._memory, at)
        if number != self._taken + 1 or zlib.crc32(self._memory[at : at + _HEAD.size]) != checksum:
            return None
        return bundle, ready_at
