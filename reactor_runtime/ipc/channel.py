"""The engine's end of the ipc: a blocking socket, written by any thread and read by one."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

from reactor_runtime.ipc.framing import Framing, encode
from reactor_runtime.ipc.messages import Message
from reactor_runtime.ipc.server_gone import ServerGone


class Channel:
    """Send and receive messages over a connected stream socket; `send` waits while the other side does not read.

    Only this process may hold the socket: with a copy in a child, the server would not notice the end of this process.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._socket.set_inheritable(False)
        self._lock = threading.Lock()
        self._forked = False
        # Whether this end sends nothing more.
        self.finished = False
        self._framing = Framing()

    def send(self, message: Message, slot: int = 0) -> None:
        """Write one whole message; raise ServerGone when it is gone.

        Do nothing in a forked child, and after `finish`.
        """
        data = encode(message, slot)
        with self._lock:
            if not self._forked and not self.finished:
                try:
                    self._socket.sendall(data)
                except ConnectionError as error:
                    raise ServerGone(*error.args) from error

    def close_in_child(self) -> None:
        """Close the socket in a forked child; `os.register_at_fork` calls it there."""
        self._forked = True
        # A thread that does not exist in the child may hold the lock.
        self._lock = threading.Lock()
        self._socket.close()

    def __iter__(self) -> Iterator[tuple[int, Message]]:
        """Yield messages with their slots until the other side closes."""
        while data := self._receive():
            yield from self._framing.feed(data)

    def finish(self) -> None:
        """Send nothing more: the server reads to the end of what was sent, and then closes its end."""
        with self._lock:
            self.finished = True
            # The server may be gone.
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)

    def _receive(self) -> bytes:
        try:
            return self._socket.recv(65536)
        except ConnectionError:
            return b""
