"""Sends what a client's outbox holds as fast as its socket takes it, in the same turn of the loop where possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from reactor_runtime.clock import Alarm, Clock
from reactor_runtime.server.delivery.outbox import Item, Outbox
from reactor_runtime.server.encoding.encoded import MediaFile


class Socket(Protocol):
    """A connection that takes items while it is `ready`."""

    @property
    def ready(self) -> bool: ...

    def post(self, item: str | bytes) -> None: ...

    def notify_writable(self, on_writable: Callable[[], object] | None) -> None:
        """Call `on_writable` whenever the socket becomes ready again; None ends that."""


class SocketSender:
    """Post what the outbox holds whenever the socket is ready; belongs to the server's loop.

    Calls `on_item_sent` with each item and the seconds until the socket was ready for the next one.
    """

    def __init__(
        self, outbox: Outbox, socket: Socket, clock: Clock, on_item_sent: Callable[[Item, float], object]
    ) -> None:
        self._outbox = outbox
        self._socket = socket
        self._clock = clock
        self._on_item_sent = on_item_sent
        self._alarm = Alarm(clock)
        self._retry_at: float | None = None
        self._posted: tuple[Item, float] | None = None

    async def run(self) -> None:
        """Send until the outbox is finished and its last message is sent."""
        self._outbox.notify_queued(self._send_ready)
        self._socket.notify_writable(self._send_ready)
        try:
            while not self._post_ready():
                await self._alarm.wait(self._retry_at)
        finally:
            # The callbacks and this object refer to each other.
            self._outbox.notify_queued(None)
            self._socket.notify_writable(None)

    def _send_ready(self) -> None:
        """Post what may be sent now; wake `run` only to end, or to wait for another time."""
        if self._post_ready() or self._retry_at is not None:
            self._alarm.ring()

    def _post_ready(self) -> bool:
        """Post what may be sent now; return True when nothing more will follow."""
        self._retry_at = None
        while self._socket.ready:
            if self._posted is not None:
                posted, at = self._posted
                self._on_item_sent(posted, self._clock.now() - at)
                self._posted = None
            item, self._retry_at = self._outbox.take_next()
            if item is None:
                return self._outbox.finished
            self._posted = item, self._clock.now()
            self._socket.post(item.data if isinstance(item, MediaFile) else item)
        return False
