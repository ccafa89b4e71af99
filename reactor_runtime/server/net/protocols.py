"""A connection below the application: how long until a request, how much that is no message."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState
from websockets.frames import Frame
from websockets.http11 import Request

from reactor_runtime.server.net.limits import PIECES_AT_ONCE, PIECES_PER_S, PINGS_AT_ONCE, PINGS_PER_S, TokenBucket
from reactor_runtime.server.net.message_reader import Allowance, Violation
from reactor_runtime.server.net.sliced_socket import ReadingConfig, SlicedSocket
from reactor_runtime.server.telemetry.metrics import LabelledCounter
from reactor_runtime.wire.protocol import CloseCode

REQUEST_S = 10.0
NOTHING = Allowance(0, 0, "nothing may be sent here")
_TOO_SLOW = "the request took too long to come\n"
_OLD = "a WebSocket begins with HTTP/1.1"
_NO_HANDSHAKE = "no WebSocket begins like that: it has no body, at most 128 headers, and lines of at most 8 KiB\n"


class EdgeConfig(ReadingConfig):
    """Uvicorn's settings, and who was refused; its protocols are made with nothing else."""

    def __init__(self, app: Any, refusals: LabelledCounter, **settings: Any) -> None:
        super().__init__(app, **settings)
        self.refusals = refusals


class HttpProtocol(H11Protocol):
    """Uvicorn's HTTP, for requests that come within 10 s."""

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        assert isinstance(config, EdgeConfig), "the server is made with one"
        self._refusals = config.refusals
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in the library
        super().connection_made(transport)
        self._expect_within(REQUEST_S)

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_nothing()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        self.cycle = None  # type: ignore[assignment]  # each refers to the other, and the library checks for None

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        answering = self.cycle is not None and not self.cycle.response_complete
        if answering or self.transport.is_closing():
            self._expect_nothing()
        elif self._deadline is None and self.transport.get_protocol() is self:
            self._expect_within(REQUEST_S)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._expect_nothing()
        if event.http_version == b"1.1":
            super().handle_websocket_upgrade(event)
        else:
            self.send_400_response(_OLD)

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP; the library would fail where an answer has begun, or is still to come."""
        self._answer(400, "Bad Request", f"{msg}\n")

    def _expect_within(self, seconds: float) -> None:
        self._deadline = self.loop.call_later(seconds, self._too_late)

    def _expect_nothing(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_late(self) -> None:
        self._deadline = None
        self._answer(408, "Request Timeout", _TOO_SLOW)

    def _answer(self, status: int, phrase: str, text: str) -> None:
        """Answer in place of the application, if nothing has been said yet, and be done with it."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._refusals.add(str(status))
            self.transport.write(_plain_answer(status, phrase, text))
        self.transport.close()
        if self.cycle is not None:
            self.cycle.disconnected = True  # what the application says from here on goes nowhere
            self.cycle.message_event.set()


def _plain_answer(status: int, phrase: str, text: str) -> bytes:
    head = f"HTTP/1.1 {status} {phrase}\r\nContent-Type: text/plain\r\nContent-Length: {len(text)}\r\n"
    return f"{head}Connection: close\r\n\r\n{text}".encode()


class LimitedSocket(SlicedSocket):
    """A socket with limits on what is no message: the application never sees pings, pongs and pieces."""

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        assert isinstance(config, EdgeConfig), "the server is made with one"
        self._refusals = config.refusals
        self._pings = TokenBucket(PINGS_PER_S, PINGS_AT_ONCE)
        self._pieces = TokenBucket(PIECES_PER_S, PIECES_AT_ONCE)

    def data_received(self, data: bytes) -> None:
        if self.handshake_initiated:
            self.feed(data)
            return
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            self._refuse_handshake()

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if self.response.status_code != HTTPStatus.SWITCHING_PROTOCOLS:
            self._refusals.add(str(int(self.response.status_code)))

    def _refuse_handshake(self) -> None:
        """Answer what HTTP allows and a handshake doesn't: the library would neither answer nor close."""
        self.handshake_initiated = self.handshake_complete = self.close_sent = True
        self._refusals.add("400")
        self.transport.write(_plain_answer(400, "Bad Request", _NO_HANDSHAKE))
        self.transport.close()

    def allowance(self, *, is_text: bool) -> Allowance:  # noqa: ARG002  (as subclasses need it)
        return NOTHING

    def on_message(self, message: bytes | None, size: int, *, is_text: bool) -> None:
        """Receive a message; None stands for one that was dropped."""

    def on_control(self, frame: bytes) -> None:
        super().data_received(frame)

    def on_continuation(self) -> None:
        self._count(self._pieces)

    def handle_ping(self) -> None:
        """Answer with a pong, unless the client reads none: those that wait would be held for it."""
        pong = b"".join(self.conn.data_to_send())
        self._count(self._pings)
        if self.writable.is_set():
            self.transport.write(pong)

    def handle_pong(self, event: Frame) -> None:
        self._count(self._pings)
        super().handle_pong(event)

    def _count(self, rate: TokenBucket) -> None:
        """Count what is no message; a client that sends far too much of it is not worth warning."""
        if not rate.take(self.loop.time()):
            raise Violation(CloseCode.RATE_LIMITED, "too many pings or pieces of messages")
