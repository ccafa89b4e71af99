"""What those in line see of the session that is running, and what of their own when it is their turn."""

from __future__ import annotations

import json

from reactor_runtime.seam import messages as seam
from reactor_runtime.server.connection import Connection, Role
from reactor_runtime.server.encoded import EncodedFrame
from reactor_runtime.wire.media_header import FrameFlag, MediaHeader, attach, detach
from reactor_runtime.wire.messages import Event
from tests.server.house import House, drain, told

FILE = b"\xff\xd8\xff\xd9"


def picture(seq: int) -> EncodedFrame:
    return EncodedFrame("video", seq, attach(MediaHeader("video", seq, 0, 0), FILE), 0.1)


async def seen(connection: Connection) -> list[tuple[int, bool]]:
    """Take what waits for a client, and tell number and mark of each picture among it."""
    headers = [detach(item)[0] for item in await drain(connection.outbox) if isinstance(item, bytes)]
    return [(header.seq, bool(header.flags & FrameFlag.HELD)) for header in headers if header is not None]


async def roles(connection: Connection) -> list[tuple[str, str]]:
    """Tell as what a client was welcomed, and what it heard of sessions."""
    spoken = {"reactor.welcome": "role", "reactor.session": "phase"}
    return [(kind, data[spoken[kind]]) for kind, data in await told(connection) if kind in spoken]


async def test_who_waits_sees_what_is_on_screen_and_all_that_follows(house: House) -> None:
    house.come()
    house.begin(level=3)
    house.audience.show(picture(1))
    waiting = house.come(watches=True)
    assert await seen(waiting) == [(1, True)]
    house.audience.show(picture(2))
    house.say(seam.StateChanged(house.session, {"level": 4}))
    house.say(seam.ModelSaid(house.session, "progress", {"step": 1}))
    *_, (kind, state), said = await told(waiting)
    assert (kind, state, said) == ("reactor.state", {"level": 4}, ("progress", {"step": 1}))
    (_, welcome) = (await told(house.come(watches=True)))[-1]
    assert (welcome["role"], welcome["session"], welcome["state"]) == ("viewer", house.session, {"level": 4})


async def test_who_waits_without_watching_is_told_its_place_and_nothing_of_the_others(house: House) -> None:
    house.come()
    house.begin()
    waiting = house.come()
    house.audience.show(picture(1))
    house.say(seam.ModelSaid(house.session, "progress", {"step": 1}))
    house.hall.tell_statistics(house.clock.now())
    house.end()
    assert [item if isinstance(item, bytes) else json.loads(item)["type"] for item in await drain(waiting.outbox)] == [
        "reactor.queue"
    ]


async def test_who_waits_is_welcomed_as_viewer_and_as_controller_when_it_is_its_turn(house: House) -> None:
    first = house.come()
    house.begin()
    second, third = house.come(watches=True), house.come(watches=True)
    assert await roles(second) == [("reactor.welcome", "viewer")]
    assert await roles(third) == [("reactor.welcome", "viewer")]
    house.lobby.detach(first)
    house.end()
    house.begin()
    assert await roles(second) == [("reactor.welcome", "controller"), ("reactor.session", "started")]
    assert await roles(third) == [("reactor.welcome", "viewer")]
    assert house.hall.session is not None
    assert house.hall.session.controller is second


async def test_a_session_that_ends_or_fails_is_no_news_to_who_waits(house: House) -> None:
    house.come()
    waiting, last = house.come(watches=True), house.come(watches=True)
    house.begin()
    await told(waiting), await told(last)
    house.end("KeyError: 'x'")
    assert [kind for kind, _ in await told(waiting)] == []
    assert [kind for kind, _ in await told(last)] == ["reactor.queue"]


async def test_the_last_picture_of_the_session_watched_does_not_come_in_one_s_own(house: House) -> None:
    first, second, viewer = house.come(), house.come(watches=True), house.come(Role.VIEWER)
    house.begin()
    house.audience.show(picture(9))
    house.lobby.detach(first)
    house.end()
    house.begin()
    house.audience.show(picture(0))
    assert await seen(second) == [(0, False)]
    assert await seen(viewer) == [(0, False)]


async def test_who_waits_sends_nothing_to_the_model(house: House) -> None:
    house.come()
    house.begin()
    waiting = house.come()
    house.intake.event(waiting, Event("set_level", "{}", 5))
    (kind, error) = (await told(waiting))[-1]
    assert (kind, error["code"]) == ("reactor.error", "not_controller")
    assert "your turn" in error["message"]


async def test_who_leaves_the_line_sees_nothing_more(house: House) -> None:
    house.come()
    house.begin()
    waiting = house.come(watches=True)
    assert waiting in house.audience
    house.lobby.detach(waiting)
    assert waiting not in house.audience
