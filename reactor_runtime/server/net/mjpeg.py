"""Frames as one multipart/x-mixed-replace body: file after file, each in a part of its own (RFC 2046, 5.1)."""

from __future__ import annotations

from collections.abc import Callable

from reactor_runtime.server.net.http_protocol import HttpProtocol

BOUNDARY = "frame"
MEDIA_TYPE = f"multipart/x-mixed-replace; boundary={BOUNDARY}"


def is_painted(accept: str) -> bool:
    """Return whether the request is of a browser, which scales each frame; players and recorders need one size."""
    return "image/" in accept


class Parts:
    """Write the parts so that the client shows each frame when it arrives, not when the next one does.

    A browser shows a part when it has read the headers of the next, so those are sent with it. That leaves no place for
    the length, without which players built on FFmpeg wait for the next part. `painted` tells the two apart.
    """

    def __init__(self, media_type: str, *, painted: bool) -> None:
        self._head = f"--{BOUNDARY}\r\nContent-Type: {media_type}\r\n".encode()
        self._headers_ahead = painted

    @property
    def opening(self) -> bytes:
        """Return the bytes before the first frame."""
        return self._head + b"\r\n" if self._headers_ahead else b""

    def around(self, size: int) -> tuple[bytes, bytes]:
        """Return the bytes before and after a frame of `size` bytes."""
        if self._headers_ahead:
            return b"", b"\r\n" + self._head + b"\r\n"
        return self._head + b"Content-Length: %d\r\n\r\n" % size, b"\r\n"


class FrameStream:
    """A response without an end, as a `Socket` for a `SocketSender`; texts are dropped.

    It is the last response of its connection, of which nothing more is read.
    """

    def __init__(self, protocol: HttpProtocol, parts: Parts, *, chunked: bool) -> None:
        self._protocol = protocol
        self._chunked = chunked
        self._parts = parts
        self._protocol.ignore_received()

    @property
    def ready(self) -> bool:
        """Return whether what is posted goes to the kernel at once."""
        return self._protocol.ready

    def notify_writable(self, on_writable: Callable[[], object] | None) -> None:
        """Call `on_writable` whenever the connection becomes ready again; None ends that."""
        self._protocol.notify_writable(on_writable)

    def post(self, item: str | bytes) -> None:
        """Send a frame without waiting; nothing happens when the connection is closed."""
        if isinstance(item, str):
            return
        before, after = self._parts.around(len(item))
        if self._chunked:
            # Write a chunk as an exchange does, but without a copy (RFC 9112, 7.1).
            before, after = b"%x\r\n%s" % (len(before) + len(item) + len(after), before), after + b"\r\n"
        self._protocol.write(before, item, after)

    def abort(self) -> None:
        """End the connection at once, and drop what is not sent."""
        self._protocol.transport.abort()
