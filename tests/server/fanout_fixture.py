"""A fan-out whose turns of the loop the test runs, with clients that take each item at once."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from reactor_runtime.server.delivery.client import Client, Role
from reactor_runtime.server.delivery.fanout import SLICE_S, Broadcast, Fanout
from reactor_runtime.server.delivery.options import ClientOptions
from reactor_runtime.server.encoding.encoded import EncodedSound, MediaFile
from reactor_runtime.server.telemetry.metrics import Metrics
from reactor_runtime.wire.media_header import MediaHeader
from reactor_runtime.wire.messages import View
from tests.fakes import FakeClock, frame_of

COST_S = SLICE_S / 4


class FanoutFixture:
    """A fan-out and its clients; each item that a client takes costs a quarter of a slice."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.turns: list[Callable[[], None]] = []
        self.fanout = Fanout(self.clock, self.turns.append)
        self.metrics = Metrics()
        self.taken: dict[Client, list[str]] = {}
        self.seqs = itertools.count()

    def add_client(self, *, first: bool = False, view: View | None = None) -> Client:
        """Add a client that takes each item at once."""
        client = Client(Role.VIEWER, "127.0.0.1", ClientOptions(self.clock, self.metrics))
        if view is not None:
            client.outbox.set_view(view)
        self.taken[client] = []
        client.outbox.notify_queued(lambda: self.take_all(client))
        self.fanout.join(client, first=first)
        return client

    def take_all(self, client: Client) -> None:
        while (item := client.outbox.take_next()[0]) is not None:
            self.clock.spend(COST_S)
            sent = item.data if isinstance(item, MediaFile) else item
            self.taken[client].append(sent if isinstance(sent, str) else sent.decode(errors="replace"))

    def show_frame(self, track: str = "left") -> None:
        seq = next(self.seqs)
        self.fanout.publish(frame_of(seq, b"%d" % seq, track))

    def play_sound(self) -> None:
        self.fanout.publish(EncodedSound(MediaHeader("audio", 0, 0, 0), b"sound", 0.02))

    def broadcast(self, text: str, *but: Client) -> None:
        self.fanout.publish(Broadcast(text, but))

    def run_turn(self) -> None:
        """Run one turn of the loop."""
        turns, self.turns[:] = list(self.turns), []
        for turn in turns:
            turn()

    def run_all_turns(self) -> None:
        while self.turns:
            self.run_turn()

    def counts(self, clients: list[Client]) -> list[int]:
        return [len(self.taken[client]) for client in clients]
