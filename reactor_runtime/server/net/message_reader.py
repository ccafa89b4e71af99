"""Splits a client's bytes into messages (RFC 6455, 5), and limits each while it arrives. No socket, no clock."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from io import BytesIO
from typing import NoReturn, Protocol

from websockets.frames import Opcode

from reactor_runtime.errors import ReactorError
from reactor_runtime.server.net.limits import Budget
from reactor_runtime.wire.protocol import CloseCode

try:
    from websockets.speedups import apply_mask
except ImportError:
    # Built without the C extension.
    from websockets.utils import apply_mask

PIECE_BYTES = 1 << 16
MOST_PIECES = 65_536
PROTOCOL_ERROR = 1002
_FINAL, _RESERVED, _OPCODE, _MASKED, _LENGTH = 0x80, 0x70, 0x0F, 0x80, 0x7F
_MOST_CONTROL_BYTES = 125
# The first byte of a data message in one frame.
_WHOLE = (_FINAL | Opcode.TEXT, _FINAL | Opcode.BINARY)
_HEAD_BYTES = {126: 8, 127: 14}


class Violation(ReactorError):
    """Report that a client has broken a rule; its connection is to be closed with `code`."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Allowance:
    """The size limit of a message, and the size up to which it is kept; a larger one is read and dropped."""

    most_bytes: int
    kept_bytes: int
    reason: str


class Receiver(Protocol):
    """Receives messages and control frames; each method may raise `Violation`."""

    def allowance(self, *, is_text: bool) -> Allowance:
        """Return the limits of the message that is arriving."""

    def on_message(self, message: bytes | None, size: int, *, is_text: bool) -> None:
        """Receive a message, None in place of one that was dropped."""

    def on_control(self, frame: bytes) -> None:
        """Receive a control frame, with its header and masked."""

    def on_continuation(self) -> None: ...


class MessageReader:
    """Split bytes into messages and control frames; unfinished messages of all clients share one budget.

    `step` reads at most 64 KiB, so that the caller can pause between two pieces of a large message.
    """

    def __init__(self, receiver: Receiver, budget: Budget) -> None:
        # Messages, and control frames between them, that have arrived whole.
        self.ended = 0
        self._receiver = receiver
        self._budget = budget
        self._data = b""
        self._at = 0
        self._open = False
        self._is_text = self._final = False
        self._message: BytesIO | None = None
        self._reserved = self._size = self._frames = self._left = 0
        self._mask = b""

    @property
    def is_partial(self) -> bool:
        """Return whether a message, or the header of one, has arrived in part."""
        return self._open or self._at < len(self._data)

    def feed(self, data: bytes) -> None:
        """Append bytes for `step` to read."""
        self._data = self._data[self._at :] + data
        self._at = 0

    def step(self) -> bool:
        """Read a control frame, or a piece of a message; return False when more bytes are needed.

        Raises `Violation`, after which nothing can be read.
        """
        return self._read_payload() if self._left else self._read_head()

    def clear(self) -> None:
        """Free the unread bytes and the unfinished message."""
        self._data, self._at, self._left = b"", 0, 0
        self._open = False
        self._free()

    def _read_head(self) -> bool:
        data, at = self._data, self._at
        available = len(data) - at
        if available < 2:
            return False
        first, second = data[at], data[at + 1]
        if first & _RESERVED:
            _violate("reserved bits must be 0")
        if not second & _MASKED:
            _violate("incorrect masking")
        opcode, length = first & _OPCODE, second & _LENGTH
        if opcode >= Opcode.CLOSE:
            return self._read_control(first, opcode, length)
        head = _HEAD_BYTES.get(length, 6)
        if available < head:
            return False
        if length > _MOST_CONTROL_BYTES:
            length = _long_length(data, at, length)
        elif first in _WHOLE and not self._open and available >= head + length:
            self._read_short(at + head, length, is_text=opcode == Opcode.TEXT)
            return True
        self._begin_frame(opcode, length)
        self._final = bool(first & _FINAL)
        self._mask = data[at + head - 4 : at + head]
        self._at = at + head
        self._left = length
        if length == 0:
            self._end_frame()
            return True
        return self._read_payload() or True

    def _read_short(self, at: int, length: int, *, is_text: bool) -> None:
        """Read a message that has arrived whole, as acknowledgements and events do, without keeping pieces of it."""
        allowance = self._receiver.allowance(is_text=is_text)
        if length > allowance.most_bytes:
            raise Violation(CloseCode.TOO_BIG, allowance.reason)
        message = None
        if length <= allowance.kept_bytes:
            message = apply_mask(self._data[at : at + length], self._data[at - 4 : at])
        self._at = at + length
        self.ended += 1
        self._receiver.on_message(message, length, is_text=is_text)

    def _read_control(self, first: int, opcode: int, length: int) -> bool:
        if opcode > Opcode.PONG:
            _violate("invalid opcode")
        if length > _MOST_CONTROL_BYTES:
            _violate("control frame too long")
        if not first & _FINAL:
            _violate("fragmented control frame")
        end = self._at + 6 + length
        if len(self._data) < end:
            return False
        frame, self._at = self._data[self._at : end], end
        if not self._open:
            self.ended += 1
        self._receiver.on_control(frame)
        return True

    def _begin_frame(self, opcode: int, length: int) -> None:
        if opcode == Opcode.CONT:
            if not self._open:
                _violate("unexpected continuation frame")
            if self._frames >= MOST_PIECES:
                raise Violation(CloseCode.TOO_BIG, f"a message may come in {MOST_PIECES} pieces")
            self._receiver.on_continuation()
        elif opcode > Opcode.BINARY:
            _violate("invalid opcode")
        elif self._open:
            _violate("expected a continuation frame")
        else:
            self._open, self._is_text = True, opcode == Opcode.TEXT
            self._message, self._size, self._frames = BytesIO(), 0, 0
        self._frames += 1
        self._size += length
        allowance = self._receiver.allowance(is_text=self._is_text)
        if self._size > allowance.most_bytes:
            raise Violation(CloseCode.TOO_BIG, allowance.reason)
        if self._size > allowance.kept_bytes:
            self._free()

    def _read_payload(self) -> bool:
        at = self._at
        piece = self._data[at : at + min(self._left, PIECE_BYTES)]
        if not piece:
            return False
        self._at = at + len(piece)
        self._left -= len(piece)
        if self._message is not None:
            self._keep(apply_mask(piece, self._mask))
        turned = len(piece) % 4
        self._mask = self._mask[turned:] + self._mask[:turned]
        if not self._left:
            self._end_frame()
        return True

    def _keep(self, piece: bytes) -> None:
        assert self._message is not None, "only a message that is kept is written"
        if not self._budget.take(len(piece)):
            raise Violation(CloseCode.FULL, "the server is receiving too many large messages; try again later")
        self._reserved += len(piece)
        self._message.write(piece)

    def _end_frame(self) -> None:
        if not self._final:
            return
        # BytesIO returns its buffer without a copy, unlike bytearray and join.
        message = None if self._message is None else self._message.getvalue()
        self._open = False
        self.ended += 1
        self._free()
        self._receiver.on_message(message, self._size, is_text=self._is_text)

    def _free(self) -> None:
        self._message = None
        self._budget.give_back(self._reserved)
        self._reserved = 0


def _long_length(data: bytes, at: int, announced: int) -> int:
    """Return a length that does not fit into seven bits; it has to be written in as few bytes as possible."""
    layout, least = (">H", 126) if announced == 126 else (">Q", 1 << 16)
    length: int = struct.unpack_from(layout, data, at + 2)[0]
    if length < least:
        _violate("the length of a frame is not written in as few bytes as possible")
    return length


def _violate(reason: str) -> NoReturn:
    raise Violation(PROTOCOL_ERROR, reason)
