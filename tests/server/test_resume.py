"""A controller that loses its connection and comes back, as the clients of a lobby hear of it."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest

from reactor_runtime.seam import messages as seam
from reactor_runtime.server.connection import Connection, Role
from reactor_runtime.server.encoded import EncodedFrame
from reactor_runtime.server.turn import TurnLimits
from reactor_runtime.wire.media_header import MediaHeader, attach
from reactor_runtime.wire.messages import Event
from tests.server.house import House, told, types

FRAME = EncodedFrame("video", 7, attach(MediaHeader("video", 7, 0, 0), b"\xff\xd8\xff\xd9"), 0.1)


@pytest.fixture
def house() -> Iterator[House]:
    house = House(limits=TurnLimits(resume_grace_s=5))
    yield house
    os.close(house.memory)


async def secret_of(controller: Connection) -> str:
    secret: str = (await told(controller))[0][1]["resume"]
    return secret


async def test_who_comes_back_in_time_finds_session_state_and_picture(house: House) -> None:
    controller, viewer = house.come(), house.come(Role.VIEWER)
    session = house.begin(level=1)
    secret = await secret_of(controller)
    house.say(seam.StateChanged(session, {"level": 2}))
    house.audience.show(FRAME)
    house.lobby.detach(controller, lost=True)
    house.clock.move_to(house.clock.now() + 4.9)
    back = house.come(resume=secret)
    house.clock.move_to(house.clock.now() + 100)
    (kind, welcome), resumed = await told(back)
    assert (kind, welcome["session"], welcome["role"]) == ("reactor.welcome", session, "controller")
    assert (welcome["state"], welcome["resume"]) == ({"level": 2}, secret)
    assert house.hall.session is not None
    assert welcome["upload_key"] == house.hall.session.upload_key
    assert resumed == ("reactor.session", {"phase": "resumed", "session": session})
    assert back.outbox.counters.offered == 1
    assert [data for kind, data in await told(viewer) if kind == "reactor.session"][-2:] == [
        {"phase": "away", "seconds": 5},
        {"phase": "resumed", "session": session},
    ]
    holds = house.engine.of(seam.Hold)
    assert holds == [seam.Hold(session, held=True), seam.Hold(session, held=False)]
    assert not house.engine.of(seam.StopSession)
    house.intake.event(back, Event("set_level", "{}", 1))
    assert house.engine.of(seam.ClientEvent)[-1].client == back.id


async def test_who_begins_to_watch_meanwhile_is_told_how_long_the_controller_is_waited_for(house: House) -> None:
    controller = house.come()
    house.begin()
    house.lobby.detach(controller, lost=True)
    house.clock.move_to(house.clock.now() + 2)
    viewer = house.come(Role.VIEWER)
    assert [data for kind, data in await told(viewer) if kind == "reactor.session"] == [{"phase": "away", "seconds": 3}]


async def test_who_does_not_come_back_has_left(house: House) -> None:
    controller, waiting = house.come(), house.come()
    session = house.begin()
    secret = await secret_of(controller)
    house.lobby.detach(controller, lost=True)
    house.clock.move_to(house.clock.now() + 5)
    assert house.engine.of(seam.StopSession) == [seam.StopSession(session)]
    late = house.come(resume=secret)
    assert await types(late) == ["reactor.queue"]
    house.end()
    assert house.hall.session is not None
    assert house.hall.session.controller is waiting


async def test_who_says_goodbye_is_not_waited_for(house: House) -> None:
    controller = house.come()
    house.begin()
    house.lobby.detach(controller)
    assert house.engine.of(seam.StopSession)


async def test_without_a_grace_there_is_no_secret_and_no_coming_back() -> None:
    house = House()
    controller = house.come()
    house.begin()
    assert await secret_of(controller) is None
    house.lobby.detach(controller, lost=True)
    assert house.engine.of(seam.StopSession)
    os.close(house.memory)


async def test_a_second_connection_with_the_secret_replaces_the_first(house: House) -> None:
    """The server may not know yet that the first one is broken."""
    controller = house.come()
    house.begin()
    secret = await secret_of(controller)
    back = house.come(resume=secret)
    assert controller.closing is not None
    assert controller.closing.code == 1000
    assert list(house.audience) == [back]
    house.lobby.detach(controller, lost=True)
    assert house.hall.session is not None
    assert house.hall.session.controller is back
    assert house.engine.of(seam.Hold) == [seam.Hold(house.session, held=False)]


@pytest.mark.parametrize("wrong", ["", "nonsense", "ünsinn", "\ud800"])
async def test_a_wrong_secret_is_none(house: House, wrong: str) -> None:
    controller = house.come()
    house.begin()
    house.lobby.detach(controller, lost=True)
    assert await types(house.come(resume=wrong)) == ["reactor.queue"]


async def test_only_the_controller_is_told_the_secret_and_every_session_has_another(house: House) -> None:
    first, viewer, waiting = house.come(), house.come(Role.VIEWER), house.come(watches=True)
    house.begin()
    secret = await secret_of(first)
    for other in (viewer, waiting):
        welcome = [data for kind, data in await told(other) if kind == "reactor.welcome"][-1]
        assert (welcome["resume"], welcome["upload_key"]) == (None, None)
    house.lobby.detach(first)
    house.end()
    house.begin()
    assert await secret_of(waiting) not in (None, secret)
    assert await types(house.come(resume=secret)) == ["reactor.queue"]


async def test_answers_to_the_connection_before_are_dropped_and_messages_to_the_client_are_not(house: House) -> None:
    controller = house.come()
    session = house.begin()
    secret = await secret_of(controller)
    house.lobby.detach(controller, lost=True)
    back = house.come(resume=secret)
    await told(back)
    house.say(seam.Answer(session, controller.id, 1, 1))
    house.say(seam.Refusal(session, controller.id, 2, "x", "no", "no"))
    house.say(seam.Refusal(session, controller.id, None, "", "bad_media", "no"))
    house.say(seam.ModelSaid(session, "hello", {}, controller.id))
    house.say(seam.Answer(session, back.id, 1, 2))
    assert await told(back) == [
        ("reactor.error", {"code": "bad_media", "message": "no"}),
        ("hello", {}),
        ("reactor.reply", {"n": 2}),
    ]


async def test_a_session_that_fails_while_its_controller_is_away_is_over(house: House) -> None:
    controller, waiting = house.come(), house.come()
    house.begin()
    secret = await secret_of(controller)
    house.lobby.detach(controller, lost=True)
    house.end("broken")
    assert house.hall.session is not None
    assert house.hall.session.controller is waiting
    assert await types(house.come(resume=secret)) == ["reactor.queue"]
    house.clock.move_to(house.clock.now() + 100)
    assert not house.engine.of(seam.StopSession)


async def test_a_connection_lost_before_the_session_began_ends_it(house: House) -> None:
    house.lobby.detach(house.come(), lost=True)
    assert house.engine.of(seam.StopSession)


async def test_log_lines_of_who_comes_back_say_whose_session_it_is(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    house = House(engines=2, limits=TurnLimits(resume_grace_s=5))
    controller = house.come()
    session = house.begin()
    back = house.come(resume=await secret_of(controller))
    assert back.ids == {"client": back.id, "session": session, "engine": "1"}
    assert controller.ids == {"client": controller.id, "session": session, "engine": "1"}
    house.end()
    os.close(house.memory)
    lines = [
        record for record in caplog.records if record.getMessage().startswith(("session resumed", "session ended"))
    ]
    assert [{key: vars(line)[key] for key in back.ids} for line in lines] == [back.ids, back.ids]
