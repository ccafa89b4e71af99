from __future__ import annotations

import os

import pytest

from reactor_runtime.errors import Location, ReactorError, to_json
from reactor_runtime.media import jpeg
from reactor_runtime.seam import messages as seam
from reactor_runtime.server.connection import Role
from reactor_runtime.server.encoded import EncodedFrame
from reactor_runtime.server.health import health_status
from reactor_runtime.server.lobby import close
from reactor_runtime.server.session import MOST_EARLY
from reactor_runtime.server.supervisor import EnginePhase
from reactor_runtime.wire.media_header import MediaHeader, attach
from reactor_runtime.wire.messages import Event
from reactor_runtime.wire.protocol import CloseCode
from tests.engine.rig import frame as pixels
from tests.server.house import House, phases, places, told, types

FRAME = EncodedFrame("video", 1, attach(MediaHeader("video", 1, 0, 0), b"\xff\xd8\xff\xd9"), 0.1)


async def test_the_first_controller_gets_the_model_and_is_welcomed_with_its_state(house: House) -> None:
    controller = house.come()
    assert house.engine.of(seam.StartSession) == [
        seam.StartSession(house.session, controller.id, controller.joined_at_unix)
    ]
    assert await told(controller) == []
    house.begin(level=3)
    (kind, welcome), started = await told(controller)
    assert (kind, welcome["state"], welcome["session"]) == ("reactor.welcome", {"level": 3}, house.session)
    assert started == ("reactor.session", {"phase": "started", "session": house.session})


async def test_those_in_line_are_told_their_place_at_once_and_on_each_change(house: House) -> None:
    house.come()
    house.begin()
    second, third = house.come(), house.come()
    assert await places(second) == [(1, 1), (1, 2)]
    assert await places(third) == [(2, 2)]
    house.lobby.detach(second)
    assert await places(third) == [(1, 1)]


async def test_the_next_in_line_is_served_when_the_model_has_let_go(house: House) -> None:
    first, second = house.come(), house.come()
    house.begin()
    former = house.session
    house.lobby.detach(first)
    assert house.engine.of(seam.StopSession) == [seam.StopSession(former)]
    assert house.session == former
    house.end()
    house.begin(level=1)
    assert house.session != former
    assert house.hall.session is not None
    assert house.hall.session.controller is second


async def test_a_controller_that_leaves_while_its_session_starts_leaves_nothing(house: House) -> None:
    first = house.come()
    house.lobby.detach(first)
    house.begin()
    house.end()
    assert house.hall.session is None
    house.come()
    assert house.begin()


async def test_a_full_line_and_a_full_gallery_are_refused_with_1013(house: House) -> None:
    for _ in range(3):
        assert house.come().closing is None
    refused = house.come()
    assert refused.closing is not None
    assert refused.closing.code == 1013
    for _ in range(2):
        assert house.come(Role.VIEWER).closing is None
    refused = house.come(Role.VIEWER)
    assert refused.closing is not None
    assert refused.closing.code == 1013
    house.lobby.detach(refused)
    assert len(house.lobby.everyone()) == 5


async def test_a_viewer_sees_the_picture_on_screen_at_once(house: House) -> None:
    house.come()
    house.begin(level=3)
    house.audience.show(FRAME)
    viewer = house.come(Role.VIEWER)
    assert (await told(viewer))[0][1]["state"] == {"level": 3}
    assert viewer.outbox.counters.offered == 1


async def test_the_picture_of_a_session_is_not_shown_in_the_next(house: House) -> None:
    first = house.come()
    house.begin()
    house.audience.show(FRAME)
    house.lobby.detach(first)
    house.end()
    second = house.come()
    house.begin()
    assert second.outbox.counters.offered == 0


async def test_a_viewer_is_welcomed_to_a_session_when_it_has_begun_and_without_pictures_of_the_one_before(
    house: House,
) -> None:
    first = house.come()
    house.begin()
    house.audience.show(FRAME)
    house.lobby.detach(first)
    house.end()
    between = house.come(Role.VIEWER)
    house.come()
    starting = house.come(Role.VIEWER)
    for viewer in (between, starting):
        assert [data["session"] for _, data in await told(viewer)] == [None]
        assert viewer.outbox.counters.offered == 0
    session = house.begin(level=3)
    for viewer in (between, starting):
        (_, started), (_, state) = await told(viewer)
        assert (started["phase"], started["session"], state) == ("started", session, {"level": 3})


async def test_loading_is_told_after_the_end_of_the_session_that_was_lost(house: House) -> None:
    house.come()
    viewer = house.come(Role.VIEWER)
    house.begin()
    await told(viewer)
    house.engine.phase = EnginePhase.LOADING  # its channel is closed, and how the process ended isn't known yet
    assert house.lobby.halls.loading_phase() is None
    house.crash()
    assert house.lobby.halls.loading_phase() is not None
    assert await phases(viewer) == ["ended", "loading"]


async def test_a_viewer_keeps_watching_from_session_to_session(house: House) -> None:
    viewer = house.come(Role.VIEWER)
    assert await types(viewer) == ["reactor.welcome"]
    for _ in range(2):
        controller = house.come()
        house.begin(level=1)
        house.lobby.detach(controller)
        house.end()
        assert await phases(viewer) == ["started", "ended"]


@pytest.mark.parametrize("who", [Role.VIEWER, Role.CONTROLLER])
async def test_only_the_controller_of_the_session_sends_events(house: House, who: Role) -> None:
    house.come()
    house.begin()
    connection = house.come(who)
    house.intake.event(connection, Event("set_level", "{}", 5))
    kind, error = (await told(connection))[-1]
    assert (kind, error["code"], error["event"]) == ("reactor.error", "not_controller", "set_level")
    assert not house.engine.of(seam.ClientEvent)


async def test_an_event_during_loading_is_told_so(house: House) -> None:
    house.engine.phase = EnginePhase.LOADING
    connection = house.come()
    house.intake.event(connection, Event("set_level", "{}", 5))
    _, error = (await told(connection))[-1]
    assert error["message"] == "the model is loading: set_level changed nothing"


async def test_events_sent_before_the_session_has_begun_are_handled_in_it_in_order(house: House) -> None:
    controller = house.come()
    for number in range(MOST_EARLY + 1):
        house.intake.event(controller, Event("set_level", "{}", number))
    (kind, error) = (await told(controller))[-1]
    assert (kind, error["code"]) == ("reactor.error", "rate_limited")
    assert not house.engine.of(seam.ClientEvent)
    house.begin()
    assert [event.ticket for event in house.engine.of(seam.ClientEvent)] == list(range(MOST_EARLY))


async def test_the_newest_picture_sent_before_the_session_has_begun_is_passed_on(house: House) -> None:
    house.engine.contract = {"tracks": [{"name": "camera", "kind": "video", "direction": "in"}], "schema": {}}
    controller = house.come()
    for red in range(3):
        house.intake.media(controller, jpeg.encode(pixels(red)))
    assert not house.engine.of(seam.Media)
    session = house.begin()
    assert house.engine.of(seam.Media) == [seam.Media(session, "camera", jpeg.encode(pixels(2)))]


async def test_what_was_sent_before_a_session_that_never_began_is_forgotten(house: House) -> None:
    controller = house.come()
    house.intake.event(controller, Event("set_level", "{}", 1))
    house.lobby.detach(controller)
    house.begin()
    assert not house.engine.of(seam.ClientEvent)


async def test_an_event_goes_to_the_model_and_its_answer_comes_back(house: House) -> None:
    controller = house.come()
    session = house.begin()
    house.intake.event(controller, Event("set_level", '{"level":1}', 5))
    assert house.engine.of(seam.ClientEvent) == [
        seam.ClientEvent(session, controller.id, 5, "set_level", '{"level":1}', house.clock.now())
    ]
    house.say(seam.Answer(session, controller.id, 5, 1))
    house.say(seam.Refusal(session, controller.id, 6, "x", "too_late", "no", [{"path": "x", "message": "no"}]))
    reply, error = (await told(controller))[-2:]
    assert reply == ("reactor.reply", {"n": 1})
    fields = [{"path": "x", "message": "no"}]
    assert error == ("reactor.error", {"code": "too_late", "message": "no", "fields": fields, "event": "x"})


async def test_events_are_refused_while_the_model_is_behind(house: House) -> None:
    controller = house.come()
    house.begin()
    house.engine.busy = True
    house.intake.event(controller, Event("set_level", "{}"))
    assert (await told(controller))[-1][1]["code"] == "rate_limited"
    assert not house.engine.of(seam.ClientEvent)


async def test_a_model_message_goes_to_all_or_to_one(house: House) -> None:
    controller, viewer = house.come(), house.come(Role.VIEWER)
    session = house.begin()
    await told(controller), await told(viewer)
    house.say(seam.ModelSaid(session, "progress", {"step": 1}))
    house.say(seam.ModelSaid(session, "progress", {"step": 2}, controller.id))
    house.say(seam.ModelSaid(session, "progress", {"step": 3}, "somebody of before"))
    assert [data["step"] for _, data in await told(controller)] == [1, 2]
    assert [data["step"] for _, data in await told(viewer)] == [1]


async def test_a_state_change_is_told_to_all_and_to_later_viewers(house: House) -> None:
    house.come()
    session = house.begin(level=1)
    house.say(seam.StateChanged(session, {"level": 2}))
    viewer = house.come(Role.VIEWER)
    assert (await told(viewer))[0][1]["state"] == {"level": 2}


async def test_what_the_engine_says_of_a_session_that_is_over_is_nobody_s(house: House) -> None:
    house.come()
    house.begin()
    house.say(seam.Moment("s-before", 7, 0.0, 0.1, 0.0, 0, 0, 0.0, ()))
    house.say(seam.Ended("s-before", None))
    assert house.engine.of(seam.Credit) == [seam.Credit("s-before", 7, 0.0)]
    assert house.hall.session is not None


@pytest.mark.parametrize(("exposed", "words"), [(True, "KeyError: 'x'"), (False, "the model failed in this session")])
async def test_a_failed_session_says_why_and_its_socket_is_closed_with_1011(exposed: bool, words: str) -> None:
    house = House(expose_errors=exposed)
    controller = house.come()
    house.begin()
    house.end("KeyError: 'x'")
    os.close(house.memory)
    error, ended = (await told(controller))[-2:]
    assert error == ("reactor.error", {"code": "model_error", "message": words})
    assert ended == ("reactor.session", {"phase": "ended", "reason": "model_error", "message": words})
    assert controller.closing is not None
    assert controller.closing.code == 1011


@pytest.mark.parametrize("exposed", [True, False])
async def test_a_suspicious_first_step_is_logged_and_shown_where_errors_are(
    exposed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    house = House(expose_errors=exposed)
    controller = house.come()
    house.begin()
    assert house.hall.session is not None
    finding = ReactorError("main_video is black", hint="scale it", where=Location("/project/pipeline.py", 7, 3))
    house.say(seam.Suspicion(house.hall.session.id, to_json(finding)))
    os.close(house.memory)
    shown = {"phase": "warning", "message": "main_video is black (pipeline.py:7): scale it"}
    assert (("reactor.session", shown) in await told(controller)) is exposed
    assert "/project/pipeline.py:7:3: main_video is black (scale it)" in caplog.text


async def test_three_failed_sessions_in_a_row_are_a_failed_model_until_one_goes_well(house: House) -> None:
    for expected in ("ready", "ready", "failed"):
        house.come()
        house.begin()
        house.end("no")
        assert health_status(house.lobby) == expected
    controller = house.come()
    house.begin()
    assert health_status(house.lobby) == "busy"
    house.lobby.detach(controller)
    assert health_status(house.lobby) == "stopping"
    house.end()
    assert health_status(house.lobby) == "ready"


async def test_a_crash_ends_the_session_and_those_who_wait_are_served_after_loading(house: House) -> None:
    controller, waiting, viewer = house.come(), house.come(), house.come(Role.VIEWER)
    house.begin()
    await told(viewer), await told(waiting)
    house.crash()
    assert controller.closing is not None
    assert controller.closing.code == 1011
    assert (await told(controller))[-1][1]["reason"] == "model_died"
    assert await phases(viewer) == ["ended", "loading"]
    assert await phases(waiting) == ["loading"]
    assert house.hall.session is None
    assert health_status(house.lobby) == "loading"
    house.engine.phase = EnginePhase.READY
    house.hall.engine_ready(1.5)
    house.begin()
    assert await types(waiting) == ["reactor.welcome", "reactor.session"]
    assert house.loads == [1.5]


async def test_who_comes_while_the_model_loads_is_told_and_seated_later(house: House) -> None:
    house.engine.phase = EnginePhase.LOADING
    house.engine.detail = "reading weights"
    house.engine.contract = None
    controller, viewer = house.come(), house.come(Role.VIEWER)
    assert await types(controller) == ["reactor.queue", "reactor.session"]
    assert await told(viewer) == [
        ("reactor.session", {"phase": "loading", "detail": "reading weights", "elapsed_s": 0.0})
    ]
    house.engine.phase, house.engine.contract = EnginePhase.READY, {"tracks": [], "schema": {}}
    house.hall.engine_ready(2.0)
    assert await types(viewer) == ["reactor.welcome"]
    house.begin()
    assert await types(controller) == ["reactor.welcome", "reactor.session"]


async def test_a_client_that_leaves_a_thousand_messages_unread_is_given_up(house: House) -> None:
    controller = house.come()
    for _ in range(1001):
        controller.tell("progress", {})
    assert controller.closing is not None
    assert controller.closing.code == 1013
    assert controller.given_up.is_set()


async def test_statistics_are_each_client_s_own(house: House) -> None:
    controller, viewer = house.come(), house.come(Role.VIEWER)
    house.begin()
    house.audience.show(FRAME)
    await told(controller), await told(viewer)
    house.audience.show(FRAME)
    house.clock.spend(1.0)
    house.hall.tell_statistics(house.clock.now())
    (_, statistics) = (await told(controller))[-1]
    assert (statistics["emitted"], statistics["sent"], statistics["fps"]) == (2, 1, {"video": 1.0})


async def test_everyone_is_told_when_the_server_stops(house: House) -> None:
    everyone = [house.come(), house.come(), house.come(Role.VIEWER)]
    house.begin()
    close(house.lobby)
    close(house.lobby)
    everyone.append(house.come())
    for connection in everyone:
        assert (await told(connection))[-1][1]["reason"] == "server_stopping"
        assert connection.closing is not None
        assert (connection.closing.code, connection.closing.reason) == (1001, "the server is stopping")


@pytest.mark.parametrize("lets_go", [True, False])
def test_a_session_that_the_server_s_stop_ends_is_counted_as_such_and_nobody_follows(
    house: House, lets_go: bool
) -> None:
    controller, _ = house.come(), house.come()
    session = house.begin()
    close(house.lobby)
    house.lobby.detach(controller)
    assert house.engine.of(seam.StopSession) == [seam.StopSession(session)]
    if lets_go:
        house.end()
    house.hall.close()
    sessions = house.lobby.rules.figures.sessions.counts
    assert (sessions["server_stopping"], sum(sessions.values())) == (1, 1)
    assert house.hall.session is None


async def test_a_model_that_lets_go_by_itself_has_finished_and_not_failed(house: House) -> None:
    controller, viewer = house.come(), house.come(Role.VIEWER)
    house.begin()
    house.hall.failed_in_a_row = 2
    house.end()
    for client in (controller, viewer):
        (ended,) = [data for kind, data in await told(client) if data.get("phase") == "ended"]
        assert ended["reason"] == "finished"
    assert controller.closing is not None
    assert controller.closing.code == CloseCode.SESSION_OVER
    assert house.hall.failed_in_a_row == 0


@pytest.mark.parametrize("fault", ["crash", "raise"])
async def test_a_controller_whose_session_fails_before_it_has_begun_is_told_why(house: House, fault: str) -> None:
    controller, viewer = house.come(), house.come(Role.VIEWER)
    if fault == "crash":
        house.crash()
    else:
        house.end("no memory")
    for client in (controller, viewer):
        kinds = [(kind, data.get("code", data.get("phase"))) for kind, data in await told(client)]
        assert kinds.count(("reactor.error", "model_error")) == 1
        assert kinds.count(("reactor.session", "ended")) == 1
    assert controller.closing is not None
    assert controller.closing.code == CloseCode.MODEL_FAILED
