"""Turns that come to an end in time or in silence, as the clients of a lobby hear of it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from reactor_runtime.seam import messages as seam
from reactor_runtime.server.connection import Connection, Role
from reactor_runtime.server.turn import TurnLimits
from reactor_runtime.wire.messages import Event
from reactor_runtime.wire.protocol import CloseCode
from tests.server.house import House, told

LIMITS = TurnLimits(max_session_s=300, idle_timeout_s=120)


@pytest.fixture
def house() -> Iterator[House]:
    house = House(limits=LIMITS)
    yield house
    os.close(house.memory)


async def news(connection: Connection) -> list[tuple[str, float | None]]:
    """Take what a client is told of the end of turns."""
    said = [data for kind, data in await told(connection) if kind == "reactor.session"]
    return [(data["phase"], data["seconds"]) for data in said if "seconds" in data]


async def test_limits_are_told_at_the_welcome(house: House) -> None:
    controller = house.come()
    house.begin()
    limits = (await told(controller))[0][1]["limits"]
    assert (limits["max_session_s"], limits["idle_timeout_s"]) == (300, 120)


async def test_the_end_is_announced_to_all_who_see_it_and_to_those_who_come_later(house: House) -> None:
    controller, viewer = house.come(), house.come(Role.VIEWER)
    house.begin()
    assert await news(controller) == []
    house.clock.spend(100)
    waiting = house.come(watches=True)
    for connection in (controller, viewer, waiting):
        assert await news(connection) == [("ending", 200)]
    house.intake.here(controller)
    house.clock.spend(50)
    assert await news(house.come(Role.VIEWER)) == [("ending", 150)]
    house.lobby.detach(waiting)
    assert await news(controller) == [("ending", None)]


async def test_a_turn_that_is_over_is_the_next_one_s(house: House) -> None:
    controller, waiting = house.come(), house.come()
    session = house.begin()
    for _ in range(3):
        house.clock.move_to(house.clock.now() + 100)
        house.intake.event(controller, Event("set_level", "{}"))
    assert house.engine.of(seam.StopSession) == [seam.StopSession(session)]
    assert (await told(controller))[-1][1]["code"] == "not_controller"
    house.end()
    assert (await told(controller))[-1][1]["reason"] == "turn_over"
    assert controller.closing is not None
    assert controller.closing.code == CloseCode.SESSION_OVER
    assert house.hall.session is not None
    assert house.hall.session.controller is waiting
    assert house.hall.failed_in_a_row == 0


async def test_a_session_that_begins_with_others_in_line_says_when_it_ends(house: House) -> None:
    controller, _ = house.come(), house.come()
    house.clock.spend(50)
    house.begin()
    assert await news(controller) == [("ending", 300)]


async def test_a_silent_controller_alone_is_asked_and_let_go(house: House) -> None:
    controller, viewer = house.come(), house.come(Role.VIEWER)
    house.begin()
    house.clock.move_to(house.clock.now() + 120)
    assert await news(controller) == [("idle", 30)]
    assert await news(viewer) == []
    house.clock.move_to(house.clock.now() + 30)
    house.end()
    for connection in (controller, viewer):
        assert (await told(connection))[-1][1]["reason"] == "idle"
    assert controller.closing is not None
    assert controller.closing.code == CloseCode.SESSION_OVER


@pytest.mark.parametrize("sign", ["here", "event", "media"])
async def test_any_sign_keeps_the_turn(house: House, sign: str) -> None:
    controller = house.come()
    house.begin()
    house.clock.move_to(house.clock.now() + 140)
    await told(controller)
    if sign == "here":
        house.intake.here(controller)
    elif sign == "event":
        house.intake.event(controller, Event("nonsense", "{}"))
    else:
        house.intake.media(controller, b"nonsense")
    assert await news(controller) == [("idle", None)]
    house.clock.move_to(house.clock.now() + 119)
    assert not house.engine.of(seam.StopSession)


async def test_a_sign_of_somebody_else_keeps_nothing(house: House) -> None:
    house.come()
    house.begin()
    others = [house.come(), house.come(Role.VIEWER)]
    for _ in range(15):
        house.clock.move_to(house.clock.now() + 10)
        for other in others:
            house.intake.here(other)
    assert house.engine.of(seam.StopSession)


async def test_a_turn_is_not_ended_after_a_crash(house: House) -> None:
    house.come()
    house.begin()
    house.crash()
    house.clock.move_to(house.clock.now() + 1000)
    assert not house.engine.of(seam.StopSession)
    assert house.clock.pending == 0
