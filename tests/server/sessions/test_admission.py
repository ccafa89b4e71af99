from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable

import pytest

from reactor_runtime.errors import Location, ReactorError, to_json
from reactor_runtime.ipc import messages as ipc
from reactor_runtime.media import jpeg
from reactor_runtime.server.delivery.client import Closing, Role
from reactor_runtime.server.delivery.outbox import MOST_MESSAGE_BYTES
from reactor_runtime.server.delivery.playout import MOST_MESSAGE_BYTES as MOST_WAITING_BYTES
from reactor_runtime.server.encoding.encoded import EncodedSound
from reactor_runtime.server.options import TurnLimits
from reactor_runtime.server.routes.health import health_status
from reactor_runtime.server.sessions.early_messages import MOST_EARLY, MOST_EARLY_BYTES
from reactor_runtime.server.workers.engine import EnginePhase
from reactor_runtime.wire.media_header import MediaHeader
from reactor_runtime.wire.messages import Event, Keep
from reactor_runtime.wire.protocol import CloseCode
from tests.engine.rig import frame as pixels
from tests.fakes import jpeg_frame
from tests.server.admission_fixture import AdmissionFixture, drain, phases, places, told, types

FRAME = jpeg_frame(1)


async def test_the_first_controller_gets_a_session_and_its_state_in_the_welcome(services: AdmissionFixture) -> None:
    controller = services.come()
    assert services.engine.of(ipc.StartSession) == [
        ipc.StartSession(services.session, controller.id, controller.joined_at_unix)
    ]
    assert await told(controller) == []
    services.begin(level=3)
    (kind, welcome), started = await told(controller)
    assert (kind, welcome["state"], welcome["session"]) == ("reactor.welcome", {"level": 3}, services.session)
    assert started == ("reactor.session", {"phase": "started", "session": services.session})


async def test_a_waiting_client_gets_its_position_at_once_and_on_each_change(services: AdmissionFixture) -> None:
    services.come()
    services.begin()
    second, third = services.come(), services.come()
    assert await places(second) == [(1, 1), (1, 2)]
    assert await places(third) == [(2, 2)]
    services.admission.detach(second)
    assert await places(third) == [(1, 1)]


async def test_a_controller_that_lost_its_session_waits_before_all_others_also_in_a_full_queue(
    services: AdmissionFixture,
) -> None:
    services.come()
    services.begin()
    waiting = [services.come(), services.come()]
    lost = services.come(returning="20")
    assert await told(lost) == [
        ("reactor.session", {"phase": "lost", "message": "the machine has failed"}),
        ("reactor.queue", {"position": 1, "length": 3}),
    ]
    assert list(services.admission.wait_queue.waiting) == [lost, *waiting]


@pytest.mark.parametrize(("used_s", "order"), [("299", [2, 0, 1]), ("300", [0, 1, 2])], ids=["some left", "used up"])
async def test_a_controller_waits_before_all_others_only_for_the_rest_of_its_turn(
    used_s: str, order: list[int]
) -> None:
    services = AdmissionFixture(limits=TurnLimits(max_session_s=300))
    services.come()
    services.begin()
    clients = [services.come(), services.come(), services.come(returning=used_s)]
    assert list(services.admission.wait_queue.waiting) == [clients[number] for number in order]
    services.end()
    # A turn that is used up is followed by a whole one.
    assert clients[2].used_s == (299 if used_s == "299" else 0)


async def test_the_next_session_starts_when_the_engine_has_ended_the_one_before(services: AdmissionFixture) -> None:
    first, second = services.come(), services.come()
    services.begin()
    former = services.session
    services.admission.detach(first)
    assert services.engine.of(ipc.StopSession) == [ipc.StopSession(former)]
    assert services.session == former
    services.end()
    services.begin(level=1)
    assert services.session != former
    assert services.slot.session is not None
    assert services.slot.session.controller is second


async def test_the_slot_is_free_again_after_a_controller_leaves_while_its_session_starts(
    services: AdmissionFixture,
) -> None:
    first = services.come()
    services.admission.detach(first)
    services.begin()
    services.end()
    assert services.slot.session is None
    services.come()
    assert services.begin()


async def test_a_session_that_stops_has_no_turn_any_more() -> None:
    services = AdmissionFixture(limits=TurnLimits(idle_timeout_s=60))
    controller = services.come()
    services.begin()
    assert services.clock.pending == 1
    services.admission.detach(controller)
    assert services.clock.pending == 0
    os.close(services.memory)


async def test_a_full_wait_queue_and_full_viewers_refuse_with_1013(services: AdmissionFixture) -> None:
    for _ in range(3):
        assert services.come().closing is None
    refused = services.come()
    assert refused.closing is not None
    assert refused.closing.code == 1013
    for _ in range(2):
        assert services.come(Role.VIEWER).closing is None
    refused = services.come(Role.VIEWER)
    assert refused.closing is not None
    assert refused.closing.code == 1013
    services.admission.detach(refused)
    assert len(services.admission.all_clients()) == 5


async def test_a_second_controller_of_an_address_waits_behind_those_of_others() -> None:
    services = AdmissionFixture(most_waiting=3)
    first = services.come(address="10.0.0.1")
    services.begin()
    second = services.come(address="10.0.0.1")
    other = services.come(address="10.0.0.2")
    assert list(services.admission.wait_queue.waiting) == [other, second]
    assert await places(second) == [(1, 1), (2, 2)]
    services.admission.detach(first)
    services.end()
    assert services.slot.session is not None
    assert services.slot.session.controller is other
    os.close(services.memory)


async def test_an_address_that_fills_the_wait_queue_gives_way_to_another(services: AdmissionFixture) -> None:
    services.come(address="10.0.0.1")
    services.begin()
    kept, last = services.come(address="10.0.0.1"), services.come(address="10.0.0.1")
    other = services.come(address="10.0.0.2")
    assert last.closing is not None
    assert last.closing.code == 1013
    assert "a client of another address came" in last.closing.reason
    assert list(services.admission.wait_queue.waiting) == [other, kept]


async def test_an_address_has_at_most_half_of_the_viewers_while_another_asks() -> None:
    services = AdmissionFixture(most_viewers=4)
    many = [services.come(Role.VIEWER, address="10.0.0.1") for _ in range(4)]
    assert services.come(Role.VIEWER, address="10.0.0.1").closing is not None
    others = [services.come(Role.VIEWER, address="10.0.0.2") for _ in range(3)]
    assert [viewer.closing is None for viewer in many] == [True, True, False, False]
    assert [viewer.closing is None for viewer in others] == [True, True, False]
    assert list(services.admission.assignment.viewers) == [*many[:2], *others[:2]]
    assert services.come(Role.VIEWER, address="10.0.0.3").closing is not None
    os.close(services.memory)


@pytest.mark.parametrize("most", [1, 3])
async def test_two_addresses_do_not_take_a_place_from_each_other_in_turns(most: int) -> None:
    services = AdmissionFixture(most_viewers=most)
    for number in range(most):
        services.come(Role.VIEWER, address=f"10.0.0.{number % 2}")
    for address in ("10.0.0.0", "10.0.0.1"):
        assert services.come(Role.VIEWER, address=address).closing is not None
    os.close(services.memory)


async def test_an_ipv6_network_is_one_address_of_viewers(services: AdmissionFixture) -> None:
    first, second = (services.come(Role.VIEWER, address=f"2001:db8::{host}") for host in (1, 2))
    services.come(Role.VIEWER, address="2001:db8:1::1")
    assert (first.closing is None, second.closing is None) == (True, False)


async def test_a_new_viewer_gets_the_latest_frame_at_once(services: AdmissionFixture) -> None:
    services.come()
    services.begin(level=3)
    services.subscribers.show_frame(FRAME)
    viewer = services.come(Role.VIEWER)
    assert (await told(viewer))[0][1]["state"] == {"level": 3}
    assert viewer.outbox.counters.offered == 1


async def test_the_next_session_does_not_show_frames_of_the_one_before(services: AdmissionFixture) -> None:
    first = services.come()
    services.begin()
    services.subscribers.show_frame(FRAME)
    services.admission.detach(first)
    services.end()
    second = services.come()
    services.begin()
    assert second.outbox.counters.offered == 0


async def test_a_viewer_gets_a_session_when_it_has_started_and_no_frames_of_the_one_before(
    services: AdmissionFixture,
) -> None:
    first = services.come()
    services.begin()
    services.subscribers.show_frame(FRAME)
    services.admission.detach(first)
    services.end()
    between = services.come(Role.VIEWER)
    services.come()
    starting = services.come(Role.VIEWER)
    for viewer in (between, starting):
        assert [data["session"] for _, data in await told(viewer)] == [None]
        assert viewer.outbox.counters.offered == 0
    session = services.begin(level=3)
    for viewer in (between, starting):
        (_, started), (_, state) = await told(viewer)
        assert (started["phase"], started["session"], state) == ("started", session, {"level": 3})


async def test_a_controller_that_watched_while_it_waited_gets_only_its_own_session() -> None:
    services = AdmissionFixture(engines=2)
    _, second = services.come(), services.come()
    services.begin(1)
    services.begin(2)
    waiting = services.come(watches=True)
    assert [waiting in slot.subscribers for slot in services.slots] == [True, False]
    services.admission.detach(second)
    services.end(number=2)
    services.begin(2)
    assert [waiting in slot.subscribers for slot in services.slots] == [False, True]
    os.close(services.memory)


async def test_a_client_that_waits_at_a_front_gets_a_welcome_to_each_session_alone(services: AdmissionFixture) -> None:
    waiting = services.come(Role.VIEWER, waits=True)
    assert [data["session"] for _, data in await told(waiting)] == [None]
    for _ in range(2):
        controller = services.come()
        session = services.begin(level=3)
        ((kind, welcome),) = await told(waiting)
        assert (kind, welcome["session"], welcome["role"]) == ("reactor.welcome", session, "viewer")
        services.admission.detach(controller)
        services.end()
        assert await told(waiting) == []
    services.admission.fail("disk on fire")
    assert (await told(waiting), waiting.closing) == ([], Closing(CloseCode.MODEL_FAILED, "disk on fire"))


@pytest.mark.parametrize(("role", "watches", "waits"), [(Role.CONTROLLER, True, False), (Role.VIEWER, False, True)])
async def test_a_client_that_waits_gets_no_progress_of_the_first_frame_of_others(
    services: AdmissionFixture, role: Role, watches: bool, waits: bool
) -> None:
    services.come()
    session = services.begin()
    services.say(ipc.Preparing(session, "compiling", 0.3))
    waiting, viewer = services.come(role, watches=watches, waits=waits), services.come(Role.VIEWER)
    services.slot.send_progress()
    assert (await phases(waiting), await phases(viewer)) == ([], ["preparing", "preparing"])


async def test_a_controller_that_watches_while_it_waits_gets_a_changed_contract(services: AdmissionFixture) -> None:
    services.come()
    services.begin()
    waiting = services.come(watches=True)
    await told(waiting)
    services.slot.on_engine_contract()
    assert [kind for kind, _ in await told(waiting)] == ["reactor.contract"]


async def test_a_session_that_is_starting_is_not_in_the_welcome_of_a_viewer(services: AdmissionFixture) -> None:
    services.come()
    viewer = services.come(Role.VIEWER)
    assert [data["session"] for _, data in await told(viewer)] == [None]


async def test_the_loading_message_follows_the_end_of_the_session_that_was_lost(services: AdmissionFixture) -> None:
    services.come()
    viewer = services.come(Role.VIEWER)
    services.begin()
    await told(viewer)
    services.engine.phase = EnginePhase.LOADING  # its socket is closed, and its exit status is not known yet
    assert services.admission.slots.loading_message() is None
    services.crash()
    assert services.admission.slots.loading_message() is not None
    assert await phases(viewer) == ["ended", "loading"]


async def test_a_viewer_watches_one_session_after_the_other(services: AdmissionFixture) -> None:
    viewer = services.come(Role.VIEWER)
    assert await types(viewer) == ["reactor.welcome"]
    for _ in range(2):
        controller = services.come()
        services.begin(level=1)
        services.admission.detach(controller)
        services.end()
        assert await phases(viewer) == ["started", "ended"]


@pytest.mark.parametrize("who", [Role.VIEWER, Role.CONTROLLER])
async def test_only_the_controller_of_the_session_sends_events(services: AdmissionFixture, who: Role) -> None:
    services.come()
    services.begin()
    client = services.come(who)
    services.inbound.route_event(client, Event("set_level", "{}", 5))
    kind, error = (await told(client))[-1]
    assert (kind, error["code"], error["event"]) == ("reactor.error", "not_controller", "set_level")
    assert not services.engine.of(ipc.ClientEvent)


async def test_an_event_during_loading_is_refused_with_that_reason(services: AdmissionFixture) -> None:
    services.engine.phase = EnginePhase.LOADING
    client = services.come()
    services.inbound.route_event(client, Event("set_level", "{}", 5))
    _, error = (await told(client))[-1]
    assert error["message"] == "the model is loading: set_level changed nothing"


async def test_a_session_that_has_not_started_is_not_kept(services: AdmissionFixture) -> None:
    client = services.come()
    services.inbound.keep_recording(client, Keep("k"))
    answer = [json.loads(item) for item in await drain(client.outbox) if isinstance(item, str)][-1]
    assert (answer["type"], answer["data"]["code"], answer["id"]) == ("reactor.error", "not_controller", "k")


async def test_events_sent_before_the_session_has_started_are_sent_to_it_in_order(services: AdmissionFixture) -> None:
    controller = services.come()
    for number in range(MOST_EARLY + 1):
        services.inbound.route_event(controller, Event("set_level", "{}", number))
    (kind, error) = (await told(controller))[-1]
    assert (kind, error["code"]) == ("reactor.error", "rate_limited")
    assert not services.engine.of(ipc.ClientEvent)
    services.begin()
    assert [event.ticket for event in services.engine.of(ipc.ClientEvent)] == list(range(MOST_EARLY))


async def test_the_newest_image_sent_before_the_session_has_started_is_sent_to_it(services: AdmissionFixture) -> None:
    services.engine.contract = {"tracks": [{"name": "camera", "kind": "video", "direction": "in"}], "schema": {}}
    controller = services.come()
    for red in range(3):
        services.inbound.route_media(controller, jpeg.encode(pixels(red)))
    assert not services.engine.of(ipc.ClientMedia)
    session = services.begin()
    assert services.engine.of(ipc.ClientMedia) == [ipc.ClientMedia(session, "camera", jpeg.encode(pixels(2)))]


async def test_events_for_a_session_that_never_starts_are_dropped(services: AdmissionFixture) -> None:
    controller = services.come()
    services.inbound.route_event(controller, Event("set_level", "{}", 1))
    services.admission.detach(controller)
    services.begin()
    assert not services.engine.of(ipc.ClientEvent)


async def test_an_event_is_sent_to_the_engine_and_its_answer_to_the_client(services: AdmissionFixture) -> None:
    controller = services.come()
    session = services.begin()
    services.inbound.route_event(controller, Event("set_level", '{"level":1}', 5))
    assert services.engine.of(ipc.ClientEvent) == [
        ipc.ClientEvent(session, controller.id, 5, "set_level", '{"level":1}', services.clock.now())
    ]
    services.say(ipc.EventApplied(session, controller.id, 5, 1))
    services.say(ipc.EventRefused(session, controller.id, 6, "x", "too_late", "no", [{"path": "x", "message": "no"}]))
    reply, error = (await told(controller))[-2:]
    assert reply == ("reactor.reply", {"n": 1})
    fields = [{"path": "x", "message": "no"}]
    assert error == ("reactor.error", {"code": "too_late", "message": "no", "fields": fields, "event": "x"})


async def test_events_before_the_start_are_limited_in_bytes_and_media_to_the_newest_of_a_track(
    services: AdmissionFixture,
) -> None:
    controller = services.come()
    session = services.slot.session
    assert session is not None
    half = f'"{"x" * (MOST_EARLY_BYTES // 2 - 2)}"'
    for number in range(3):
        services.inbound.route_event(controller, Event("set_level", half, number))
        session.send_media("webcam", b"%d" % number, None, controller)
    assert [data["code"] for kind, data in await told(controller) if kind == "reactor.error"] == ["rate_limited"]
    services.begin()
    assert [event.ticket for event in services.engine.of(ipc.ClientEvent)] == [0, 1]
    assert [media.file for media in services.engine.of(ipc.ClientMedia)] == [b"2"]


async def test_lost_inputs_are_counted_for_the_controller_and_in_the_metrics(services: AdmissionFixture) -> None:
    controller, viewer = services.come(), services.come(Role.VIEWER)
    session = services.begin()
    for count in (2, 3):
        services.say(ipc.InputLost(session, "microphone", "audio", count))
    services.slot.send_statistics(services.clock.now())
    (statistics,) = [data for kind, data in await told(controller) if kind == "reactor.stats"]
    assert statistics["inputs_lost"] == {"microphone": 5}
    assert all("inputs_lost" not in data for _, data in await told(viewer))
    assert controller.metrics.inputs_lost.counts == {"video": 0, "audio": 5}


@pytest.mark.parametrize("text", ["x" * MOST_MESSAGE_BYTES, "é" * (MOST_MESSAGE_BYTES // 2)], ids=["ascii", "umlauts"])
async def test_a_welcome_above_4_mib_closes_the_client_with_the_reason(services: AdmissionFixture, text: str) -> None:
    controller = services.come()
    services.begin(level=text)
    assert controller.closing is not None
    assert controller.closing.code == 1013
    assert "the state or the schema is too large" in controller.closing.reason
    assert not controller.given_up.is_set()


async def test_the_reply_of_a_handler_is_in_the_answer_or_a_message_of_its_own(services: AdmissionFixture) -> None:
    controller = services.come()
    session = services.begin()
    await told(controller)
    pong = ("pong", {"text": "hello"})
    services.say(ipc.EventApplied(session, controller.id, 5, 1, pong))
    services.say(ipc.EventApplied(session, controller.id, None, 2, pong))
    reply = {"n": 1, "message": {"type": "pong", "data": {"text": "hello"}}}
    assert await told(controller) == [("reactor.reply", reply), pong]


async def test_events_are_refused_while_the_engine_has_a_backlog(services: AdmissionFixture) -> None:
    controller = services.come()
    services.begin()
    services.engine.busy = True
    services.inbound.route_event(controller, Event("set_level", "{}"))
    assert (await told(controller))[-1][1]["code"] == "rate_limited"
    assert not services.engine.of(ipc.ClientEvent)


async def test_a_model_message_is_sent_to_all_or_to_the_controller(services: AdmissionFixture) -> None:
    controller, viewer = services.come(), services.come(Role.VIEWER)
    session = services.begin()
    await told(controller), await told(viewer)
    services.say(ipc.MessageSent(session, "progress", {"step": 1}))
    services.say(ipc.MessageSent(session, "progress", {"step": 2}, controller.id))
    services.say(ipc.MessageSent(session, "progress", {"step": 3}, "somebody of before"))
    assert [data["step"] for _, data in await told(controller)] == [1, 2]
    assert [data["step"] for _, data in await told(viewer)] == [1]


async def test_a_flush_of_the_engine_drops_what_waits_and_delivers_the_messages_behind_it(
    services: AdmissionFixture,
) -> None:
    controller = services.come()
    session = services.begin()
    await told(controller)
    services.put_bundle(session, 7)
    services.say(ipc.MessageSent(session, "progress", {"step": 1}))
    assert await told(controller) == []
    services.say(ipc.Flush(session, before=8))
    assert await told(controller) == [("progress", {"step": 1})]


@pytest.mark.parametrize("letter", ["x", "é"])
async def test_messages_that_wait_for_a_frame_are_limited_by_their_bytes(
    services: AdmissionFixture, letter: str
) -> None:
    controller = services.come()
    session = services.begin()
    await told(controller)
    services.put_bundle(session, 7)
    half = letter * (MOST_WAITING_BYTES // 2 // len(letter.encode()))
    services.say(ipc.MessageSent(session, "progress", {"text": half}))
    assert await told(controller) == []
    services.say(ipc.EventApplied(session, controller.id, "a", 1, ("progress", {"text": half})))
    services.say(ipc.MessageSent(session, "progress", {"text": half}))
    assert [kind for kind, _ in await told(controller)] == ["reactor.reply", "progress"]


async def test_a_flush_of_the_engine_drops_the_sound_that_waits_for_clients(services: AdmissionFixture) -> None:
    controller = services.come()
    session = services.begin()
    services.subscribers.play_sound(EncodedSound(MediaHeader("audio", 0, 0, 0), b"sound", 0.1))
    assert controller.outbox.sounds
    services.say(ipc.Flush(session, before=0))
    assert not controller.outbox.sounds


async def test_a_viewer_that_connects_while_the_engine_restarts_gets_the_welcome_after_it(
    services: AdmissionFixture,
) -> None:
    services.come()
    services.begin()
    services.crash()
    viewer = services.come(Role.VIEWER)
    assert await types(viewer) == ["reactor.session"]
    services.load()
    assert await types(viewer) == ["reactor.welcome"]


async def test_a_state_change_is_in_the_welcome_of_later_viewers(services: AdmissionFixture) -> None:
    services.come()
    session = services.begin(level=1)
    services.say(ipc.StateChanged(session, {"level": 2}))
    viewer = services.come(Role.VIEWER)
    assert (await told(viewer))[0][1]["state"] == {"level": 2}


async def test_engine_messages_for_a_session_that_is_over_are_dropped(services: AdmissionFixture) -> None:
    services.come()
    services.begin()
    services.say(ipc.Ended("s-before", None))
    assert services.slot.session is not None


async def end_and_start_the_next(services: AdmissionFixture) -> None:
    services.end()
    services.come()
    services.begin()


async def crash_and_start_the_next(services: AdmissionFixture) -> None:
    services.crash()
    services.load()
    services.come()
    services.begin()


async def restart_and_start_the_next(services: AdmissionFixture) -> None:
    services.slot.on_engine_restart()
    services.load()
    services.come()
    services.begin()


async def end(services: AdmissionFixture) -> None:
    services.end()


async def crash(services: AdmissionFixture) -> None:
    services.crash()


@pytest.mark.parametrize(
    "finish", [end, crash, end_and_start_the_next, crash_and_start_the_next, restart_and_start_the_next]
)
async def test_a_bundle_of_a_session_that_is_over_is_never_queued(
    services: AdmissionFixture, finish: Callable[[AdmissionFixture], Awaitable[None]]
) -> None:
    services.come()
    session = services.begin()
    services.put_bundle(session, 6)
    assert services.engine.of(ipc.Credit) == []
    await finish(services)
    before = len(services.playouts[0])
    services.put_bundle(session, 7)
    assert len(services.playouts[0]) == before
    assert services.engine.of(ipc.Credit)[-1] == ipc.Credit(session, 7, 0.0)


async def test_a_session_that_is_stopped_before_its_start_shows_no_bundle(services: AdmissionFixture) -> None:
    controller = services.come()
    session = services.session
    services.admission.detach(controller)
    services.say(ipc.Started(session, services.clock.now(), {}))
    services.put_bundle(session, 0)
    assert len(services.playouts[0]) == 0
    assert services.engine.of(ipc.Credit) == [ipc.Credit(session, 0, 0.0)]


@pytest.mark.parametrize(("exposed", "words"), [(True, "KeyError: 'x'"), (False, "the model failed in this session")])
async def test_a_failed_session_sends_the_reason_and_closes_with_1011(exposed: bool, words: str) -> None:
    services = AdmissionFixture(expose_errors=exposed)
    controller = services.come()
    services.begin()
    services.end("KeyError: 'x'")
    os.close(services.memory)
    error, ended = (await told(controller))[-2:]
    assert error == ("reactor.error", {"code": "model_error", "message": words})
    assert ended == ("reactor.session", {"phase": "ended", "reason": "model_error", "message": words})
    assert controller.closing is not None
    assert controller.closing.code == 1011


def test_a_failed_session_is_counted_as_an_error_and_one_that_was_left_is_not(services: AdmissionFixture) -> None:
    services.come()
    services.begin()
    services.end("no")
    services.admission.detach(services.come())
    services.end()
    metrics = services.admission.settings.metrics
    assert (metrics.errors.counts["model_error"], metrics.sessions.counts["model_error"]) == (1, 1)
    assert metrics.sessions.counts["left"] == 1


@pytest.mark.parametrize("exposed", [True, False])
async def test_a_warning_about_the_first_step_is_logged_and_sent_where_errors_are_exposed(
    exposed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    services = AdmissionFixture(expose_errors=exposed)
    controller = services.come()
    services.begin()
    assert services.slot.session is not None
    warning = ReactorError("main_video is black", hint="scale it", where=Location("/project/pipeline.py", 7, 3))
    services.say(ipc.ModelWarning(services.slot.session.id, to_json(warning)))
    os.close(services.memory)
    shown = {"phase": "warning", "message": "main_video is black (pipeline.py:7): scale it"}
    assert (("reactor.session", shown) in await told(controller)) is exposed
    assert "/project/pipeline.py:7:3: main_video is black (scale it)" in caplog.text


async def test_three_failed_sessions_in_a_row_are_a_failed_model_until_one_succeeds(
    services: AdmissionFixture,
) -> None:
    for expected in ("ready", "ready", "failed"):
        services.come()
        services.begin()
        services.end("no")
        assert health_status(services.admission) == expected
    controller = services.come()
    services.begin()
    assert health_status(services.admission) == "busy"
    services.admission.detach(controller)
    assert health_status(services.admission) == "stopping"
    services.end()
    assert health_status(services.admission) == "ready"


async def test_a_crash_ends_the_session_and_the_next_one_starts_after_loading(services: AdmissionFixture) -> None:
    controller, waiting, viewer = services.come(), services.come(), services.come(Role.VIEWER)
    services.begin()
    await told(viewer), await told(waiting)
    services.crash()
    assert controller.closing is not None
    assert controller.closing.code == 1011
    assert (await told(controller))[-1][1]["reason"] == "model_died"
    assert await phases(viewer) == ["ended", "loading"]
    assert await phases(waiting) == ["loading"]
    assert services.slot.session is None
    assert health_status(services.admission) == "loading"
    services.engine.phase = EnginePhase.READY
    services.slot.on_engine_ready(1.5)
    services.begin()
    assert await types(waiting) == ["reactor.welcome", "reactor.session"]
    assert services.loads == [1.5]


async def test_a_client_that_connects_during_loading_gets_a_slot_after_it(services: AdmissionFixture) -> None:
    services.engine.phase = EnginePhase.LOADING
    services.engine.detail, services.engine.progress = "reading weights", 0.25
    services.engine.contract = None
    controller, viewer = services.come(), services.come(Role.VIEWER)
    assert await types(controller) == ["reactor.queue", "reactor.session"]
    loading = {"phase": "loading", "model": "my-model", "detail": "reading weights", "progress": 0.25, "elapsed_s": 0.0}
    assert await told(viewer) == [("reactor.session", loading)]
    services.engine.phase, services.engine.contract = EnginePhase.READY, {"tracks": [], "schema": {}}
    services.slot.on_engine_ready(2.0)
    assert await types(viewer) == ["reactor.welcome"]
    services.begin()
    assert await types(controller) == ["reactor.welcome", "reactor.session"]


async def test_a_client_with_a_thousand_unread_messages_is_closed(services: AdmissionFixture) -> None:
    controller = services.come()
    for _ in range(1001):
        controller.send_message("progress", {})
    assert controller.closing is not None
    assert controller.closing.code == 1013
    assert controller.given_up.is_set()


async def test_each_client_gets_its_own_statistics(services: AdmissionFixture) -> None:
    controller, viewer = services.come(), services.come(Role.VIEWER)
    services.begin()
    services.subscribers.show_frame(FRAME)
    await told(controller), await told(viewer)
    services.subscribers.show_frame(FRAME)
    services.clock.spend(1.0)
    services.slot.send_statistics(services.clock.now())
    (_, statistics) = (await told(controller))[-1]
    assert (statistics["emitted"], statistics["sent"], statistics["fps"]) == (2, 1, {"video": 1.0})


async def test_a_notice_of_idleness_is_for_the_controller_and_one_of_the_end_for_everyone() -> None:
    services = AdmissionFixture(limits=TurnLimits(max_session_s=300, idle_timeout_s=120))
    controller, viewer = services.come(), services.come(Role.VIEWER)
    services.begin()
    await told(controller), await told(viewer)
    await services.clock.advance(121)
    assert (await phases(controller), await phases(viewer)) == (["idle"], [])
    services.come()
    assert (await phases(controller), await phases(viewer)) == (["ending"], ["ending"])
    os.close(services.memory)


async def test_a_drain_closes_clients_that_wait_and_leaves_the_session_its_time() -> None:
    services = AdmissionFixture(limits=TurnLimits(max_session_s=300))
    controller = services.come()
    services.begin()
    waiting = services.come()
    await told(controller)
    services.admission.drain(1000)
    assert waiting.closing is not None
    assert (waiting.closing.code, waiting.closing.reason) == (1001, "the server is stopping")
    (_, called_off), (_, stopping) = await told(controller)
    assert (called_off["phase"], called_off["seconds"]) == ("ending", None)
    assert (stopping["phase"], stopping["seconds"]) == ("stopping", 1000.0)
    assert controller.closing is None
    os.close(services.memory)


async def test_every_client_is_closed_with_1001_when_the_server_stops(services: AdmissionFixture) -> None:
    everyone = [services.come(), services.come(), services.come(Role.VIEWER)]
    services.begin()
    services.admission.close()
    services.admission.close()
    everyone.append(services.come())
    for client in everyone:
        assert (await told(client))[-1][1]["reason"] == "server_stopping"
        assert client.closing is not None
        assert (client.closing.code, client.closing.reason) == (1001, "the server is stopping")


@pytest.mark.parametrize("model_ends", [True, False])
def test_a_session_ended_by_the_stop_is_counted_as_such_and_no_session_follows(
    services: AdmissionFixture, model_ends: bool
) -> None:
    controller, _ = services.come(), services.come()
    session = services.begin()
    services.admission.close()
    services.admission.detach(controller)
    assert services.engine.of(ipc.StopSession) == [ipc.StopSession(session)]
    if model_ends:
        services.end()
    services.slot.close_session()
    sessions = services.admission.settings.metrics.sessions.counts
    assert (sessions["server_stopping"], sum(sessions.values())) == (1, 1)
    assert services.slot.session is None


async def test_a_session_that_the_model_ends_has_finished_and_not_failed(services: AdmissionFixture) -> None:
    controller, viewer = services.come(), services.come(Role.VIEWER)
    services.begin()
    services.slot.failed_in_a_row = 2
    services.end()
    for client in (controller, viewer):
        (ended,) = [data for kind, data in await told(client) if data.get("phase") == "ended"]
        assert ended["reason"] == "finished"
    assert controller.closing is not None
    assert controller.closing.code == CloseCode.SESSION_OVER
    assert services.slot.failed_in_a_row == 0


async def test_clients_get_the_reason_that_the_model_gave_for_the_end(services: AdmissionFixture) -> None:
    controller = services.come()
    services.begin()
    services.say(ipc.Ended(services.session_in(1), None, "match over"))
    (ended,) = [data for kind, data in await told(controller) if data.get("phase") == "ended"]
    assert (ended["reason"], ended["message"]) == ("finished", "match over")


@pytest.mark.parametrize("fault", ["crash", "raise"])
async def test_a_controller_whose_session_fails_before_its_start_gets_the_reason(
    services: AdmissionFixture, fault: str
) -> None:
    controller, viewer = services.come(), services.come(Role.VIEWER)
    if fault == "crash":
        services.crash()
    else:
        services.end("no memory")
    for client in (controller, viewer):
        kinds = [(kind, data.get("code", data.get("phase"))) for kind, data in await told(client)]
        assert kinds.count(("reactor.error", "model_error")) == 1
        assert kinds.count(("reactor.session", "ended")) == 1
    assert controller.closing is not None
    assert controller.closing.code == CloseCode.MODEL_FAILED
