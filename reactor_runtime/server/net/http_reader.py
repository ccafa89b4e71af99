"""Splits a client's bytes into requests (RFC 9112), and limits each while it arrives. No socket, no clock."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import httptools

from reactor_runtime.errors import ReactorError

MOST_HEAD_BYTES = 16_384
MOST_LINE_BYTES = 8_192
MOST_HEADERS = 128
# Below 0.5 ms for the smallest chunks, about 6 bytes each.
PIECE_BYTES = 4_096
# With a Content-Length, no single byte causes an event of its own.
BODY_PIECE_BYTES = 1 << 16
MOST_CHUNKS = 1_000
# The average size that chunks above that number have to have.
LEAST_CHUNK_BYTES = 256
_LINE_ENDS = b"\r\n"
_BAD = "not a request of HTTP/1.1\n"
_TOO_LONG = "the head of a request has at most 128 headers, lines of 8 KiB and 16 KiB in all\n"
_SMALL_CHUNKS = "the chunks of a body are too small: send it in larger ones, or with a Content-Length\n"


class BadRequest(ReactorError):
    """Report that a client does not follow HTTP; nothing more can be read from it."""


@dataclass(slots=True)
class Request:
    """Hold a request whose head has arrived; its body arrives in pieces until the request is `complete`."""

    method: str = ""
    target: bytes = b""
    version: str = ""
    # Names are in lower case.
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    keeps_alive: bool = False
    # The protocol that the client would like to use instead.
    upgrade: bytes = b""
    complete: bool = False
    body: bytearray = field(default_factory=bytearray)

    def header(self, name: bytes) -> bytes | None:
        """Return the last value of a header."""
        return next((value for each, value in reversed(self.headers) if each == name), None)

    @property
    def has_body(self) -> bool:
        """Return whether a body was announced."""
        return self.header(b"transfer-encoding") is not None or int(self.header(b"content-length") or b"0") > 0


class HttpReader:
    """Split bytes into requests, in pieces of 4 KiB, so that the caller can pause between two.

    A request is in `requests` when its head has arrived. The caller removes the request, and calls `step` again for its
    body or for the next request. At most the requests of one piece wait in `requests`.
    """

    def __init__(self) -> None:
        self.requests: deque[Request] = deque()
        self._data = b""
        self._at = 0
        self._error = ""
        self._upgraded = False
        self._body_left = 0
        self._renew()

    @property
    def is_partial(self) -> bool:
        """Return whether the head of a request has arrived in part, or bytes that are not read yet."""
        return self._in_head or self._at < len(self._data)

    def feed(self, data: bytes) -> None:
        """Append bytes for `step` to read."""
        self._data = self._data[self._at :] + data
        self._at = 0

    def step(self) -> bool:
        """Read a piece; return False when more bytes are needed.

        Raises `BadRequest`, after the requests before it were removed.
        """
        if self._error:
            raise BadRequest(self._error)
        if self._between and not self._skip_line_ends():
            return self._fail(_BAD)
        size = min(BODY_PIECE_BYTES, self._body_left) if self._body_left else PIECE_BYTES
        piece = self._data[self._at : self._at + size]
        if not piece or self._upgraded:
            return False
        self._head_bytes += len(piece)
        try:
            self._parser.feed_data(piece)
            self._at += len(piece)
        except httptools.HttpParserUpgrade as upgrade:
            self._at += upgrade.args[0]
            # The bytes after it are HTTP too, unless a WebSocket takes them with `rest`.
            self._upgraded = self._last.upgrade == b"websocket"
            if not self._upgraded:
                self._renew()
        except httptools.HttpParserError:
            return self._fail(self._error or _BAD)
        if self._in_head and self._head_bytes > MOST_HEAD_BYTES:
            self._error = _TOO_LONG
        return self._fail(self._error) if self._error else True

    def rest(self) -> bytes:
        """Return the bytes after the head of an upgrade, which are not read here."""
        return self._data[self._at :]

    def close(self) -> None:
        """Free what was received: the parser refers to this object."""
        self._data, self._at = b"", 0
        self.requests.clear()
        del self._parser

    def on_message_begin(self) -> None:
        self._between, self._in_head = False, True
        self._last = Request()

    def on_url(self, url: bytes) -> None:
        self._last.target += url
        if len(self._last.target) > MOST_LINE_BYTES:
            self._error = _TOO_LONG

    def on_header(self, name: bytes, value: bytes) -> None:
        headers = self._last.headers
        if len(headers) >= MOST_HEADERS or len(name) + len(value) > MOST_LINE_BYTES:
            self._error = _TOO_LONG
        else:
            headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        request, parser = self._last, self._parser
        self._in_head, self._head_bytes, self._chunks, self._size_bytes = False, 0, 0, 0
        request.method = parser.get_method().decode("ascii")
        request.version = parser.get_http_version()
        # HTTP/1.0 is answered without chunks, and so ends with the connection.
        request.keeps_alive = request.version == "1.1" and parser.should_keep_alive() and request.method != "CONNECT"
        if parser.should_upgrade():
            request.upgrade = (request.header(b"upgrade") or b"").lower()
        names = [name for name, _ in request.headers]
        hosts = (1,) if request.version == "1.1" else (0, 1)
        if request.version not in ("1.0", "1.1") or names.count(b"host") not in hosts:
            self._error = self._error or _BAD
        if not self._error:
            self._body_left = int(request.header(b"content-length") or b"0")
            self.requests.append(request)

    def on_body(self, data: bytes) -> None:
        self._last.body += data
        self._body_left = max(0, self._body_left - len(data))
        self._size_bytes += len(data)

    def on_chunk_header(self) -> None:
        self._chunks += 1
        if self._chunks > MOST_CHUNKS + self._size_bytes // LEAST_CHUNK_BYTES:
            self._error = _SMALL_CHUNKS

    def on_message_complete(self) -> None:
        self._last.complete = self._between = True
        self._body_left = 0

    def _renew(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._last = Request()
        self._between, self._in_head = True, False
        self._head_bytes = self._chunks = self._size_bytes = 0

    def _skip_line_ends(self) -> bool:
        """Skip a line end before a request; return False if there are more: the parser would skip any number."""
        begin = self._data[self._at : self._at + 3]
        skipped = len(begin) - len(begin.lstrip(_LINE_ENDS))
        self._at += skipped
        self._head_bytes = 0
        return skipped <= len(_LINE_ENDS)

    def _fail(self, reason: str) -> bool:
        """Remove a request with a bad body; raise `BadRequest`, unless requests before it are still to be served."""
        if self.requests and self.requests[-1] is self._last and not self._last.complete:
            self.requests.pop()
        self._error = reason
        if not self.requests:
            raise BadRequest(reason)
        return True
