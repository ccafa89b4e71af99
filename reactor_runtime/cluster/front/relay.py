"""Passes messages between one client of the front and its worker, for clients that do not go there themselves.

The client's outbox holds the newest frame of each track, as for a client of this server. Acknowledgements go from the
client to the worker, so that the worker's send window and quality follow the whole way.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from websockets.exceptions import InvalidStatus, WebSocketException

from reactor_runtime.cluster.front.worker_socket import WorkerSocket
from reactor_runtime.errors import WireError
from reactor_runtime.media import wav
from reactor_runtime.server.delivery.client import Client
from reactor_runtime.server.encoding.encoded import EncodedFrame, EncodedSound, MediaFile
from reactor_runtime.server.encoding.encodings import DEFAULT
from reactor_runtime.server.encoding.track_encoding import TOP
from reactor_runtime.wire.codec import decode_ack, encode_text
from reactor_runtime.wire.media_header import MediaHeader, detach, media_kind, read_jpeg_header
from reactor_runtime.wire.messages import View

logger = logging.getLogger(__name__)

OPENING_S = 5.0
MOST_WAITING_BYTES = 4 * 1024 * 1024
UNKNOWN_INTERVAL_S = 1 / 30
NO_CODE = 1006
BYTES_PER_SAMPLE = 2


@dataclass(frozen=True, slots=True)
class RelayEnd:
    """How the connection to the worker has ended: closed by the worker with a code, or lost."""

    code: int
    reason: str

    @property
    def is_lost(self) -> bool:
        return self.code == NO_CODE


class Relay:
    """Connect to a worker for a client and pass messages both ways; use on the server's loop.

    Calls `on_end` once, unless it was closed before. From the client to the worker at most 4 MiB wait; a newer frame
    of a track replaces an older one there; sound and messages that do not fit close the connection of this client.
    """

    def __init__(
        self, client: Client, url: str, on_end: Callable[[RelayEnd], None], *, tls: ssl.SSLContext | None = None
    ) -> None:
        self._client = client
        self._on_end = on_end
        self._tls = tls
        self._client_acknowledges = False
        self._waiting: deque[tuple[str, str | bytes]] = deque()
        self._waiting_bytes = 0
        self._socket = WorkerSocket(url, on_message=self._receive, on_writable=self._send_waiting)
        client.upstream = self
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

    def pass_on(self, message: bytes, *, is_text: bool) -> None:
        """Queue a message of the client for the worker."""
        if is_text and not self._client_acknowledges:
            self._client_acknowledges = decode_ack(message) is not None
        self._queue(message.decode(errors="replace") if is_text else message)

    def set_view(self, view: View) -> None:
        """Limit what the worker sends to what the client wants."""
        data = {"paused": view.paused, "max_fps": view.max_fps, "tracks": view.tracks}
        self._queue(encode_text("reactor.view", {name: value for name, value in data.items() if value is not None}))

    def on_media_sent(self, header: MediaHeader) -> None:
        """Acknowledge a frame for a client that acknowledges none: its socket has taken the frame."""
        if not self._client_acknowledges:
            self._queue(encode_text("reactor.ack", {"track": header.track, "seq": header.seq}))

    def _queue(self, message: str | bytes) -> None:
        track = _frame_track(message) if isinstance(message, bytes) else ""
        if track:
            for index, (waiting, older) in enumerate(self._waiting):
                if waiting == track:
                    self._waiting_bytes += len(message) - len(older)
                    self._waiting[index] = (track, message)
                    return
        if self._waiting_bytes + len(message) > MOST_WAITING_BYTES:
            self._lose("the worker reads too slowly")
            return
        self._waiting.append((track, message))
        self._waiting_bytes += len(message)
        self._send_waiting()

    def _end(self, end: RelayEnd) -> None:
        """Report the end, unless the relay was closed."""
        if self._client.upstream is self:
            self.close()
            self._on_end(end)

    def _lose(self, reason: str) -> None:
        # Addresses are not for clients.
        logger.warning("relaying ended id=%s: %s", self._client.id, reason, extra=self._client.ids)
        self._end(RelayEnd(NO_CODE, ""))

    async def _run(self) -> None:
        try:
            async with asyncio.timeout(OPENING_S):
                await self._socket.open(self._tls)
            self._send_waiting()
            closed = await self._socket.closed
            self._end(RelayEnd(NO_CODE, "") if closed is None else RelayEnd(*closed))
        except InvalidStatus as refused:
            reason = (refused.response.body or b"").decode(errors="replace").strip()
            self._lose(f"the worker refused the connection: {reason}")
        except (OSError, WebSocketException) as error:
            self._lose(f"the worker can't be reached: {error}")
        finally:
            self._socket.close()

    def _send_waiting(self) -> None:
        while self._waiting and self._socket.ready:
            _, message = self._waiting.popleft()
            self._waiting_bytes -= len(message)
            self._socket.send(message)

    def _receive(self, message: str | bytes) -> None:
        client = self._client
        if isinstance(message, str):
            client.send_text(message)
            return
        try:
            if media_kind(message) == "video":
                self._receive_frame(message)
            else:
                self._receive_sound(message)
        except WireError as error:
            logger.warning("a worker sent a file that can't be relayed: %s", error, extra=client.ids)

    def _receive_frame(self, data: bytes) -> None:
        header = read_jpeg_header(data)
        if header is not None:
            files = {DEFAULT: {TOP: MediaFile("video", header, data)}}
            self._client.outbox.offer_frame(EncodedFrame(header, files, UNKNOWN_INTERVAL_S))

    def _receive_sound(self, data: bytes) -> None:
        header, file = detach(data)
        if header is not None:
            sound = wav.read_header(file)
            seconds = len(file) / (sound.channels * BYTES_PER_SAMPLE * sound.sample_rate)
            self._client.outbox.queue_sound(EncodedSound(header, data, seconds))


def _frame_track(message: bytes) -> str:
    """Return the name of the track that a message is a frame of, as a newer frame replaces it; "" for sound."""
    if media_kind(message) != "video":
        return ""
    try:
        header = read_jpeg_header(message)
    except WireError:
        return ""
    return " " if header is None else header.track
