"""A WebSocket whose messages are read a little at a time, and limited while they come in."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import uvicorn
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.protocol import OPEN

from reactor_runtime.server.net.limits import Budget
from reactor_runtime.server.net.message_reader import MessageReader, Receiver, Violation
from reactor_runtime.server.net.reading import RECEIVED_S_A_BYTE, SLICE_S, Reading, Share
from reactor_runtime.wire.protocol import CloseCode

ABORT_S = 2.0
LINGER_S = 0.25
MOST_DROPPED_BYTES = 1 << 20
MESSAGE_S = 10.0
MOST_RECEIVING_BYTES = 64 << 20
VIEWER_SHARE = 0.005


class ReadingConfig(uvicorn.Config):
    """Uvicorn's settings, and what its sockets share: the loop's time, and room for unfinished messages."""

    def __init__(self, app: Any, **settings: Any) -> None:
        super().__init__(app, **settings)
        self.reading = Reading()
        self.receiving = Budget(MOST_RECEIVING_BYTES)


class SlicedSocket(WebSocketsSansIOProtocol, Receiver):
    """Uvicorn's WebSocket, read in slices of half a millisecond, and closed when a message takes too long to come.

    The library makes the handshake and answers control frames. It would hold 16 MiB for every client that announces
    them, and read all that came at once. Nothing is read before `start_reading`. Subclasses receive the messages.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        assert isinstance(config, ReadingConfig), "the server is made with one"
        self._reading = config.reading
        self.share = Share(VIEWER_SHARE, config.reading.pool, self.loop.time())
        self._reader = MessageReader(self, config.receiving)
        self._started = self._over = self._paused = False
        self._rest_s = 0.0
        self._charged_bytes = self._dropped_bytes = self._awaited = 0
        self._timer: asyncio.TimerHandle | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._abort: asyncio.TimerHandle | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_reading()
        del self._reader  # it refers to this
        super().connection_lost(exc)
        self.conn.parser.close()  # a generator that refers to the object that holds it

    def feed(self, data: bytes) -> None:
        """Read bytes of messages, now or later; those after the end are dropped."""
        if self._over:
            # a connection that is closed with something unread is reset, and its close code lost
            self._dropped_bytes += len(data)
            if self._dropped_bytes > MOST_DROPPED_BYTES:
                self.transport.abort()
            return
        self._reader.feed(data)
        self._charged_bytes += len(data)
        self._pause()
        if self._started and self._timer is None:
            self._reading.read(self)

    def start_reading(self) -> None:
        """Read what the client sends, which has waited until it was known who it is."""
        self._started = True
        self._reading.read(self)

    def read_slice(self) -> bool:
        """Read for half a millisecond; returns whether there is more. A client that costs too much has to rest."""
        now = self.loop.time()
        began_s = time.thread_time()
        try:
            more = self._read_until(now + SLICE_S)
        except Violation as violation:
            self._end(violation.code, violation.message)
            return False
        except Exception:  # what is read later than it came has no transport to end it
            self.logger.exception("reading a socket failed")
            self.transport.abort()
            return False
        if self.transport.is_closing():
            return False
        spent_s = time.thread_time() - began_s + self._charged_bytes * RECEIVED_S_A_BYTE
        self._charged_bytes = 0
        rest_s = max(self._rest_s, self.share.spend(now, spent_s))
        self._rest_s = 0.0
        if rest_s:
            self._timer = self.loop.call_later(rest_s, self._rested)
            return False
        if not more:
            self._resume()
            self._expect_message()
        return more

    def _read_until(self, deadline: float) -> bool:
        while not self.transport.is_closing():
            if not self._reader.step():
                return False
            if self._rest_s or self.loop.time() > deadline:
                return True
        return False

    def rest(self, seconds: float) -> None:
        """Read nothing for a while; meanwhile the client's own buffers fill up."""
        self._rest_s = seconds

    def _rested(self) -> None:
        self._timer = None
        self._reading.read(self)

    def _pause(self) -> None:
        if not self._paused and not self.transport.is_closing():
            self._paused = True
            self.transport.pause_reading()

    def _resume(self) -> None:
        if self._paused and not self.transport.is_closing():
            self._paused = False
            self.transport.resume_reading()

    def _stop_reading(self) -> None:
        """Free what has come in."""
        self._reading.forget(self)
        self._reader.clear()
        for timer in (self._timer, self._deadline, self._abort):
            if timer is not None:
                timer.cancel()
        self._timer = self._deadline = self._abort = None

    def _expect_message(self) -> None:
        """Give an unfinished message 10 s from its first byte on."""
        if self._deadline is not None and not (self._reader.is_partial and self._awaited == self._reader.ended):
            self._deadline.cancel()
            self._deadline = None
        if self._reader.is_partial and self._deadline is None:
            self._awaited = self._reader.ended
            self._deadline = self.loop.call_later(MESSAGE_S, self._message_too_late)

    def _message_too_late(self) -> None:
        self._deadline = None
        self._end(CloseCode.TOO_SLOW, f"a message has to come within {MESSAGE_S:.0f} s")

    def _end(self, code: int, reason: str) -> None:
        """Close the socket from below the application, which is told."""
        self._stop_reading()
        if self.transport.is_closing():
            return
        if not self.close_sent:
            self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
            if self.conn.state is OPEN:
                self.conn.send_close(code, reason)
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.close_sent = True
        self._over = True
        self._resume()
        self.close_timer = self.loop.call_later(LINGER_S, self.transport.close)
        self.abort_soon()

    def abort_soon(self) -> None:
        """Closing waits until everything unsent is sent, which a peer that doesn't read can put off for ever."""
        if not self.disconnected and self._abort is None:
            self._abort = self.loop.call_later(ABORT_S, self.transport.abort)
