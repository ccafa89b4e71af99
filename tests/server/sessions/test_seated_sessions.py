"""Sessions with several seats, in admission with engines that do nothing by themselves."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from reactor_runtime.ipc import messages as ipc
from reactor_runtime.server.delivery.client import Client, Role
from reactor_runtime.server.delivery.options import ClientOptions
from reactor_runtime.server.options import TurnLimits
from reactor_runtime.server.sessions.session import ServedSession
from reactor_runtime.server.workers.engine import EnginePhase
from reactor_runtime.wire.messages import Event, Keep, View
from reactor_runtime.wire.protocol import CloseCode
from tests.fakes import jpeg_frame
from tests.server.admission_fixture import AdmissionFixture, drain, phases, places, told

LIMITS = TurnLimits(max_session_s=300, idle_timeout_s=120, resume_grace_s=20)
SEATS = 3


@pytest.fixture
def services() -> Iterator[AdmissionFixture]:
    services = AdmissionFixture(limits=LIMITS, most_waiting=4, engines=2)
    for engine, slot in zip(services.engines, services.slots, strict=True):
        assert engine.contract is not None
        engine.contract["seats"] = SEATS
        slot.subscribers.set_seats(SEATS)
    yield services
    os.close(services.memory)


def come(services: AdmissionFixture, *, room: str = "", seat: int | None = None, resume: str = "") -> Client:
    client = Client(Role.CONTROLLER, "127.0.0.1", ClientOptions(services.clock), room=room, seat=seat)
    services.admission.attach(client, resume)
    return client


def begun(services: AdmissionFixture, count: int) -> list[Client]:
    """Begin a session on the first slot, with so many controllers."""
    first = come(services)
    services.begin()
    return [first, *(come(services) for _ in range(count - 1))]


def session_of(services: AdmissionFixture, number: int = 1) -> ServedSession:
    session = services.slots[number - 1].session
    assert session is not None
    return session


async def seats_told(client: Client) -> list[Any]:
    return [data["clients"] for kind, data in await told(client) if kind == "reactor.seats"]


def joined(services: AdmissionFixture) -> list[int | None]:
    return [message.seat for message in services.engine.of(ipc.ClientJoined)]


async def test_a_controller_gets_the_next_free_seat_and_then_another_slot(services: AdmissionFixture) -> None:
    clients = begun(services, SEATS + 1)
    assert [client.seat for client in clients] == [0, 1, 2, 0]
    assert joined(services) == [1, 2]
    assert session_of(services, 2).controllers == [clients[3]]
    welcome = (await told(clients[2]))[0][1]
    assert (welcome["seat"], welcome["seats"], welcome["role"]) == (2, SEATS, "controller")
    assert (await seats_told(clients[0]))[-1] == [client.id for client in clients[:3]]


@pytest.mark.parametrize("left_over", [0, 1])
async def test_clients_that_wait_for_a_session_to_start_get_its_seats_and_the_next_one_a_slot(
    services: AdmissionFixture, left_over: int
) -> None:
    clients = [come(services) for _ in range(SEATS + left_over)]
    services.begin()
    assert session_of(services).controllers == clients[:SEATS]
    assert (services.slots[1].session is None) is (left_over == 0)


async def test_the_event_of_a_client_has_the_number_of_its_seat(services: AdmissionFixture) -> None:
    clients = begun(services, 2)
    for client in clients:
        services.inbound.route_event(client, Event("set_move", "{}", 7))
    events = services.engine.of(ipc.ClientEvent)
    assert [(event.client, event.seat) for event in events] == [(clients[0].id, 0), (clients[1].id, 1)]
    services.say(ipc.EventApplied(services.session, clients[1].id, 7, 1))
    assert "reactor.reply" in [kind for kind, _ in await told(clients[1])]
    assert "reactor.reply" not in [kind for kind, _ in await told(clients[0])]


async def test_the_state_of_a_seat_is_sent_to_that_seat(services: AdmissionFixture) -> None:
    first = come(services)
    started = ipc.Started(services.session, services.clock.now(), {"speed": 1}, [{"move": n} for n in range(SEATS)])
    services.say(started)
    second, viewer = come(services), Client(Role.VIEWER, "127.0.0.1", ClientOptions(services.clock), seat=1)
    services.admission.attach(viewer, session=services.session)
    assert (await told(second))[0][1]["state"] == {"speed": 1, "move": 1}
    assert (await told(viewer))[0][1]["state"] == {"speed": 1, "move": 1}
    await told(first)
    services.say(ipc.StateChanged(services.session, {"move": 9}, 1))
    services.say(ipc.StateChanged(services.session, {"speed": 2}))
    states = {
        client: [data for kind, data in await told(client) if kind == "reactor.state"] for client in (first, viewer)
    }
    assert states == {first: [{"speed": 2}], viewer: [{"move": 9}, {"speed": 2}]}


async def test_a_viewer_that_changes_the_seat_gets_its_welcome_and_latest_frame(services: AdmissionFixture) -> None:
    begun(services, 2)
    viewer = Client(Role.VIEWER, "127.0.0.1", ClientOptions(services.clock))
    services.admission.attach(viewer)
    await told(viewer)
    frame = jpeg_frame(3)
    for seat in range(2):
        services.slot.subscribers.show_frame(type(frame)(frame.header, frame.files, 0.1, seat=seat))
    services.admission.assignment.set_view(viewer, View(seat=1))
    kinds = [kind for kind, _ in await told(viewer)]
    assert kinds[:2] == ["reactor.welcome", "reactor.seats"]
    assert viewer.outbox.counters.offered == 2


async def test_a_viewer_that_repeats_a_seat_that_there_is_not_gets_one_welcome(services: AdmissionFixture) -> None:
    begun(services, 1)
    viewer = Client(Role.VIEWER, "127.0.0.1", ClientOptions(services.clock))
    services.admission.attach(viewer)
    await told(viewer)
    # As a client does after each welcome.
    for _ in range(3):
        services.admission.assignment.set_view(viewer, View(seat=SEATS))
    assert [kind for kind, _ in await told(viewer)].count("reactor.welcome") == 1
    assert viewer.seat == 0


async def rooms_told(client: Client) -> set[str | None]:
    return {data["room"] for kind, data in await told(client) if kind in ("reactor.welcome", "reactor.seats")}


async def test_only_clients_with_the_code_of_a_private_room_are_told_it(services: AdmissionFixture) -> None:
    options = ClientOptions(services.clock)
    stranger, invited = (Client(Role.VIEWER, "127.0.0.1", options, room=room) for room in ("", "secret"))
    services.admission.attach(stranger)
    controller = come(services, room="secret")
    services.begin()
    services.admission.attach(invited, session=services.session)
    services.admission.assignment.set_view(stranger, View(seat=1))
    come(services, room="secret")
    assert [await rooms_told(each) for each in (controller, stranger, invited)] == [{"secret"}, {None}, {"secret"}]


async def test_everybody_is_told_the_code_of_a_room_that_nobody_has_named(services: AdmissionFixture) -> None:
    first, viewer = come(services), Client(Role.VIEWER, "127.0.0.1", ClientOptions(services.clock))
    services.begin()
    services.admission.attach(viewer)
    code = session_of(services).room
    assert [await rooms_told(each) for each in (first, viewer)] == [{code}, {code}]


async def test_the_session_goes_on_without_its_host(services: AdmissionFixture) -> None:
    first, second = begun(services, 2)
    services.admission.detach(first)
    assert services.engine.of(ipc.ClientLeft) == [ipc.ClientLeft(services.session, first.id)]
    assert not services.engine.of(ipc.StopSession)
    assert (await seats_told(second))[-1] == [None, second.id, None]
    assert come(services).seat == 0
    services.admission.detach(second)
    assert not services.engine.of(ipc.StopSession)


async def test_a_controller_that_waits_and_watches_gets_each_change_of_the_seats(services: AdmissionFixture) -> None:
    clients = begun(services, 2 * SEATS)
    services.begin(2)
    options = ClientOptions(services.clock)
    waiting = Client(Role.CONTROLLER, "127.0.0.1", options, watches=True, room=session_of(services).room, seat=1)
    services.admission.attach(waiting)
    ids = [client.id for client in clients]
    assert await seats_told(waiting) == [ids[:SEATS]]
    services.admission.detach(clients[0])
    assert await seats_told(waiting) == [[None, *ids[1:SEATS]]]


async def test_the_last_controller_ends_the_session(services: AdmissionFixture) -> None:
    first, second = begun(services, 2)
    services.admission.detach(first)
    services.admission.detach(second)
    assert services.engine.of(ipc.StopSession)


async def test_a_seat_is_kept_for_its_controller_and_then_given_to_one_that_waits(services: AdmissionFixture) -> None:
    clients = begun(services, SEATS)
    waiting = come(services, room=session_of(services).room)
    assert await places(waiting) == [(1, 1)]
    services.admission.detach(clients[1], lost=True)
    assert not services.engine.of(ipc.Pause)
    assert await places(waiting) == []
    services.clock.move_to(services.clock.now() + LIMITS.resume_grace_s)
    assert waiting.seat == 1
    assert session_of(services).controllers == [clients[0], waiting, clients[2]]
    assert not services.engine.of(ipc.StopSession)


async def test_a_controller_resumes_its_seat_under_the_id_that_the_model_knows(services: AdmissionFixture) -> None:
    first, second = begun(services, 2)
    secret = session_of(services).seats[1].resume_secret or ""
    services.admission.detach(second, lost=True)
    again = come(services, resume=secret)
    assert (again.seat, joined(services)) == (1, [1])
    assert ["resumed" in await phases(client) for client in (first, again)] == [False, True]
    services.say(ipc.MessageSent(services.session, "hello", {}, second.id))
    assert "hello" in [kind for kind, _ in await told(again)]
    assert "hello" not in [kind for kind, _ in await told(first)]


async def test_the_others_get_the_seat_of_a_controller_that_is_away(services: AdmissionFixture) -> None:
    clients = begun(services, 2)
    (secret,) = {data["resume"] for kind, data in await told(clients[1]) if kind == "reactor.welcome"}
    await told(clients[0])
    services.admission.detach(clients[1], lost=True)
    again = come(services, resume=secret)
    seats = [data for kind, data in await told(clients[0]) if kind == "reactor.seats"]
    assert [each["away"] for each in seats] == [[1], []]
    assert [each["clients"][1] for each in seats] == [clients[1].id, again.id]


async def test_the_model_pauses_while_all_controllers_are_away(services: AdmissionFixture) -> None:
    first, second = begun(services, 2)
    secret = session_of(services).seats[0].resume_secret or ""
    services.admission.detach(first, lost=True)
    services.admission.detach(second, lost=True)
    assert services.engine.of(ipc.Pause) == [ipc.Pause(services.session, paused=True)]
    come(services, resume=secret)
    assert services.engine.of(ipc.Pause)[-1].paused is False


async def test_the_model_pauses_when_the_last_one_that_is_there_leaves(services: AdmissionFixture) -> None:
    first, second = begun(services, 2)
    services.admission.detach(first, lost=True)
    services.admission.detach(second)
    assert services.engine.of(ipc.Pause) == [ipc.Pause(services.session, paused=True)]
    assert come(services).seat == 1
    assert services.engine.of(ipc.Pause)[-1].paused is False


async def test_a_seat_that_was_left_counts_no_longer_for_its_address(services: AdmissionFixture) -> None:
    clients = begun(services, SEATS)
    queue = services.admission.wait_queue

    def place() -> int:
        """Return the position that another client of this address would have behind those of another one."""
        others = [Client(Role.CONTROLLER, "10.0.0.1", ClientOptions(services.clock)) for _ in range(4)]
        mine = Client(Role.CONTROLLER, "127.0.0.1", ClientOptions(services.clock))
        for each in (*others, mine):
            queue.join(each, free=9)
        found = list(queue.waiting).index(mine)
        for each in (*others, mine):
            queue.leave(each)
        return found

    with_all = place()
    services.admission.detach(clients[2])
    services.admission.detach(clients[1])
    assert place() < with_all


async def test_a_turn_is_that_of_a_seat(services: AdmissionFixture) -> None:
    clients = begun(services, SEATS)
    services.clock.move_to(services.clock.now() + 100)
    others = [come(services)]
    services.begin(2)
    others += [come(services) for _ in range(SEATS - 1)]
    waiting = come(services)
    everybody = [*clients, *others]
    # It has had its seat for the longest time.
    assert [client for client in everybody if "ending" in await phases(client)] == [clients[0]]
    for _ in range(2):
        for client in everybody:
            services.inbound.record_activity(client)
        services.clock.move_to(services.clock.now() + 100)
    assert clients[0].closing is not None
    assert clients[0].closing.code is CloseCode.SESSION_OVER
    assert waiting.seat == 0
    assert session_of(services).controllers == [waiting, *clients[1:]]


@pytest.fixture
def turns() -> Iterator[AdmissionFixture]:
    """Provide one session with two seats, turns of 300 s, and clients that are never idle."""
    services = AdmissionFixture(limits=TurnLimits(max_session_s=300), most_waiting=4)
    assert services.engine.contract is not None
    services.engine.contract["seats"] = 2
    services.slot.subscribers.set_seats(2)
    yield services
    os.close(services.memory)


def come_again_after_a_turn(turns: AdmissionFixture) -> tuple[Client, Client, Client]:
    """Fill a private room; return its second client, one that waits elsewhere, and the successor of the first."""
    first = come(turns, room="ours")
    turns.begin()
    second = come(turns, room="ours")
    stranger = come(turns)
    turns.clock.move_to(turns.clock.now() + 301)
    assert first.closing is not None
    return second, stranger, come(turns, room="ours")


async def test_a_private_room_is_not_filled_for_ever_while_others_wait(turns: AdmissionFixture) -> None:
    second, stranger, again = come_again_after_a_turn(turns)
    assert await places(again) == [(2, 2)]
    turns.clock.move_to(turns.clock.now() + 301)
    turns.end()
    assert second.closing is not None
    assert session_of(turns).controllers == [stranger]


async def test_a_public_room_is_not_filled_for_ever_while_one_waits_for_another_room(turns: AdmissionFixture) -> None:
    first, _ = begun(turns, 2)
    come(turns, room="mine")
    turns.clock.move_to(turns.clock.now() + 301)
    assert first.closing is not None
    assert await places(come(turns)) == [(2, 2)]


async def test_a_room_is_filled_until_its_time_is_over(turns: AdmissionFixture) -> None:
    first = come(turns, room="ours")
    turns.begin()
    come(turns, room="ours")
    come(turns)
    turns.clock.move_to(turns.clock.now() + 200)
    turns.admission.detach(first)
    assert come(turns, room="ours").seat == 0
    assert len(session_of(turns).controllers) == 2


async def test_a_room_is_filled_again_when_nobody_waits_for_another_one(turns: AdmissionFixture) -> None:
    second, stranger, again = come_again_after_a_turn(turns)
    turns.admission.detach(stranger)
    assert session_of(turns).controllers == [again, second]


async def test_a_client_that_waits_for_a_seat_of_the_room_keeps_no_other_seat_free(turns: AdmissionFixture) -> None:
    first, second = begun(turns, 2)
    turns.clock.move_to(turns.clock.now() + 301)
    waiting = come(turns, seat=0)
    turns.admission.detach(second)
    guest = come(turns)
    assert session_of(turns).controllers == [first, guest]
    assert await places(waiting) == [(1, 1)]


async def test_an_idle_controller_loses_its_seat_alone(services: AdmissionFixture) -> None:
    first, second = begun(services, 2)
    services.clock.move_to(services.clock.now() + 119)
    services.inbound.record_activity(first)
    services.clock.move_to(services.clock.now() + 2)
    assert "idle" in await phases(second)
    assert "idle" not in await phases(first)
    services.clock.move_to(services.clock.now() + 30)
    assert (await told(second))[-1] == (
        "reactor.session",
        {"phase": "ended", "reason": "idle", "message": "the controller was idle"},
    )
    assert first.closing is None
    assert not services.engine.of(ipc.StopSession)


async def test_a_room_is_for_the_clients_that_have_its_code(services: AdmissionFixture) -> None:
    first = come(services, room="ours")
    services.begin()
    stranger = come(services)
    services.begin(2)
    friend, guest = come(services, room="ours"), come(services, room=session_of(services, 2).room)
    assert [session_of(services).controllers, session_of(services, 2).controllers] == [
        [first, friend],
        [stranger, guest],
    ]
    assert session_of(services).room == "ours"


async def test_a_client_with_a_wish_delays_no_other(services: AdmissionFixture) -> None:
    begun(services, 1)
    come(services, room="other")
    services.begin(2)
    wish = come(services, room="third")
    assert await places(wish) == [(1, 1)]
    assert come(services).seat == 1
    assert await places(wish) == []


async def test_a_server_that_stops_offers_no_seats(services: AdmissionFixture) -> None:
    first, second = begun(services, 2)
    services.admission.drain(60.0)
    services.admission.detach(second)
    assert not services.engine.of(ipc.StopSession)
    assert first.closing is None
    services.admission.detach(first)
    assert services.engine.of(ipc.StopSession)


async def test_the_end_of_the_session_closes_all_controllers(services: AdmissionFixture) -> None:
    clients = begun(services, SEATS)
    services.end("boom")
    for client in clients:
        assert client.closing is not None
        assert client.closing.code is CloseCode.MODEL_FAILED
    assert services.slot.session is None


async def test_clients_that_come_at_the_same_time_share_a_session(services: AdmissionFixture) -> None:
    first, second = come(services), come(services)
    private = come(services, room="ours")
    assert await places(second) == [(1, 1)]
    services.begin()
    services.begin(2)
    assert [session_of(services).controllers, session_of(services, 2).controllers] == [[first, second], [private]]


async def test_the_files_of_a_client_that_has_resumed_are_those_of_the_one_that_the_model_knows(
    services: AdmissionFixture,
) -> None:
    _, second = begun(services, 2)
    session = session_of(services)
    secret = session.seats[1].resume_secret
    services.admission.detach(second, lost=True)
    key = (await told(second))[0][1]["upload_key"]
    again = come(services, resume=str(secret))
    assert (await told(again))[0][1]["upload_key"] == key
    assert session.uploader(key, shared=False) == second.id
    services.admission.detach(again)
    assert session.uploader(key, shared=False) is None


async def test_a_client_that_keeps_the_recording_gets_the_answer(services: AdmissionFixture) -> None:
    first, second = begun(services, 2)
    session = session_of(services)
    for client in (second, first):
        services.inbound.keep_recording(client, Keep(client.id))
    for number in range(2):
        session.on_engine_message(ipc.Kept(session.id, f"{number}.mcap", "", ""))
    texts = {client: [json.loads(item) for item in await drain(client.outbox)] for client in (first, second)}
    kept = {
        client: [(text["id"], text["data"]["file"]) for text in texts[client] if text["type"] == "reactor.keep"]
        for client in texts
    }
    assert kept == {first: [(first.id, "1.mcap")], second: [(second.id, "0.mcap")]}


async def test_a_recording_that_a_client_kept_before_it_resumed_is_no_answer_to_anyone_else(
    services: AdmissionFixture,
) -> None:
    first, second = begun(services, 2)
    session = session_of(services)
    services.inbound.keep_recording(second, Keep(5))
    services.admission.detach(second, lost=True)
    again = come(services, resume=str(session.seats[1].resume_secret))
    session.on_engine_message(ipc.Kept(session.id, "kept.mcap", "", ""))
    for client in (first, again):
        assert "reactor.keep" not in [kind for kind, _ in await told(client)]


@pytest.mark.parametrize("lost", [False, True])
async def test_the_end_of_a_session_tells_whether_the_connection_of_its_controller_broke(
    services: AdmissionFixture, lost: bool
) -> None:
    (controller,) = begun(services, 1)
    services.admission.detach(controller, lost=lost)
    services.clock.move_to(services.clock.now() + LIMITS.resume_grace_s)
    services.end()
    assert services.slot.last_end.is_broken is lost


async def test_a_session_that_stops_has_no_free_seats(services: AdmissionFixture) -> None:
    begun(services, 1)
    session_of(services).stop()
    other = come(services)
    assert session_of(services, 2).controllers == [other]


async def test_a_seat_of_a_session_that_stops_is_not_left(services: AdmissionFixture) -> None:
    first, _ = begun(services, 2)
    session_of(services).stop()
    services.admission.detach(first)
    assert not services.engine.of(ipc.ClientLeft)


async def test_a_session_that_has_ended_has_no_free_seats(services: AdmissionFixture) -> None:
    begun(services, 1)
    ended = session_of(services)
    services.end("boom")
    other = come(services)
    assert other not in ended.controllers
    assert [slot.session.controllers for slot in services.slots if slot.session is not None] == [[other]]


async def test_no_client_gets_a_seat_of_a_session_whose_engine_is_ending(services: AdmissionFixture) -> None:
    first, second = begun(services, 2)
    services.engine.phase = EnginePhase.LOADING
    assert not services.admission.slots.is_running(services.session)
    services.admission.detach(second)
    other, same_room = come(services), come(services, room=session_of(services).room)
    assert [session_of(services).controllers, session_of(services, 2).controllers] == [[first], [other]]
    services.crash()
    services.load()
    assert session_of(services).controllers == [same_room]


@pytest.mark.parametrize(
    ("role", "of_client", "why"),
    [
        (Role.CONTROLLER, {"seat": SEATS}, "there is no seat 3: a session of this model has the seats 0 to 2"),
        (Role.VIEWER, {"seat": SEATS}, "there is no seat 3: a session of this model has the seats 0 to 2"),
        (Role.CONTROLLER, {"stepped": True}, "a session of this model has 3 seats, and a stepped one has one"),
    ],
    ids=["a controller", "a viewer", "stepped"],
)
async def test_a_client_that_comes_too_early_to_be_refused_is_closed_when_the_seats_are_known(
    services: AdmissionFixture, role: Role, of_client: dict[str, Any], why: str
) -> None:
    for engine in services.engines:
        engine.phase = EnginePhase.LOADING
    early = Client(role, "127.0.0.1", ClientOptions(services.clock), **of_client)
    others = come(services, seat=1), Client(Role.VIEWER, "127.0.0.1", ClientOptions(services.clock), seat=1)
    for each in (early, others[1]):
        services.admission.attach(each)
    before = early.closing
    services.load()
    assert before is None
    assert early.closing is not None
    assert (early.closing.code, early.closing.reason.startswith(why)) == (CloseCode.BAD_REQUEST, True)
    services.admission.detach(early)
    services.begin()
    assert session_of(services).controllers == [others[0]]
    assert others[1] in services.slot.subscribers


async def test_a_viewer_goes_on_when_new_code_has_fewer_seats(services: AdmissionFixture) -> None:
    begun(services, 1)
    viewer = Client(Role.VIEWER, "127.0.0.1", ClientOptions(services.clock), seat=SEATS - 1)
    services.admission.attach(viewer)
    services.slot.on_engine_restart()
    for engine in services.engines:
        assert engine.contract is not None
        engine.contract["seats"] = SEATS - 1
    services.load()
    assert viewer.closing is None


@pytest.mark.parametrize(("phase", "is_refused"), [(EnginePhase.LOADING, False), (EnginePhase.READY, True)])
def test_only_a_loaded_model_has_a_known_number_of_seats(
    services: AdmissionFixture, phase: EnginePhase, is_refused: bool
) -> None:
    for engine in services.engines:
        engine.phase = phase
    assert bool(services.admission.slots.why_refused(SEATS, stepped=False)) is is_refused
