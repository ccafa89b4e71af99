"""A fan-out whose turns of the loop are the test's, with clients that take what they are given at once."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from reactor_runtime.server.connection import Connection, Role
from reactor_runtime.server.encoded import EncodedFrame, EncodedSound
from reactor_runtime.server.fanout import SLICE_S, Fanout, Said
from reactor_runtime.server.figures import Figures
from reactor_runtime.wire.messages import View
from tests.fakes import FakeClock

COST_S = SLICE_S / 4


class Gallery:
    """A fan-out and its clients; to give one of them something takes a quarter of a slice."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.turns: list[Callable[[], None]] = []
        self.fanout = Fanout(self.clock, self.turns.append)
        self.figures = Figures()
        self.taken: dict[Connection, list[str]] = {}
        self.seqs = itertools.count()

    def seat(self, *, first: bool = False, view: View | None = None) -> Connection:
        """Have one more client, that takes what it is given at once."""
        client = Connection(Role.VIEWER, "127.0.0.1", self.clock, self.figures)
        if view is not None:
            client.view = view
            client.outbox.set_view(view)
        self.taken[client] = []
        client.outbox.news = lambda: self.take(client)
        self.fanout.join(client, first=first)
        return client

    def take(self, client: Connection) -> None:
        while (item := client.outbox.take()[0]) is not None:
            self.clock.spend(COST_S)
            self.taken[client].append(item if isinstance(item, str) else item.decode(errors="replace"))

    def show(self, track: str = "left") -> None:
        seq = next(self.seqs)
        self.fanout.put(EncodedFrame(track, seq, b"%d" % seq, 0.1))

    def play(self) -> None:
        self.fanout.put(EncodedSound("audio", b"sound", 0.02))

    def say(self, text: str, *but: Connection) -> None:
        self.fanout.put(Said(text, but))

    def turn(self) -> None:
        """Let the loop turn once."""
        turns, self.turns[:] = list(self.turns), []
        for turn in turns:
            turn()

    def finish(self) -> None:
        while self.turns:
            self.turn()

    def served(self, crowd: list[Connection]) -> list[int]:
        return [len(self.taken[client]) for client in crowd]
