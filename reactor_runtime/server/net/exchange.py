"""One request and its response: the messages of ASGI on one side, the bytes of HTTP/1.1 on the other."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from email.utils import formatdate
from http import HTTPStatus
from typing import Protocol

from starlette.types import ASGIApp, Message, Scope

from reactor_runtime.server.net.http_reader import Request

logger = logging.getLogger(__name__)

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
# So much of a body is read ahead of the application.
MOST_UNREAD_BYTES = 1 << 16
_CLOSE = (b"connection", b"close")
_CHUNKED = (b"transfer-encoding", b"chunked")
_PHRASES = {int(status): status.phrase.encode() for status in HTTPStatus}


class RequestConnection(Protocol):
    """Write responses and read requests for an `Exchange`."""

    def write(self, *pieces: bytes) -> None: ...

    async def writable(self) -> None:
        """Wait until what was written has gone to the kernel."""

    def read_on(self) -> None:
        """Read the body of the request, or the next request."""

    def exchange_over(self, *, keeps_alive: bool) -> None: ...


class Exchange:
    """Serve one request.

    The body is not read before the application receives it. If the application answers without receiving the body, the
    connection ends with the response.
    """

    def __init__(self, request: Request, connection: RequestConnection) -> None:
        self.request = request
        self._connection: RequestConnection | None = connection
        self._changed = asyncio.Event()
        self._receiving = self._received = self._started = self._over = False
        self._head: Message | None = None
        self._has_body = True
        self._chunked = False
        self._left: int | None = None
        self._keeps_alive = request.keeps_alive

    @property
    def wants_body(self) -> bool:
        """Return whether the application waits for the body, or little of it is read ahead."""
        request = self.request
        return self._receiving and not request.complete and len(request.body) < MOST_UNREAD_BYTES

    @property
    def has_started(self) -> bool:
        """Return whether something of the response was sent."""
        return self._started

    async def run(self, app: ASGIApp, scope: Scope) -> None:
        """Call the application, and complete the response if the application has not."""
        try:
            await app(scope, self.receive, self.send)
        except Exception:
            logger.exception("a request failed path=%s", scope["path"])
        if not self._over and not self._started:
            self._keeps_alive = False
            error = HTTPStatus.INTERNAL_SERVER_ERROR
            text = f"{error.phrase}\n".encode()
            headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(text))]
            await self.send({"type": "http.response.start", "status": int(error), "headers": headers})
            await self.send({"type": "http.response.body", "body": text})
        if not self._over:
            self._keeps_alive, self._left = False, None
            self._end()

    def body_arrived(self) -> None:
        """Pass on what was read of the body."""
        self._changed.set()

    def close_afterwards(self) -> None:
        """End the connection with this response."""
        self._keeps_alive = False

    def disconnect(self) -> None:
        """Report to the application that the client has gone, and drop what it sends."""
        self._over = True
        self._connection = None
        self._changed.set()

    async def receive(self) -> Message:
        """Return a piece of the body; after it, when the client is served or has gone, return a disconnect."""
        request = self.request
        if self._connection is not None and not request.complete and not self._receiving:
            self._receiving = True
            if (request.header(b"expect") or b"").lower() == b"100-continue" and not self._started:
                self._connection.write(CONTINUE)
        while not self._over and (self._received or not (request.body or request.complete)):
            self._changed.clear()
            if self._connection is not None and self.wants_body:
                self._connection.read_on()
            if not self._changed.is_set():
                await self._changed.wait()
        if self._over:
            return {"type": "http.disconnect"}
        body, self._received = bytes(request.body), request.complete
        request.body.clear()
        return {"type": "http.request", "body": body, "more_body": not request.complete}

    async def send(self, message: Message) -> None:
        """Write a part of the response, and wait until the kernel has accepted it.

        Only then the next request is served: otherwise responses that the client does not read would pile up.
        """
        if self._connection is None or self._over:
            return
        if message["type"] == "http.response.start":
            self._head = message
            return
        body, more = message.get("body", b""), message.get("more_body", False)
        head = b"" if self._started else self._begin()
        if self._left is not None and self._has_body:
            self._left -= len(body)
            if self._left < 0:
                raise RuntimeError("a response is longer than its Content-Length")
        if not self._has_body:
            body = b""
        elif self._chunked:
            body = (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") + (b"" if more else b"0\r\n\r\n")
        if head or body:
            self._connection.write(head + body)
        await self._connection.writable()
        if not more:
            self._end()

    def _begin(self) -> bytes:
        """Return the head of the response."""
        assert self._head is not None, "a response begins with its head"
        self._started = True
        request, status = self.request, self._head["status"]
        headers: list[tuple[bytes, bytes]] = list(self._head.get("headers", ()))
        given = {name.lower(): value for name, value in headers}
        self._has_body = request.method != "HEAD" and status not in (204, 304)
        length = given.get(b"content-length")
        self._left = None if length is None else int(length)
        if b"close" in given.get(b"connection", b"").lower() or not request.complete:
            self._keeps_alive = False
        if length is None and self._has_body:
            self._chunked = request.version == "1.1"
            headers += [_CHUNKED] if self._chunked else []
        headers += [] if self._keeps_alive or b"connection" in given else [_CLOSE]
        return _head(status, [*headers, (b"date", formatdate(time.time(), usegmt=True).encode())])

    def _end(self) -> None:
        connection, self._connection = self._connection, None
        self._over = True
        self._changed.set()
        if connection is not None:
            whole = not self._left or not self._has_body
            connection.exchange_over(keeps_alive=self._keeps_alive and self.request.complete and whole)


def plain_response(status: HTTPStatus, text: str, *headers: tuple[bytes, bytes]) -> bytes:
    """Return a response in place of the application's, with which the connection ends."""
    body = text.encode()
    about = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(body)), *headers, _CLOSE]
    return _head(int(status), about) + body


def _head(status: int, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    lines = [b"HTTP/1.1 %d %b" % (status, _PHRASES.get(status, b""))]
    lines += [b"%b: %b" % header for header in headers]
    head = b"\r\n".join(lines)
    if head.count(b"\n") >= len(lines) or head.count(b"\r") >= len(lines) or b"\0" in head:
        raise RuntimeError("a header of a response contains a line end or NUL")
    return head + b"\r\n\r\n"
