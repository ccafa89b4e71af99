"""A nudge: the engine wakes an encoder thread itself when pixels lie in shared memory, ahead of the moment's message.

It saves the way through the server's loop, which hears of the moment while the pictures are being encoded already.
Measured at 720p: the encoding begins 0.2 ms sooner. Nudges may find no room; the moment says how many were given.
"""

from __future__ import annotations

import socket
import struct
from typing import NamedTuple

_FORMAT = struct.Struct("=QQIqII")
SIZE = _FORMAT.size


class HintedBand(NamedTuple):
    """Where pixels lie; `offset` is -1 for black, which has none."""

    offset: int
    height: int
    width: int


class EncodeHint(NamedTuple):
    """A picture to encode, or a band of one: the `part`th of a moment of one of the engine's lives."""

    engine_run: int
    bundle: int
    part: int
    place: HintedBand

    def to_bytes(self) -> bytes:
        return _FORMAT.pack(self.engine_run, self.bundle, self.part, *self.place)

    @classmethod
    def from_bytes(cls, packet: bytes) -> EncodeHint:
        engine_run, bundle, part, *place = _FORMAT.unpack(packet)
        return cls(engine_run, bundle, part, HintedBand(*place))


class EncodeHinter:
    """The engine's end: a datagram socket that all encoder threads of the server's wait on."""

    def __init__(self, sock: socket.socket, engine_run: int) -> None:
        self._socket = sock
        self._engine_run = engine_run

    def hint(self, bundle: int, part: int, place: HintedBand) -> bool:
        """Have an encoder thread begin; False when none could be told. Any thread, never waits."""
        packet = EncodeHint(self._engine_run, bundle, part, place).to_bytes()
        try:
            return self._socket.send(packet, socket.MSG_DONTWAIT) == SIZE
        except OSError:  # more waits there than threads can keep up with, or the server is on its way out
            return False

    def close(self) -> None:
        self._socket.close()
