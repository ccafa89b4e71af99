"""Pings of a WebSocket: a client that answers none for 20 s has gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

PING_S = 5.0
NO_PONG_S = 20.0


class Pings:
    """Send a ping every 5 s, and call `on_silence` when the oldest without an answer is 20 s old."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        send: Callable[[bytes], object],
        flush: Callable[[], object],
        on_silence: Callable[[], object],
    ) -> None:
        self._loop = loop
        self._send = send
        self._flush = flush
        self._on_silence = on_silence
        self._sent = self._answered = 0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._timer = self._loop.call_later(PING_S, self._ping)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        # They refer to the connection, which refers to this object.
        self._send = self._flush = self._on_silence = _nothing

    def on_pong(self, content: bytes) -> None:
        """Stop waiting for this answer and for those to all earlier pings."""
        number = int.from_bytes(content)
        if number <= self._sent:
            self._answered = max(self._answered, number)

    def _ping(self) -> None:
        if (self._sent - self._answered) * PING_S >= NO_PONG_S:
            self._on_silence()
            return
        self._sent += 1
        self._send(self._sent.to_bytes(4))
        self._flush()
        self.start()


def _nothing(*_: object) -> None: ...
