"""What all clients of a server share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from reactor_runtime.clock import Clock
from reactor_runtime.server.encoding.encodings import ENCODINGS
from reactor_runtime.server.encoding.track_encoding import TrackEncoding
from reactor_runtime.server.telemetry.metrics import Metrics


@dataclass(slots=True)
class RawBytes:
    """Count the bytes that sockets of viewers have not taken yet, of frames in other encodings than the default one.

    Such a frame has all its pixels: 100 viewers that read nothing would hold gigabytes.
    """

    left: int = 256 << 20


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """Hold what a server gives to each of its clients, over a WebSocket and over HTTP; they pass it on whole.

    `encodings` are those that a client can choose from in its view.
    """

    clock: Clock
    metrics: Metrics = field(default_factory=Metrics)
    encodings: Sequence[TrackEncoding] = ENCODINGS
    raw_bytes: RawBytes = field(default_factory=RawBytes)
