from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from reactor_runtime.server.net.pings import NO_PONG_S, PING_S, Pings


class Pinged:
    """A loop whose time the test moves, and what was sent."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.flushed = self.silences = 0
        self._next: Callable[[], object] | None = None
        self.pings = Pings(cast("asyncio.AbstractEventLoop", self), self.sent.append, self._flush, self._on_silence)
        self.pings.start()

    def call_later(self, delay: float, callback: Callable[[], object]) -> Pinged:
        assert delay == PING_S
        self._next = callback
        return self

    def cancel(self) -> None:
        self._next = None

    def advance(self, seconds: float) -> None:
        for _ in range(round(seconds / PING_S)):
            due, self._next = self._next, None
            if due is not None:
                due()

    def _flush(self) -> None:
        self.flushed += 1

    def _on_silence(self) -> None:
        self.silences += 1


def test_a_client_that_answers_is_pinged_every_5_s() -> None:
    pinged = Pinged()
    for number in range(1, 100):
        pinged.advance(PING_S)
        assert (len(pinged.sent), pinged.flushed) == (number, number)
        pinged.pings.on_pong(pinged.sent[-1])
    assert pinged.silences == 0


def test_a_client_without_a_pong_for_20_s_is_silent() -> None:
    pinged = Pinged()
    pinged.advance(PING_S)
    pinged.advance(NO_PONG_S - PING_S)
    assert pinged.silences == 0
    pinged.advance(PING_S)
    assert (pinged.silences, len(pinged.sent)) == (1, 4)


def test_a_pong_for_any_ping_answers_those_before_it() -> None:
    pinged = Pinged()
    pinged.advance(NO_PONG_S)
    pinged.pings.on_pong(pinged.sent[2])
    pinged.advance(NO_PONG_S - PING_S)
    assert pinged.silences == 0
    pinged.advance(PING_S)
    assert pinged.silences == 1


def test_a_pong_without_a_ping_answers_nothing() -> None:
    pinged = Pinged()
    pinged.pings.on_pong(b"\xff\xff\xff\xff")
    pinged.pings.on_pong(b"")
    pinged.pings.on_pong(bytes(125))
    pinged.advance(NO_PONG_S + PING_S)
    assert pinged.silences == 1


def test_nothing_is_sent_after_the_end() -> None:
    pinged = Pinged()
    pinged.pings.stop()
    pinged.pings.stop()
    pinged.advance(PING_S)
    assert pinged.sent == []
