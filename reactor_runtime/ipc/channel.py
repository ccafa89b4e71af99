"""The engine's end of the seam: a blocking socket, written by any thread, read by one."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

from reactor_runtime.ipc.framing import Framing, encode
from reactor_runtime.ipc.messages import Message


class Channel:
    """Send and receive messages over a connected stream socket; `send` waits when the other side doesn't read.

    It belongs to this process alone: while any other held the socket, the other side would not learn of our end.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._socket.set_inheritable(False)
        self._lock = threading.Lock()
        self._forked = self._closed = False
        self._framing = Framing()

    def send(self, message: Message) -> None:
        """Write one message whole; raises OSError when the other side is gone. In a forked child nothing happens."""
        data = encode(message)
        with self._lock:
            if not self._forked:
                self._socket.sendall(data)

    def forked(self) -> None:
        """Let go of the socket in a child that was forked off; `os.register_at_fork` calls it there."""
        self._forked = True
        self._lock = threading.Lock()  # a thread that exists in the parent alone may have held the other
        self._socket.close()

    def __iter__(self) -> Iterator[Message]:
        """Yield messages until the other side closes."""
        while data := self._receive():
            yield from self._framing.feed(data)

    def close(self) -> None:
        self._closed = True
        self._socket.close()

    def _receive(self) -> bytes:
        try:
            return self._socket.recv(65536)
        except OSError as error:
            if self._closed or isinstance(error, ConnectionError):
                return b""
            raise
