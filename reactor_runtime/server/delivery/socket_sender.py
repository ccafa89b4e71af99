"""From a client's outbox to its socket: at once where the socket takes it, without a turn of the loop between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from reactor_runtime.clock import Alarm, Clock
from reactor_runtime.server.delivery.outbox import Outbox


class Socket(Protocol):
    """A socket that says whether it takes something now, and calls `resumed` when it does again."""

    resumed: Callable[[], object]

    @property
    def ready(self) -> bool: ...

    def post(self, item: str | bytes) -> None: ...


class SocketSender:
    """Post what the outbox holds whenever the socket is ready; belongs to the server's loop.

    `sent` is told of each item how many seconds it took until the socket was ready for the next.
    """

    def __init__(
        self, outbox: Outbox, socket: Socket, clock: Clock, sent: Callable[[str | bytes, float], object]
    ) -> None:
        self._outbox = outbox
        self._socket = socket
        self._clock = clock
        self._sent = sent
        self._alarm = Alarm(clock)
        self._retry_at: float | None = None
        self._posted: tuple[str | bytes, float] | None = None

    async def run(self) -> None:
        """Send until the outbox is finished and what was left in it is sent."""
        self._outbox.news = self._socket.resumed = self._look
        try:
            while not self._pump():
                await self._alarm.wait(self._retry_at)
        finally:
            self._outbox.news = self._socket.resumed = _nothing  # they refer to this, as this to them

    def _look(self) -> None:
        """Take news; `run` must know only of those that it waits for."""
        if self._pump() or self._retry_at is not None:
            self._alarm.ring()

    def _pump(self) -> bool:
        """Post what may be posted now; True when nothing will ever follow."""
        self._retry_at = None
        while self._socket.ready:
            if self._posted is not None:
                posted, at = self._posted
                self._sent(posted, self._clock.now() - at)
                self._posted = None
            item, self._retry_at = self._outbox.take()
            if item is None:
                return self._outbox.finished
            self._posted = item, self._clock.now()
            self._socket.post(item)
        return False


def _nothing() -> None:
    """Take no news any more."""
