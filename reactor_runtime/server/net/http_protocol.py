"""The protocol of a connection: requests one after the other, each limited in time, and charged to its address."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from asyncio.transports import BaseTransport, Transport
from http import HTTPStatus
from typing import cast

from reactor_runtime.server.net.application import Application, Peer
from reactor_runtime.server.net.exchange import Exchange, plain_response
from reactor_runtime.server.net.http_reader import BadRequest, HttpReader, Request
from reactor_runtime.server.net.reading import RECEIVED_S, RECEIVED_S_A_BYTE, SLICE_S
from reactor_runtime.server.net.shares import TURN_S, AddressShare
from reactor_runtime.server.net.socket_protocol import SocketProtocol
from reactor_runtime.server.net.transport import ClientConnection, keep_little_unsent, notice_silence

logger = logging.getLogger(__name__)

REQUEST_S = 10.0
KEPT_ALIVE_S = 5.0
STALLED_S = 20.0
PATIENCE_S = 10.0
LINGER_S = 0.25
MOST_DROPPED_BYTES = 1 << 20
SLOWED = "requests wait from=%s: the address has used its share of the server's time, or leaves responses unread"
_TOO_SLOW = "the request took too long to arrive\n"
_TOO_MANY = "this address has used its share of the server's time, or leaves responses unread\n"
_NO_HANDSHAKE = "a WebSocket handshake is a request of HTTP/1.1 without a body\n"


class HttpProtocol(ClientConnection):
    """Serve the requests of a connection, with limits on time.

    A request has to arrive within 10 s. A peer that reads nothing of its response for 20 s is disconnected. An address
    that has used its share of the loop, or leaves too much of its responses unread, is not read; a request that waits
    longer than 10 s is answered with 429. Little is buffered, so that the newest frame can replace one that is not sent
    yet.
    """

    def __init__(
        self,
        application: Application,
        connections: set[asyncio.Protocol],
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(loop or asyncio.get_running_loop(), stalled_s=STALLED_S)
        self._application = application
        self._connections = connections
        self._reader = HttpReader()
        self._exchange: Exchange | None = None
        self._known: Request | None = None
        self._dropping = self._idle = False
        self._unpaid_s = 0.0
        # The bytes of a response that the client has not read, and the share in which they are counted.
        self._unread: tuple[AddressShare, int] | None = None
        self._dropped_bytes = 0
        # The time at which the bytes arrived that wait for the share of the address.
        self._waits_since: float | None = None
        self._wait: asyncio.TimerHandle | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: BaseTransport) -> None:
        self.transport = cast("Transport", transport)
        self._connections.add(self)
        keep_little_unsent(self.transport)
        notice_silence(transport, round(STALLED_S))
        address, port = _pair(transport.get_extra_info("peername"))
        self._server = _pair(transport.get_extra_info("sockname"))
        self._peer = self._client = Peer(address, port, transport.get_extra_info("sslcontext") is not None)
        self.share = self._peer_share = self._application.accounts.of_peer(address, time.monotonic())
        self._expect_request(REQUEST_S)

    def connection_lost(self, exc: Exception | None) -> None:
        self._dropping = True
        self._connections.discard(self)
        self._application.reading.forget(self)
        for timer in (self._wait, self._deadline):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)
        self._response_read()
        self._reader.close()
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.disconnect()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._response_read()
        self._unread = self.share, self.transport.get_write_buffer_size()
        self.share.unread_bytes += self._unread[1]

    def resume_writing(self) -> None:
        self._response_read()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        self._unpaid_s += RECEIVED_S + len(data) * RECEIVED_S_A_BYTE
        if self._dropping:
            self._drop(len(data))
            return
        if self._idle:
            self._expect_request(REQUEST_S)
        self._reader.feed(data)
        self.pause_reading()
        self.read_on()

    def shutdown(self) -> None:
        """Close the connection when its response is sent."""
        if self._exchange is None:
            self.transport.close()
        else:
            self._exchange.close_afterwards()

    def ignore_received(self) -> None:
        """Drop what the client sends from here on: unread, it would hide that the client has gone."""
        self._dropping = True
        self.resume_reading()

    def read_on(self) -> None:
        """Read the body of the request, or the next request, unless the address has to wait."""
        if self._wait is None and not self._dropping and (self._exchange is None or self._exchange.wants_body):
            self._application.reading.read(self)

    def read_slice(self) -> bool:
        """Read for half a millisecond; return whether there is more to read now."""
        now = time.monotonic()
        if wait_s := self.share.wait_s(now):
            self._wait_for(wait_s, now)
            return False
        began_s = time.thread_time()
        try:
            more = self._read_until(now + SLICE_S)
        except BadRequest as error:
            self._answer(HTTPStatus.BAD_REQUEST, error.message)
            more = False
        self.share.spend(now, time.thread_time() - began_s + self._unpaid_s)
        self._unpaid_s = 0.0
        return more

    def abort(self) -> None:
        self.transport.abort()

    def exchange_over(self, *, keeps_alive: bool) -> None:
        """Serve the next request, or close the connection."""
        self._exchange = None
        self.share, self._client = self._peer_share, self._peer
        if not keeps_alive:
            self._end()
        elif not self.transport.is_closing():
            self._expect_request(REQUEST_S if self._reader.is_partial else KEPT_ALIVE_S)
            self._idle = not self._reader.is_partial
            self._loop.call_soon(self.read_on)

    def _read_until(self, deadline: float) -> bool:
        reader = self._reader
        while not self.transport.is_closing() and not self._dropping:
            if self._exchange is not None:
                if not self._exchange.wants_body:
                    return False
            elif reader.requests:
                return self._serve(reader.requests[0])
            if not reader.step():
                self.resume_reading()
                return False
            if self._exchange is not None:
                self._exchange.body_arrived()
            if time.monotonic() > deadline:
                return True
        return False

    def _serve(self, request: Request) -> bool:
        """Serve a request if its client has time left; behind a proxy each request may have another client."""
        if self._known is not request:
            self._known = request
            self._client = self._application.client_of(self._peer, request)
            self.share = self._application.accounts.of(self._client.address, time.monotonic())
            return True
        self._known = self._waits_since = None
        self._cancel_deadline()
        self._reader.requests.popleft()
        if request.upgrade == b"websocket" and request.method == "GET":
            self._upgrade(request)
            return False
        # Serve one in each iteration of the loop: the time of the application is known only afterwards.
        self._application.reading.count(TURN_S)
        scope = self._application.scope("http", request, self._client, self._server, self)
        self._exchange = Exchange(request, self)
        # The exchange ends when the client goes, which is not noticed while reading is paused.
        if request.complete and not self._reader.is_partial:
            self.resume_reading()
        self._application.start(self._exchange.run(self._application.app, scope), self.share)
        return False

    def _upgrade(self, request: Request) -> None:
        if request.version != "1.1" or request.has_body:
            self._answer(HTTPStatus.BAD_REQUEST, _NO_HANDSHAKE)
            return
        transport, rest, writable = self.transport, self._reader.rest(), self.ready
        socket = SocketProtocol(self._application, self._connections, self.share)
        scope = self._application.scope("websocket", request, self._client, self._server, socket)
        self.connection_lost(None)
        transport.set_protocol(socket)
        self.resume_reading()
        socket.open(transport, request, scope, writable=writable, received=rest)

    def _wait_for(self, wait_s: float, now: float) -> None:
        """Leave the connection unread until its address has something of its share again."""
        self._cancel_deadline()
        if self._waits_since is None:
            self._waits_since = now
            logger.warning(SLOWED, self._client.address, extra={"address": self._client.address})
        if self._exchange is None and now - self._waits_since >= PATIENCE_S:
            self._answer(HTTPStatus.TOO_MANY_REQUESTS, _TOO_MANY, (b"retry-after", b"1"))
        else:
            self._wait = self._loop.call_later(wait_s, self._wait_over)

    def _wait_over(self) -> None:
        self._wait = None
        if self._exchange is None:
            self._expect_request(REQUEST_S)
        self.read_on()

    def _answer(self, status: HTTPStatus, text: str, *headers: tuple[bytes, bytes]) -> None:
        """Answer in place of the application, unless a response has begun, and close the connection."""
        exchange, self._exchange = self._exchange, None
        if exchange is None or not exchange.has_started:
            self._application.refusals.add(str(int(status)))
            self.write(plain_response(status, text, *headers))
        if exchange is not None:
            exchange.disconnect()
        self._end()

    def _end(self) -> None:
        """Close the connection when everything is sent.

        A connection that is closed with unread bytes is reset, and its response may be lost: what still arrives is
        dropped for a while.
        """
        self._cancel_deadline()
        if self.transport.is_closing():
            return
        self.ignore_received()
        with contextlib.suppress(OSError, NotImplementedError):
            self.transport.write_eof()
        if self._wait is not None:
            self._wait.cancel()
        self._wait = self._loop.call_later(LINGER_S, self.transport.close)

    def _response_read(self) -> None:
        """Count what the client had not read of a response as read, or given up."""
        if self._unread is not None:
            share, size_bytes = self._unread
            share.unread_bytes -= size_bytes
            self._unread = None

    def _drop(self, size_bytes: int) -> None:
        self._dropped_bytes += size_bytes
        if self._exchange is None and self._dropped_bytes > MOST_DROPPED_BYTES:
            self.transport.abort()
        elif wait_s := self.share.spend(time.monotonic(), self._unpaid_s):
            self.pause_reading()
            self._loop.call_later(wait_s, self.resume_reading)
        self._unpaid_s = 0.0

    def _expect_request(self, timeout_s: float) -> None:
        self._cancel_deadline()
        self._idle = False
        self._deadline = self._loop.call_later(timeout_s, self._request_too_late)

    def _request_too_late(self) -> None:
        self._deadline = None
        if self._idle:
            self.transport.close()
        else:
            self._answer(HTTPStatus.REQUEST_TIMEOUT, _TOO_SLOW)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def _pair(address: object) -> tuple[str, int]:
    """Return the address and port of a socket; a Unix socket has neither."""
    return (str(address[0]), int(address[1])) if isinstance(address, tuple) else ("", 0)
