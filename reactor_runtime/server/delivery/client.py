"""One client: its role, its outbox, and how its connection is to be closed.

The socket itself is left to the routes, what the client sends to the sessions.
"""

from __future__ import annotations

import asyncio
import secrets
import statistics
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from reactor_runtime.server.delivery.options import ClientOptions
from reactor_runtime.server.delivery.outbox import MOST_MESSAGE_BYTES, Item, Outbox
from reactor_runtime.server.encoding.encoded import MediaFile
from reactor_runtime.server.encoding.ladder import Ladder
from reactor_runtime.wire.codec import encode_text, size_bytes_of
from reactor_runtime.wire.media_header import MediaHeader
from reactor_runtime.wire.messages import View
from reactor_runtime.wire.protocol import RELAYED, CloseCode

MOST_REASON_BYTES = 123


class Role(StrEnum):
    """The roles of a client: it controls the model, or watches."""

    CONTROLLER = "controller"
    VIEWER = "viewer"


@dataclass(frozen=True, slots=True)
class Closing:
    """The code and reason to close the socket with, after everything queued is sent."""

    code: CloseCode
    reason: str


class Upstream(Protocol):
    """The connection of a relayed client to its worker."""

    def pass_on(self, message: bytes, *, is_text: bool) -> None:
        """Queue a message of the client."""

    def on_media_sent(self, header: MediaHeader) -> None:
        """Called when the client's socket has taken a frame or sound."""


class Client:
    """One connection to the server and the queue of what it is to be sent.

    With `watches` a controller sees other sessions while it waits for its own. With `only` the view never changes and
    no message is sent: the client understands frames alone. With `full_size_only`, as recorders need, it is sent no
    frame that was scaled down. With `follows_redirects` it connects to another address when it is sent one.
    A controller that is `stepped` requests the steps of its session. `id` is the id that a front has given the client;
    "" makes a new one. The arguments `room` and `seat` are the session and the seat that a controller wants; the
    attribute `seat` is the number of the seat that it has, or that a viewer watches. `slot` is the number of the slot
    that a front has chosen, 0 without a front. A viewer that `waits` is a controller in the wait queue of the front.
    `given_up` is set when the client reads too little to receive its own close, `gone` when its socket is no longer
    served.
    """

    def __init__(
        self,
        role: Role,
        address: str,
        options: ClientOptions,
        *,
        watches: bool = False,
        only: View | None = None,
        full_size_only: bool = False,
        follows_redirects: bool = False,
        id: str = "",
        used_s: float = 0.0,
        stepped: bool = False,
        room: str = "",
        seat: int | None = None,
        slot: int = 0,
        waits: bool = False,
    ) -> None:
        self.metrics = options.metrics
        self.id = id or f"c-{secrets.token_hex(4)}"
        # The fields of every log line about this client.
        self.ids = {"client": self.id}
        self.role = role
        self.address = address
        self.clock = clock = options.clock
        self.watches = watches
        self.follows_redirects = follows_redirects
        self.stepped = stepped
        self.room = room
        self.wanted_seat = seat
        self.seat = seat or 0
        self.slot = slot
        self.waits = waits
        # Whether the client has come back because it could not reach a worker.
        self.has_returned = False
        # How much of its turn a lost session has used.
        self.used_s = used_s
        # Messages in both directions pass through this, unread.
        self.upstream: Upstream | None = None
        self.joined_at_unix = time.time()
        self.outbox = Outbox(
            options,
            only,
            full_size_only=full_size_only,
            may_acknowledge=only is None,
        )
        self._takes_messages = only is None
        self._catch_up: Callable[[Client], None] | None = None
        self.closing: Closing | None = None
        self.given_up = asyncio.Event()
        self.gone = asyncio.Event()
        self.send_times: deque[float] = deque(maxlen=64)
        self._rates = _Rates(clock.now())
        self._video_bytes = (clock.now(), 0)

    @property
    def log_fields(self) -> dict[str, str]:
        """Return the extra fields of a log line that a client can cause at will; the log limits these by address."""
        return {**self.ids, "address": self.address}

    @property
    def has_wish(self) -> bool:
        """Return whether only some seats or slots are for this controller."""
        return bool(self.room or self.slot) or self.wanted_seat is not None

    def join_broadcast(self, catch_up: Callable[[Client], None]) -> None:
        """Call `catch_up` before each message to this client alone, so that earlier broadcasts are queued first."""
        self._catch_up = catch_up

    def leave_broadcast(self) -> None:
        self._catch_up = None

    def send_message(self, kind: str, data: Mapping[str, Any], message_id: str | int | None = None) -> None:
        """Encode and queue a text message; do nothing after `close`."""
        if self._takes_messages:
            self.send_alone(encode_text(kind, data, message_id))

    def send_alone(self, text: str) -> None:
        """Queue an encoded text message to this client alone, after what was broadcast before."""
        if self._catch_up is not None:
            self._catch_up(self)
        self.send_encoded(text)

    def send_encoded(self, message: str | bytes) -> None:
        """Queue an encoded message, which is never replaced; give up a client that leaves 1,000 or 4 MiB unread."""
        if not self._takes_messages or self.closing is not None or self.outbox.queue_message(message):
            return
        size_bytes = size_bytes_of(message)
        if size_bytes > MOST_MESSAGE_BYTES:
            self.close(CloseCode.FULL, f"the state or the schema is too large: a message of {size_bytes} bytes")
            return
        self.close(CloseCode.FULL, "not reading: 1000 messages or 4 MiB wait")
        self.given_up.set()

    def send_error(
        self,
        code: str,
        message: str,
        *,
        message_id: str | int | None = None,
        fields: list[dict[str, str]] | None = None,
        event: str | None = None,
        made: Mapping[str, Any] | None = None,
    ) -> None:
        """Queue a `reactor.error`; `made` is what a request for steps has made before it was refused."""
        self.metrics.errors.add(code)
        data: dict[str, Any] = {"code": code, "message": message}
        if fields:
            data["fields"] = fields
        if event is not None:
            data["event"] = event
        if made is not None:
            data["made"] = made
        self.send_message("reactor.error", data, message_id)

    def close(self, code: CloseCode, reason: str) -> None:
        """Close the socket after what is queued; a second call changes nothing."""
        if self.closing is None:
            self.closing = Closing(code, _shortened(reason))
            self.outbox.finish()

    def on_item_sent(self, item: Item, send_s: float) -> None:
        """Count an item that the socket took, and the seconds until the socket was ready for the next one."""
        self.send_times.append(send_s)
        self.metrics.sent(item, send_s)
        if self.upstream is not None and isinstance(item, MediaFile):
            self.upstream.on_media_sent(item.header)
        if self.metrics.trace is not None:
            self.metrics.trace.sent(self.id, item, self.clock.now() - send_s, send_s)

    def statistics(self, now: float) -> dict[str, Any]:
        """Return this client's part of `reactor.stats`, with rates since the last call."""
        counters = self.outbox.counters
        track_senders = self.outbox.track_senders
        windows = {track: track_sender.window for track, track_sender in track_senders.items()}
        ladder = max(
            (track_sender.ladder for track_sender in track_senders.values()),
            key=lambda ladder: ladder.rung,
            default=Ladder(self.outbox.encoding.rungs),
        )
        round_trips = [window.round_trip_s for window in windows.values() if window.acknowledging]
        video = {} if self.outbox.view.codecs is None else self._video_statistics(now)
        return {
            "rung": ladder.rung,
            "quality": ladder.current.quality,
            "scale": ladder.current.scale,
            "why": ladder.why,
            "fps": self._rates.update(counters.sent_by_track, now),
            "emitted": counters.offered,
            "sent": counters.sent,
            "skipped": counters.skipped,
            "window": {track: window.frames for track, window in windows.items() if window.acknowledging},
            "rtt_ms": round(1e3 * max(round_trips), 1) if round_trips else None,
            "send_ms": round(1e3 * statistics.median(self.send_times), 2) if self.send_times else None,
            **video,
        }

    def _kbit_s(self, now: float) -> float:
        """Return the rate of all frames since the last call."""
        (since, before), sent = self._video_bytes, self.outbox.counters.sent_bytes
        self._video_bytes = now, sent
        return round(8e-3 * (sent - before) / max(now - since, 1e-3), 1)

    def _video_statistics(self, now: float) -> dict[str, Any]:
        """Return what a client that can decode video gets, and why that is not video where the server can't send it."""
        senders = self.outbox.track_senders.values()
        video = next((sender.takes_video for sender in senders if sender.takes_video is not None), None)
        relayed = RELAYED if RELAYED in (self.outbox.view.codecs or ()) else None
        why = next((sender.why_no_video for sender in senders if sender.why_no_video), relayed)
        return {
            "codec": video or self.outbox.encoding.name,
            "kbit_s": self._kbit_s(now),
            **({} if why is None else {"why": why}),
        }


def _shortened(reason: str) -> str:
    """Shorten a reason to the size of a close frame (RFC 6455, 5.5)."""
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
