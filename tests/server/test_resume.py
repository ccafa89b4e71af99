"""A controller that loses its connection and comes back, as the clients of a lobby hear of it."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest

from reactor_runtime.ipc import messages as ipc
from reactor_runtime.server.delivery.client import Client, Role
from reactor_runtime.server.options import TurnLimits
from reactor_runtime.wire.messages import Event
from tests.fakes import jpeg_frame
from tests.server.admission_fixture import AdmissionFixture, told, types

FRAME = jpeg_frame(7)


@pytest.fixture
def services() -> Iterator[AdmissionFixture]:
    services = AdmissionFixture(limits=TurnLimits(resume_grace_s=5))
    yield services
    os.close(services.memory)


async def secret_of(controller: Client) -> str:
    secret: str = (await told(controller))[0][1]["resume"]
    return secret


async def test_who_comes_back_in_time_finds_session_state_and_picture(services: AdmissionFixture) -> None:
    controller, viewer = services.come(), services.come(Role.VIEWER)
    session = services.begin(level=1)
    former = (await told(controller))[0][1]
    secret = former["resume"]
    services.say(ipc.StateChanged(session, {"level": 2}))
    services.subscribers.show_frame(FRAME)
    services.admission.detach(controller, lost=True)
    services.clock.move_to(services.clock.now() + 4.9)
    back = services.come(resume=secret)
    services.clock.move_to(services.clock.now() + 100)
    (kind, welcome), resumed = await told(back)
    assert (kind, welcome["session"], welcome["role"]) == ("reactor.welcome", session, "controller")
    assert (welcome["state"], welcome["resume"]) == ({"level": 2}, secret)
    assert welcome["upload_key"] == former["upload_key"]
    assert resumed == ("reactor.session", {"phase": "resumed", "session": session})
    assert back.outbox.counters.offered == 1
    assert [data for kind, data in await told(viewer) if kind == "reactor.session"][-2:] == [
        {"phase": "away", "seconds": 5},
        {"phase": "resumed", "session": session},
    ]
    pauses = services.engine.of(ipc.Pause)
    assert pauses == [ipc.Pause(session, paused=True), ipc.Pause(session, paused=False)]
    assert not services.engine.of(ipc.StopSession)
    services.inbound.route_event(back, Event("set_level", "{}", 1))
    assert services.engine.of(ipc.ClientEvent)[-1].client == back.id


async def test_who_begins_to_watch_meanwhile_is_told_how_long_the_controller_is_waited_for(
    services: AdmissionFixture,
) -> None:
    controller = services.come()
    services.begin()
    services.admission.detach(controller, lost=True)
    services.clock.move_to(services.clock.now() + 2)
    viewer = services.come(Role.VIEWER)
    assert [data for kind, data in await told(viewer) if kind == "reactor.session"] == [{"phase": "away", "seconds": 3}]


async def test_who_does_not_come_back_has_left(services: AdmissionFixture) -> None:
    controller, waiting = services.come(), services.come()
    session = services.begin()
    secret = await secret_of(controller)
    services.admission.detach(controller, lost=True)
    services.clock.move_to(services.clock.now() + 5)
    assert services.engine.of(ipc.StopSession) == [ipc.StopSession(session)]
    late = services.come(resume=secret)
    assert await types(late) == ["reactor.queue"]
    services.end()
    assert services.slot.session is not None
    assert services.slot.session.controller is waiting


@pytest.mark.parametrize("grace_s", [0.0, 5.0])
async def test_a_session_ends_as_broken_only_if_its_controller_lost_the_connection_and_did_not_resume(
    grace_s: float,
) -> None:
    services = AdmissionFixture(limits=TurnLimits(resume_grace_s=grace_s))
    for lost in (True, False):
        controller = services.come()
        session = services.begin()
        secret = await secret_of(controller)
        services.admission.detach(controller, lost=True)
        if not lost and grace_s:
            services.admission.detach(services.come(resume=secret))
        services.clock.move_to(services.clock.now() + grace_s)
        services.end()
        assert services.slot.last_end == (session, "left", lost or not grace_s)
    services.admission.detach(services.come(), lost=True)
    services.begin()
    services.end("broken")
    assert services.slot.last_end.reason == "model_error"
    assert not services.slot.last_end.is_broken
    os.close(services.memory)


async def test_who_says_goodbye_is_not_waited_for(services: AdmissionFixture) -> None:
    controller = services.come()
    services.begin()
    services.admission.detach(controller)
    assert services.engine.of(ipc.StopSession)


async def test_without_a_grace_there_is_no_secret_and_no_coming_back() -> None:
    services = AdmissionFixture()
    controller = services.come()
    services.begin()
    assert await secret_of(controller) is None
    services.admission.detach(controller, lost=True)
    assert services.engine.of(ipc.StopSession)
    os.close(services.memory)


async def test_a_second_connection_with_the_secret_replaces_the_first(services: AdmissionFixture) -> None:
    """The server may not know yet that the first one is broken."""
    controller = services.come()
    services.begin()
    secret = await secret_of(controller)
    back = services.come(resume=secret)
    assert controller.closing is not None
    assert controller.closing.code == 1000
    assert list(services.subscribers) == [back]
    services.admission.detach(controller, lost=True)
    assert services.slot.session is not None
    assert services.slot.session.controller is back
    assert services.engine.of(ipc.Pause) == [ipc.Pause(services.session, paused=False)]


@pytest.mark.parametrize("wrong", ["", "nonsense", "ünsinn", "\ud800"])
async def test_a_wrong_secret_is_none(services: AdmissionFixture, wrong: str) -> None:
    controller = services.come()
    services.begin()
    services.admission.detach(controller, lost=True)
    assert await types(services.come(resume=wrong)) == ["reactor.queue"]


async def test_only_the_controller_is_told_the_secret_and_every_session_has_another(services: AdmissionFixture) -> None:
    first, viewer, waiting = services.come(), services.come(Role.VIEWER), services.come(watches=True)
    services.begin()
    secret = await secret_of(first)
    for other in (viewer, waiting):
        welcome = [data for kind, data in await told(other) if kind == "reactor.welcome"][-1]
        assert (welcome["resume"], welcome["upload_key"]) == (None, None)
    services.admission.detach(first)
    services.end()
    services.begin()
    assert await secret_of(waiting) not in (None, secret)
    assert await types(services.come(resume=secret)) == ["reactor.queue"]


async def test_answers_to_the_connection_before_are_dropped_and_messages_to_the_client_are_not(
    services: AdmissionFixture,
) -> None:
    controller = services.come()
    session = services.begin()
    secret = await secret_of(controller)
    services.admission.detach(controller, lost=True)
    back = services.come(resume=secret)
    await told(back)
    services.say(ipc.EventApplied(session, controller.id, 1, 1))
    services.say(ipc.EventRefused(session, controller.id, 2, "x", "no", "no"))
    services.say(ipc.EventRefused(session, controller.id, None, "", "bad_media", "no"))
    services.say(ipc.MessageSent(session, "hello", {}, controller.id))
    services.say(ipc.EventApplied(session, back.id, 1, 2))
    assert await told(back) == [
        ("reactor.error", {"code": "bad_media", "message": "no"}),
        ("hello", {}),
        ("reactor.reply", {"n": 2}),
    ]


async def test_a_session_that_fails_while_its_controller_is_away_is_over(services: AdmissionFixture) -> None:
    controller, waiting = services.come(), services.come()
    services.begin()
    secret = await secret_of(controller)
    services.admission.detach(controller, lost=True)
    services.end("broken")
    assert services.slot.session is not None
    assert services.slot.session.controller is waiting
    assert await types(services.come(resume=secret)) == ["reactor.queue"]
    services.clock.move_to(services.clock.now() + 100)
    assert not services.engine.of(ipc.StopSession)


async def test_a_connection_lost_before_the_session_began_ends_it(services: AdmissionFixture) -> None:
    services.admission.detach(services.come(), lost=True)
    assert services.engine.of(ipc.StopSession)


async def test_log_lines_of_who_comes_back_say_whose_session_it_is(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    services = AdmissionFixture(engines=2, limits=TurnLimits(resume_grace_s=5))
    controller = services.come()
    session = services.begin()
    back = services.come(resume=await secret_of(controller))
    assert back.ids == {"client": back.id, "session": session, "engine": "1"}
    assert controller.ids == {"client": controller.id, "session": session, "engine": "1"}
    services.end()
    os.close(services.memory)
    lines = [
        record for record in caplog.records if record.getMessage().startswith(("session resumed", "session ended"))
    ]
    assert [{key: vars(line)[key] for key in back.ids} for line in lines] == [back.ids, back.ids]
