"""One client: who it is, what is on its way to it, and whether it is being closed."""

from __future__ import annotations

import asyncio
import secrets
import statistics
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from reactor_runtime.clock import Clock
from reactor_runtime.server.delivery.outbox import Outbox
from reactor_runtime.server.encoding.encoded import EncodedFrame
from reactor_runtime.server.encoding.ladder import RUNGS, Ladder
from reactor_runtime.server.telemetry.metrics import Metrics
from reactor_runtime.wire.codec import encode_text
from reactor_runtime.wire.messages import View
from reactor_runtime.wire.protocol import CloseCode

MOST_REASON_BYTES = 123


class Role(StrEnum):
    """What a client may do: control the model, or watch."""

    CONTROLLER = "controller"
    VIEWER = "viewer"


@dataclass(frozen=True, slots=True)
class Closing:
    """How the socket is to be closed once everything queued is sent."""

    code: CloseCode
    reason: str


class Client:
    """A client's side of the server; the socket's tasks empty the outbox and end after `closing`.

    With `watches` it sees the sessions of others while it waits for its own; what comes is else of its own alone.
    `given_up` is set when the client reads too little to be told that it is over, `gone` when its socket is served no
    more. A client with `only` is shown that for good, and told nothing: it understands frames alone. One that
    `keeps_first_size`, as recorders do, gets none that was made smaller for others.
    """

    def __init__(
        self,
        role: Role,
        address: str,
        clock: Clock,
        metrics: Metrics | None = None,
        *,
        watches: bool = False,
        only: View | None = None,
        keeps_first_size: bool = False,
    ) -> None:
        self.metrics = metrics or Metrics()
        self.id = f"c-{secrets.token_hex(4)}"
        self.ids = {"client": self.id}  # fields of every log line that concerns it
        self.role = role
        self.address = address
        self.clock = clock
        self.watches = watches
        self.joined_at_unix = time.time()
        self.outbox = Outbox(clock, self.metrics, only)
        self.hears = only is None
        self._keeps_first_size = keeps_first_size
        self._catch_up: Callable[[Client], None] | None = None
        self.told_position: tuple[int, int] | None = None
        self.closing: Closing | None = None
        self.given_up = asyncio.Event()
        self.gone = asyncio.Event()
        self.send_times: deque[float] = deque(maxlen=64)
        self._rates = _Rates(clock.now())

    def takes(self, frame: EncodedFrame) -> bool:
        """Tell whether a client may be sent a frame, which may have been made before it came, for others."""
        return frame.in_full_size or not self._keeps_first_size

    def join_broadcast(self, catch_up: Callable[[Client], None]) -> None:
        """Call `catch_up` before each message to this client alone, to pass on what was broadcast before it."""
        self._catch_up = catch_up

    def leave_broadcast(self) -> None:
        self._catch_up = None

    def send_message(self, kind: str, data: Mapping[str, Any], message_id: str | int | None = None) -> None:
        """Queue a text message; nothing after `close`."""
        if self.hears:
            if self._catch_up is not None:
                self._catch_up(self)
            self.put_text(encode_text(kind, data, message_id))

    def put_text(self, text: str) -> None:
        """Queue a text message as it goes over the wire; a client that leaves 1,000 or 4 MiB unread is given up."""
        if self.hears and self.closing is None and not self.outbox.put_message(text):
            self.close(CloseCode.FULL, "not reading: 1000 messages or 4 MiB wait")
            self.given_up.set()

    def error(
        self,
        code: str,
        message: str,
        *,
        message_id: str | int | None = None,
        fields: list[dict[str, str]] | None = None,
        event: str | None = None,
    ) -> None:
        """Queue a `reactor.error`."""
        self.metrics.errors.add(code)
        data: dict[str, Any] = {"code": code, "message": message}
        if fields:
            data["fields"] = fields
        if event is not None:
            data["event"] = event
        self.send_message("reactor.error", data, message_id)

    def close(self, code: CloseCode, reason: str) -> None:
        """Close the socket after what is queued; the first reason stands."""
        if self.closing is None:
            self.closing = Closing(code, _shortened(reason))
            self.outbox.finish()

    def sent(self, item: str | bytes, send_s: float) -> None:
        """Take note of what the socket took, and how long until it was ready for more."""
        self.send_times.append(send_s)
        self.metrics.sent(item, send_s)
        if self.metrics.trace is not None:
            self.metrics.trace.sent(self.id, item, self.clock.now() - send_s, send_s)

    def statistics(self, now: float) -> dict[str, Any]:
        """Give this client's part of `reactor.stats`; rates are those since the last call."""
        counters = self.outbox.counters
        track_senders = self.outbox.track_senders
        windows = {track: track_sender.window for track, track_sender in track_senders.items()}
        ladder = max(
            (track_sender.ladder for track_sender in track_senders.values()),
            key=lambda ladder: ladder.rung,
            default=Ladder(),
        )
        round_trips = [window.round_trip_s for window in windows.values() if window.acknowledging]
        return {
            "rung": ladder.rung,
            "quality": RUNGS[ladder.rung].quality,
            "scale": RUNGS[ladder.rung].scale,
            "why": ladder.why,
            "fps": self._rates.update(counters.sent_by_track, now),
            "emitted": counters.offered,
            "sent": counters.sent,
            "skipped": counters.skipped,
            "window": {track: window.frames for track, window in windows.items() if window.acknowledging},
            "rtt_ms": round(1e3 * max(round_trips), 1) if round_trips else None,
            "send_ms": round(1e3 * statistics.median(self.send_times), 2) if self.send_times else None,
        }


def _shortened(reason: str) -> str:
    """Cut a reason to what fits into a close frame (RFC 6455, 5.5)."""
    data = reason.encode(errors="replace")
    return reason if len(data) <= MOST_REASON_BYTES else data[: MOST_REASON_BYTES - 3].decode(errors="ignore") + "…"


class _Rates:
    def __init__(self, now: float) -> None:
        self._since = now
        self._counts: dict[str, int] = {}

    def update(self, counts: Mapping[str, int], now: float) -> dict[str, float]:
        elapsed_s = max(now - self._since, 1e-3)
        rates = {track: round((count - self._counts.get(track, 0)) / elapsed_s, 1) for track, count in counts.items()}
        self._since, self._counts = now, dict(counts)
        return rates
