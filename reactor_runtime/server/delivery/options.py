"""What all clients of a server share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from reactor_runtime.clock import Clock
from reactor_runtime.server.encoding.encodings import ENCODINGS
from reactor_runtime.server.encoding.track_encoding import TrackEncoding
from reactor_runtime.server.telemetry.metrics import Metrics


class RawBytes:
    """Limit the bytes of frames in other encodings than the default one that sockets of clients have not taken yet.

    It applies to viewers and to controllers that wait. Such a frame has all its pixels: 100 clients that read nothing
    would hold gigabytes. The clients of one address may leave half of `most` unread.
    """

    def __init__(self, most: int = 256 << 20) -> None:
        self._most = most
        self._unread = 0
        # Without addresses that have read everything.
        self._unread_of: dict[str, int] = {}

    def has_room(self, address: str) -> bool:
        """Return whether another frame may be sent to a client of an address."""
        return self._unread < self._most and self._unread_of.get(address, 0) < self._most / 2

    def add(self, address: str, size_bytes: int) -> None:
        """Count bytes of an address as sent, or below 0 as taken by its socket."""
        self._unread += size_bytes
        unread = self._unread_of.pop(address, 0) + size_bytes
        if unread:
            self._unread_of[address] = unread


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """Hold what a server gives to each of its clients, over a WebSocket and over HTTP; they pass it on whole.

    `encodings` are those that a client can choose from in its view.
    """

    clock: Clock
    metrics: Metrics = field(default_factory=Metrics)
    encodings: Sequence[TrackEncoding] = ENCODINGS
    raw_bytes: RawBytes = field(default_factory=RawBytes)
