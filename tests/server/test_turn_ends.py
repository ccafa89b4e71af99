"""Turns that come to an end in time or in silence, as the clients of a lobby hear of it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from reactor_runtime.ipc import messages as ipc
from reactor_runtime.server.delivery.client import Client, Role
from reactor_runtime.server.options import TurnLimits
from reactor_runtime.wire.messages import Event
from reactor_runtime.wire.protocol import CloseCode
from tests.server.admission_fixture import AdmissionFixture, told

LIMITS = TurnLimits(max_session_s=300, idle_timeout_s=120)


@pytest.fixture
def services() -> Iterator[AdmissionFixture]:
    services = AdmissionFixture(limits=LIMITS)
    yield services
    os.close(services.memory)


async def news(client: Client) -> list[tuple[str, float | None]]:
    """Take what a client is told of the end of turns."""
    said = [data for kind, data in await told(client) if kind == "reactor.session"]
    return [(data["phase"], data["seconds"]) for data in said if "seconds" in data]


async def test_limits_are_told_at_the_welcome(services: AdmissionFixture) -> None:
    controller = services.come()
    services.begin()
    limits = (await told(controller))[0][1]["limits"]
    assert (limits["max_session_s"], limits["idle_timeout_s"]) == (300, 120)


async def test_the_end_is_announced_to_all_who_see_it_and_to_those_who_come_later(services: AdmissionFixture) -> None:
    controller, viewer = services.come(), services.come(Role.VIEWER)
    services.begin()
    assert await news(controller) == []
    services.clock.spend(100)
    waiting = services.come(watches=True)
    for client in (controller, viewer, waiting):
        assert await news(client) == [("ending", 200)]
    services.inbound.record_activity(controller)
    services.clock.spend(50)
    assert await news(services.come(Role.VIEWER)) == [("ending", 150)]
    services.admission.detach(waiting)
    assert await news(controller) == [("ending", None)]


async def test_a_turn_that_is_over_is_the_next_one_s(services: AdmissionFixture) -> None:
    controller, waiting = services.come(), services.come()
    session = services.begin()
    for _ in range(3):
        services.clock.move_to(services.clock.now() + 100)
        services.inbound.route_event(controller, Event("set_level", "{}"))
    assert services.engine.of(ipc.StopSession) == [ipc.StopSession(session)]
    assert (await told(controller))[-1][1]["code"] == "not_controller"
    services.end()
    assert (await told(controller))[-1][1]["reason"] == "turn_over"
    assert controller.closing is not None
    assert controller.closing.code == CloseCode.SESSION_OVER
    assert services.slot.session is not None
    assert services.slot.session.controller is waiting
    assert services.slot.failed_in_a_row == 0


async def test_a_session_that_begins_with_others_in_line_says_when_it_ends(services: AdmissionFixture) -> None:
    controller, _ = services.come(), services.come()
    services.clock.spend(50)
    services.begin()
    assert await news(controller) == [("ending", 300)]


async def test_a_silent_controller_alone_is_asked_and_let_go(services: AdmissionFixture) -> None:
    controller, viewer = services.come(), services.come(Role.VIEWER)
    services.begin()
    services.clock.move_to(services.clock.now() + 120)
    assert await news(controller) == [("idle", 30)]
    assert await news(viewer) == []
    services.clock.move_to(services.clock.now() + 30)
    services.end()
    for client in (controller, viewer):
        assert (await told(client))[-1][1]["reason"] == "idle"
    assert controller.closing is not None
    assert controller.closing.code == CloseCode.SESSION_OVER


@pytest.mark.parametrize("sign", ["here", "event", "media"])
async def test_any_sign_keeps_the_turn(services: AdmissionFixture, sign: str) -> None:
    controller = services.come()
    services.begin()
    services.clock.move_to(services.clock.now() + 140)
    await told(controller)
    if sign == "here":
        services.inbound.record_activity(controller)
    elif sign == "event":
        services.inbound.route_event(controller, Event("nonsense", "{}"))
    else:
        services.inbound.route_media(controller, b"nonsense")
    assert await news(controller) == [("idle", None)]
    services.clock.move_to(services.clock.now() + 119)
    assert not services.engine.of(ipc.StopSession)


async def test_a_sign_of_somebody_else_keeps_nothing(services: AdmissionFixture) -> None:
    services.come()
    services.begin()
    others = [services.come(), services.come(Role.VIEWER)]
    for _ in range(15):
        services.clock.move_to(services.clock.now() + 10)
        for other in others:
            services.inbound.record_activity(other)
    assert services.engine.of(ipc.StopSession)


async def test_a_turn_is_not_ended_after_a_crash(services: AdmissionFixture) -> None:
    services.come()
    services.begin()
    services.crash()
    services.clock.move_to(services.clock.now() + 1000)
    assert not services.engine.of(ipc.StopSession)
    assert services.clock.pending == 0
