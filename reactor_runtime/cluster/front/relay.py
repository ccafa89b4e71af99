"""Passes messages between one client of the front and its worker, for clients that do not go there themselves.

The client's outbox holds the newest frame of each track, as for a client of this server. Acknowledgements go from the
client to the worker, so that the worker's send window and quality follow the whole way.
"""

from __future__ import annotations

import asyncio
import logging
import math
import ssl
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum, auto
from typing import Self

from websockets.exceptions import InvalidStatus, WebSocketException

from reactor_runtime.cluster.front.worker_socket import WorkerSocket
from reactor_runtime.errors import WireError
from reactor_runtime.media import wav
from reactor_runtime.server.delivery.client import Client
from reactor_runtime.server.encoding.encoded import EncodedFrame, EncodedSound, MediaFile
from reactor_runtime.server.encoding.encodings import VIDEO_ENCODINGS
from reactor_runtime.server.encoding.track_encoding import TOP, TrackEncoding
from reactor_runtime.wire.codec import decode_ack, decode_text, encode_text
from reactor_runtime.wire.containers import CONTAINERS, INPUTS, MP4, Container, container_of
from reactor_runtime.wire.media_header import MediaHeader
from reactor_runtime.wire.messages import View
from reactor_runtime.wire.protocol import MAX_VIEWER_BYTES, RELAYED, CloseCode

logger = logging.getLogger(__name__)

OPENING_S = 5.0
MOST_WAITING_BYTES = 4 * 1024 * 1024
# The memory of an entry of the queue, beside its message.
ENTRY_BYTES = 64
UNKNOWN_INTERVAL_S = 1 / 30
BYTES_PER_SAMPLE = 2
VIDEO_NAMES = frozenset(encoding.name for encoding in VIDEO_ENCODINGS)
# Their files are decoded alone, so that a newer frame may replace one; all other binary messages pass unchanged.
FILES = tuple(container for container in CONTAINERS if container is not MP4)
TOO_SLOW = "the session is too slow for what this client sends: 4 MiB wait"


class Failure(Enum):
    """Distinguish why there is no connection to the worker."""

    UNREACHED = auto()
    BROKEN = auto()


@dataclass(frozen=True, slots=True)
class RelayEnd:
    """Describe the end of a relay: a code to close the client with, and a failure if the connection was lost."""

    code: CloseCode
    reason: str
    failure: Failure | None = None

    @classmethod
    def closed(cls, code: int, reason: str) -> Self:
        """Return the end by a worker that has closed the connection."""
        try:
            return cls(CloseCode(code), reason)
        except ValueError:
            return cls(CloseCode.SESSION_OVER, reason)


class Relay:
    """Connect to a worker for a client and pass messages both ways; use on the server's loop.

    Calls `on_end` once, unless it was closed before. The queue from the client to the worker takes at most 4 MiB of
    memory: a newer frame replaces an older one of its track; a message that does not fit ends the relay, as the worker
    is too slow.
    """

    def __init__(
        self,
        client: Client,
        url: str,
        on_end: Callable[[RelayEnd], None],
        *,
        tls: ssl.SSLContext | None = None,
        containers: Sequence[Container] = FILES,
    ) -> None:
        self._client = client
        self._on_end = on_end
        self._tls = tls
        self._containers = containers
        self._client_acknowledges = False
        self._waiting: deque[tuple[str | None, str | bytes]] = deque()
        self._waiting_bytes = 0
        self._socket = WorkerSocket(url, on_message=self._receive, on_writable=self._send_waiting)
        client.upstream = self
        # The media that waits came from another worker, or over a connection that broke.
        client.outbox.leave_session()
        if client.outbox.view != View():
            self._queue(_encode_view(client.outbox.view))
        self._task = asyncio.create_task(self._run())

    def close(self, *, lost: bool = False) -> None:
        """End the connection to the worker without a call of `on_end`; may be called twice.

        With `lost` it breaks, so that the worker keeps the session for a controller that may resume it.
        """
        if self._client.upstream is self:
            self._client.upstream = None
        if lost:
            self._socket.abort()
        self._task.cancel()

    def end(self, code: CloseCode, reason: str) -> None:
        """End the relay as if the worker had closed it; do nothing if it has ended."""
        self._end(RelayEnd(code, reason))

    def pass_on(self, message: bytes, *, is_text: bool) -> None:
        """Queue a message of the client for the worker; a view is kept for the next worker too."""
        if is_text and not self._client_acknowledges:
            self._client_acknowledges = decode_ack(message) is not None
        if is_text and (view := _decode_view(message)) is not None:
            self._client.outbox.set_view(view)
            if view.codecs is not None:
                self._queue(_encode_view(view))
                return
        self._queue(message.decode(errors="replace") if is_text else message)

    def on_media_sent(self, header: MediaHeader) -> None:
        """Acknowledge a frame for a client that acknowledges none: its socket has taken the frame."""
        if not self._client_acknowledges:
            self._queue(encode_text("reactor.ack", {"track": header.track, "seq": header.seq}))

    def _queue(self, message: str | bytes) -> None:
        track = _frame_track(message) if isinstance(message, bytes) else None
        older = None if track is None else next((item for item in self._waiting if item[0] == track), None)
        size = self._waiting_bytes + _memory_bytes(message) - (0 if older is None else _memory_bytes(older[1]))
        if size > MOST_WAITING_BYTES:
            self._end(self._failed(TOO_SLOW), lost=True)
            return
        self._waiting_bytes = size
        if older is None:
            self._waiting.append((track, message))
        else:
            self._waiting[self._waiting.index(older)] = (track, message)
        self._send_waiting()

    def _end(self, end: RelayEnd, *, lost: bool = False) -> None:
        """Report the end, unless the relay was closed."""
        if self._client.upstream is self:
            self.close(lost=lost)
            self._on_end(end)

    async def _run(self) -> None:
        client = self._client
        try:
            self._end(await self._connect())
        except Exception:
            logger.exception("relaying failed id=%s", client.id, extra=client.ids)
            client.close(CloseCode.MODEL_FAILED, "the connection to the session failed")
        finally:
            self._socket.close()

    async def _connect(self) -> RelayEnd:
        """Connect to the worker, and wait for the end."""
        try:
            async with asyncio.timeout(OPENING_S):
                await self._socket.open(self._tls)
        except InvalidStatus as refused:
            reason = (refused.response.body or b"").decode(errors="replace").strip()
            return self._failed(f"the worker refused the connection: {reason}")
        except (OSError, WebSocketException) as error:
            # Addresses are not for clients.
            return self._failed("the worker can't be reached", str(error), failure=Failure.UNREACHED)
        self._send_waiting()
        closed = await self._socket.closed
        if closed is None:
            return self._failed("the connection to the worker broke", failure=Failure.BROKEN)
        return RelayEnd.closed(*closed)

    def _failed(self, reason: str, detail: str = "", *, failure: Failure | None = None) -> RelayEnd:
        logger.warning("relaying ended id=%s: %s %s", self._client.id, reason, detail, extra=self._client.ids)
        return RelayEnd(CloseCode.FULL, reason, failure)

    def _send_waiting(self) -> None:
        while self._waiting and self._socket.ready:
            _, message = self._waiting.popleft()
            self._waiting_bytes -= _memory_bytes(message)
            self._socket.send(message)

    def _receive(self, message: str | bytes) -> None:
        """Queue a message of the worker: of frames only the newest of each track, and all other messages in order.

        A newer worker may send kinds that this front does not know, and a piece of a video stream is useless without
        those before it.
        """
        outbox = self._client.outbox
        media = None if isinstance(message, str) else _read_media(message, self._containers, outbox.encoding)
        if isinstance(media, EncodedFrame):
            outbox.offer_frame(media)
        elif isinstance(media, EncodedSound):
            outbox.queue_sound(media)
        else:
            self._client.send_encoded(message)


def _read_media(
    data: bytes, containers: Sequence[Container], encoding: TrackEncoding
) -> EncodedFrame | EncodedSound | None:
    """Return the frame or the sound of a worker; None for any other message.

    The worker has chosen the encoding for the client, and offers each frame in this alone.
    """
    container = container_of(data, containers)
    try:
        header = None if container is None else container.read(data)
        if container is None or header is None:
            return None
        if container.kind == "video":
            return EncodedFrame(header, {encoding: {TOP: MediaFile("video", header, data)}}, UNKNOWN_INTERVAL_S)
        _, file = container.detach(data)
        sound = wav.read_header(file)
        return EncodedSound(header, data, len(file) / (sound.channels * BYTES_PER_SAMPLE * sound.sample_rate))
    except WireError:
        return None


def _memory_bytes(message: str | bytes) -> int:
    """Return the memory of a message in the queue; that of many small ones is more than their length."""
    return sys.getsizeof(message) + ENTRY_BYTES


def _encode_view(view: View) -> str:
    """Encode a view for a worker; it names no video streams, of which a relay could not leave out frames."""
    codecs = view.codecs
    if codecs is not None and any(name in VIDEO_NAMES for name in codecs):
        codecs = (*(name for name in codecs if name not in VIDEO_NAMES), RELAYED)
    values = asdict(replace(view, codecs=codecs))
    return encode_text("reactor.view", {key: value for key, value in values.items() if value not in (None, math.inf)})


def _decode_view(text: bytes) -> View | None:
    """Decode a view; return None for any other message, most of which are not decoded."""
    if len(text) > MAX_VIEWER_BYTES or b"reactor.view" not in text:
        return None
    try:
        message = decode_text(text.decode())
    except (WireError, UnicodeDecodeError):
        return None
    return message if isinstance(message, View) else None


def _frame_track(message: bytes) -> str | None:
    """Return the track that a frame replaces older ones of, "" for a frame without a header; None for sound."""
    container = container_of(message, INPUTS)
    if container is None or container.kind != "video":
        return None
    try:
        header = container.read(message)
    except WireError:
        return None
    return "" if header is None else header.track
