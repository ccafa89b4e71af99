"""The server's end of the ipc: a socket read and written by the event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from typing import cast

from reactor_runtime.ipc.framing import Framing, encode_parts
from reactor_runtime.ipc.messages import Message, ToEngine

MOST_BACKLOG_BYTES = 4 << 20
MOST_A_TURN = 200


class Link(asyncio.Protocol):
    """Call `receive` with each message of the engine; the future `lost` is done when the engine closes its end."""

    def __init__(self, receive: Callable[[Message], None]) -> None:
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._receive = receive
        self._framing = Framing()
        self._transport: asyncio.Transport | None = None
        self._rest: Iterator[Message] = iter(())

    @classmethod
    async def open(cls, sock: socket.socket, receive: Callable[[Message], None]) -> Link:
        """Open a link on one end of a socket pair."""
        _, link = await asyncio.get_running_loop().create_connection(lambda: cls(receive), sock=sock)
        return link

    @property
    def backlogged(self) -> bool:
        """Return whether the engine has not read more than 4 MiB, so that callers should refuse what they can."""
        return self._transport is not None and self._transport.get_write_buffer_size() > MOST_BACKLOG_BYTES

    def send(self, message: ToEngine) -> None:
        """Write a message without waiting; do nothing if the connection is closed."""
        if self._transport is not None and not self._transport.is_closing():
            head, file = encode_parts(message)
            self._transport.write(head)
            if file:
                # Joined with the head, 16 MiB would be copied on the loop.
                self._transport.write(file)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have no base class to check.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._rest = self._framing.feed(data)
        self._deliver()

    def _deliver(self) -> None:
        """Deliver up to 200 messages, then yield to the loop, so that a burst does not delay the clients' sockets."""
        for count, message in enumerate(self._rest, 1):
            self._receive(message)
            if count == MOST_A_TURN and self._transport is not None:
                self._transport.pause_reading()
                asyncio.get_running_loop().call_soon(self._resume)
                return

    def _resume(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
            self._deliver()

    # asyncio defines the parameters.
    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        for message in self._rest:
            self._receive(message)
        if not self.lost.done():
            self.lost.set_result(None)
