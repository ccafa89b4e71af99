"""The engine's end of the seam: a blocking socket, written by any thread, read by one."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

from reactor_runtime.seam.framing import Framing, encode
from reactor_runtime.seam.messages import Message


class Channel:
    """Send and receive messages over a connected stream socket; `send` waits when the other side doesn't read."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._lock = threading.Lock()
        self._framing = Framing()

    def send(self, message: Message) -> None:
        """Write one message whole; raises OSError when the other side is gone."""
        data = encode(message)
        with self._lock:
            self._socket.sendall(data)

    def __iter__(self) -> Iterator[Message]:
        """Yield messages until the other side closes."""
        while data := self._receive():
            yield from self._framing.feed(data)

    def close(self) -> None:
        self._socket.close()

    def _receive(self) -> bytes:
        try:
            return self._socket.recv(65536)
        except ConnectionError:
            return b""
