"""A nudge: the engine wakes an encoder thread itself when pictures lie in shared memory, ahead of the moment's message.

It saves the way through the server's loop, which hears of the moment while the pictures are being encoded already.
Measured at 720p: the encoding begins 0.2 ms sooner. A nudge may be lost; the moment says whether one was given.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

MOST_BYTES = 4096
_HEAD = struct.Struct("=QQ")
_PLACE = struct.Struct("=qII")


class Place(NamedTuple):
    """Where a picture lies; `offset` is -1 for a black one, which has no pixels."""

    offset: int
    height: int
    width: int


@dataclass(frozen=True, slots=True)
class Nudge:
    """The pictures of a moment of one of the engine's lives, in the order the moment names them."""

    life: int
    moment: int
    places: tuple[Place, ...]

    def to_bytes(self) -> bytes:
        return _HEAD.pack(self.life, self.moment) + b"".join(_PLACE.pack(*place) for place in self.places)

    @classmethod
    def from_bytes(cls, packet: bytes) -> Nudge:
        life, moment = _HEAD.unpack_from(packet)
        places = tuple(Place(*fields) for fields in _PLACE.iter_unpack(packet[_HEAD.size :]))
        return cls(life, moment, places)


class Nudger:
    """The engine's end: a datagram socket that all encoder threads of the server's wait on."""

    def __init__(self, sock: socket.socket, life: int) -> None:
        self._socket = sock
        self._life = life

    def nudge(self, moment: int, places: Sequence[Place]) -> bool:
        """Have an encoder thread begin; False when none could be told. Any thread, never waits."""
        packet = Nudge(self._life, moment, tuple(places)).to_bytes()
        try:
            return len(packet) <= MOST_BYTES and self._socket.send(packet, socket.MSG_DONTWAIT) == len(packet)
        except OSError:  # more waits there than threads can keep up with, or the server is on its way out
            return False

    def close(self) -> None:
        self._socket.close()
