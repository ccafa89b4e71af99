"""Frames as one multipart/x-mixed-replace body: JPEG after JPEG, each in a part of its own (RFC 2046, 5.1)."""

from __future__ import annotations

BOUNDARY = "frame"
MEDIA_TYPE = f"multipart/x-mixed-replace; boundary={BOUNDARY}"

_HEAD = b"--frame\r\nContent-Type: image/jpeg\r\n"


def is_painted(accept: str) -> bool:
    """Tell a browser, which paints each frame in whatever size it has, from players and recorders."""
    return "image/" in accept


class Parts:
    """Write the parts so that this client shows each frame when it has come, not when the next one comes.

    A browser shows a part when it has read the headers of the next, so those are sent along; that leaves no place for a
    length, without which players built on FFmpeg wait for the next part. `is_painted` tells the two apart.
    """

    def __init__(self, *, painted: bool) -> None:
        self._headers_ahead = painted

    @property
    def opening(self) -> bytes:
        """What precedes the first frame."""
        return _HEAD + b"\r\n" if self._headers_ahead else b""

    def around(self, size: int) -> tuple[bytes, bytes]:
        """Give what goes before and after a frame of `size` bytes."""
        if self._headers_ahead:
            return b"", b"\r\n" + _HEAD + b"\r\n"
        return _HEAD + b"Content-Length: %d\r\n\r\n" % size, b"\r\n"
