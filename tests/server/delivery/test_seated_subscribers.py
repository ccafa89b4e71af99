"""Subscribers by seats: each client gets the frames of one seat, and what is for all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from reactor_runtime.media import wav
from reactor_runtime.server.delivery.client import Client, Role
from reactor_runtime.server.delivery.options import ClientOptions, RawBytes
from reactor_runtime.server.delivery.seated_subscribers import SeatedSubscribers
from reactor_runtime.server.encoding.encoded import EncodedFrame, EncodedSound
from reactor_runtime.server.encoding.encodings import DEFAULT
from reactor_runtime.wire.containers import WAV, detach
from reactor_runtime.wire.media_header import MediaHeader
from reactor_runtime.wire.messages import View
from tests.fakes import FakeClock, jpeg_frame
from tests.server.admission_fixture import drain

from .test_outbox import take_raw

SILENCE = wav.encode(np.zeros((1, 960), np.int16), 48_000)


class Room:
    """Subscribers of two seats, with a client in each."""

    def __init__(self) -> None:
        self.news: list[tuple[str, Client]] = []
        self.subscribers = SeatedSubscribers(
            on_join=lambda client: self.news.append(("join", client)),
            on_leave=lambda client: self.news.append(("leave", client)),
        )
        self.subscribers.set_seats(2)
        self.clients = [
            Client(Role.CONTROLLER, "127.0.0.1", ClientOptions(FakeClock()), seat=seat) for seat in range(2)
        ]
        for client in self.clients:
            self.subscribers.join(client, controls=True)

    async def received(self, seat: int) -> list[tuple[int, int]]:
        """Return the number and `applied` of the frames and sound that the client in a seat gets."""
        items = [item for item in await drain(self.clients[seat].outbox) if isinstance(item, bytes)]
        headers = [detach(item)[0] for item in items]
        return [(header.seq, header.applied) for header in headers if header is not None]


@pytest.fixture
def room() -> Room:
    return Room()


def shown(seq: int, **values: Any) -> EncodedFrame:
    return replace(jpeg_frame(seq), **values)


async def test_a_frame_goes_to_the_clients_of_its_seat(room: Room) -> None:
    room.subscribers.show_frame(shown(1, seat=0, applied=(0, 0)))
    room.subscribers.show_frame(shown(1, seat=1, applied=(0, 0)))
    room.subscribers.show_frame(shown(2, seat=1, applied=(0, 0)))
    assert await room.received(0) == [(1, 0)]
    assert await room.received(1) == [(2, 0)]


async def test_a_frame_for_all_has_the_number_and_the_applied_events_of_each_seat(room: Room) -> None:
    room.subscribers.show_frame(shown(5, applied=(0, 7), seqs=(5, 3)))
    assert await room.received(0) == [(5, 0)]
    assert await room.received(1) == [(3, 7)]


async def test_a_client_that_changes_its_seat_gets_no_frame_that_waited_for_it_in_the_former_one(room: Room) -> None:
    room.subscribers.show_frame(shown(7, seat=0, applied=(0, 0)))
    room.clients[0].seat = 1
    room.subscribers.join(room.clients[0], controls=True)
    assert await room.received(0) == []


async def test_sound_for_all_has_the_number_and_the_applied_events_of_each_seat(room: Room) -> None:
    sound = EncodedSound(MediaHeader("voice", 5, 0, 0), WAV.attach(MediaHeader("voice", 5, 0, 0), SILENCE), 0.02)
    room.subscribers.play_sound(replace(sound, applied=(0, 7), seqs=(5, 3)))
    room.subscribers.play_sound(replace(sound, seat=1, applied=(0, 7), seqs=(5,)))
    assert await room.received(0) == [(5, 0)]
    assert await room.received(1) == [(3, 7), (5, 0)]


async def test_a_message_goes_to_all_or_to_one_seat(room: Room) -> None:
    room.subscribers.send_message("all", {})
    room.subscribers.send_message("one", {}, seat=1)
    texts = [[item for item in await drain(client.outbox) if isinstance(item, str)] for client in room.clients]
    assert [len(each) for each in texts] == [1, 2]


async def test_sound_goes_to_its_seat_or_to_all(room: Room) -> None:
    header = MediaHeader("voice", 0, 0, 0)
    for seat in (None, 1):
        room.subscribers.play_sound(EncodedSound(header, b"RIFF", 0.02, seat))
    assert [len(await drain(client.outbox)) for client in room.clients] == [1, 2]


async def test_the_rungs_in_use_are_those_of_a_seat_or_of_all(room: Room) -> None:
    room.clients[1].outbox.track_sender("video").ladder.rung = 3
    assert room.subscribers.rungs_in_use("video", 0) == {DEFAULT: [0]}
    assert room.subscribers.rungs_in_use("video", 1) == {DEFAULT: [3]}
    assert room.subscribers.rungs_in_use("video", None) == {DEFAULT: [0, 3]}
    room.subscribers.leave(room.clients[0])
    assert room.subscribers.rungs_in_use("video", 0) == {}
    assert room.subscribers.rungs_in_use("video", None) == {DEFAULT: [3]}


async def test_a_client_that_takes_another_seat_gets_the_latest_frame_there(room: Room) -> None:
    room.subscribers.show_frame(shown(4, seat=0, applied=(0, 0)))
    client = room.clients[1]
    assert await room.received(1) == []
    client.seat = 0
    room.subscribers.join(client)
    assert await room.received(1) == [(4, 0)]
    room.subscribers.leave(client)
    assert client not in room.subscribers
    assert [what for what, _ in room.news] == ["join", "join", "join", "leave"]


async def test_with_fewer_seats_the_clients_of_the_others_leave(room: Room) -> None:
    room.subscribers.set_seats(1)
    assert list(room.subscribers) == room.clients[:1]
    assert room.news[-1] == ("leave", room.clients[1])


async def test_unread_raw_frames_are_limited_except_for_controllers() -> None:
    clock = FakeClock()
    options = ClientOptions(clock, raw_bytes=RawBytes(10))
    subscribers = SeatedSubscribers()
    player, waiting, viewer = clients = [
        Client(role, f"192.0.2.{number}", options, watches=True)
        for number, role in enumerate((Role.CONTROLLER, Role.CONTROLLER, Role.VIEWER))
    ]
    for client in clients:
        client.outbox.set_view(View(codecs=("raw",)))
        subscribers.join(client, controls=client is player)
    assert take_raw(waiting.outbox, 0, clock)
    # Also after it has joined again, as when it changes its seat: its socket has not taken the frame.
    subscribers.join(waiting)
    assert take_raw(viewer.outbox, 0, clock) is None
    assert take_raw(player.outbox, 0, clock)
    # A client that gets a session counts no longer.
    subscribers.join(waiting, controls=True)
    assert take_raw(viewer.outbox, 1, clock)
    assert take_raw(waiting.outbox, 1, clock)
