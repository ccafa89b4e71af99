"""Several slots and one wait queue: which client gets which slot, and what a failure of one means for the others."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from reactor_runtime.ipc import messages as ipc
from reactor_runtime.server.delivery.client import Role
from reactor_runtime.server.options import TurnLimits
from reactor_runtime.server.routes.health import health_status, why_not_ready
from reactor_runtime.server.workers.engine import EnginePhase
from reactor_runtime.wire.messages import Event, View
from tests.fakes import jpeg_frame
from tests.server.admission_fixture import AdmissionFixture, phases, places, told, types
from tests.server.admission_fixture import drain as drained
from tests.server.sessions.test_admission import FRAME


@pytest.fixture
def services() -> Iterator[AdmissionFixture]:
    services = AdmissionFixture(engines=2)
    yield services
    os.close(services.memory)


def welcomed(messages: list[tuple[str, dict[str, object]]]) -> list[object]:
    """Return the sessions of the welcomes in these messages."""
    return [data["session"] for kind, data in messages if kind == "reactor.welcome"]


async def test_each_slot_gets_one_controller_and_the_first_free_slot_the_next(services: AdmissionFixture) -> None:
    first, second, third, fourth = (services.come() for _ in range(4))
    for number, controller in ((1, first), (2, second)):
        session = services.begin(number)
        assert welcomed(await told(controller)) == [session]
    assert await places(third) == [(1, 1), (1, 2)]
    assert await places(fourth) == [(2, 2)]
    services.admission.detach(second)
    services.end(number=2)
    assert welcomed([*await told(third)]) == []
    assert services.begin(2) == services.session_in(2)
    assert third.ids["session"] == services.session_in(2)
    assert await places(fourth) == [(1, 1)]


async def test_the_engine_that_is_ready_first_gets_the_client_that_waits_longest(services: AdmissionFixture) -> None:
    for engine in services.engines:
        engine.phase = EnginePhase.LOADING
    first, second = services.come(), services.come()
    assert await phases(second) == ["loading"]
    services.load(2)
    assert services.slots[1].session is not None
    assert services.slots[1].session.controller is first
    assert await places(second) == [(1, 1)]
    services.load(1)
    assert services.slot.session is not None
    assert services.slot.session.controller is second


async def test_no_loading_message_is_sent_while_one_engine_is_ready(services: AdmissionFixture) -> None:
    controller, viewer = services.come(), services.come(Role.VIEWER)
    services.begin()
    await told(controller), await told(viewer)
    services.crash(2)
    newcomer = services.come()
    assert await phases(controller) == await phases(viewer) == []
    assert await types(newcomer) == ["reactor.queue"]
    assert health_status(services.admission) == "busy"


async def test_a_crash_ends_only_its_own_session(services: AdmissionFixture) -> None:
    first, second = services.come(), services.come()
    services.begin(1), services.begin(2)
    await told(first)
    services.crash(2)
    assert second.closing is not None
    assert second.closing.code == 1011
    assert first.closing is None
    assert await told(first) == []
    assert (services.slot.losses, services.slots[1].losses) == (0, 1)


async def test_events_and_answers_stay_in_their_session(services: AdmissionFixture) -> None:
    controllers = [services.come(), services.come()]
    for number, controller in enumerate(controllers, start=1):
        services.begin(number)
        services.inbound.route_event(controller, Event("set_level", f'{{"level": {number}}}', number))
        await told(controller)
    for engine, controller in zip(services.engines, controllers, strict=True):
        (event,) = engine.of(ipc.ClientEvent)
        assert event.client == controller.id
    services.say(ipc.EventApplied(services.session_in(2), controllers[1].id, 2, 1), 2)
    services.say(ipc.StateChanged(services.session_in(2), {"level": 2}), 2)
    assert await told(controllers[0]) == []
    assert await types(controllers[1]) == ["reactor.reply", "reactor.state"]


async def test_frames_of_a_session_reach_only_its_subscribers(services: AdmissionFixture) -> None:
    first, second, viewer = services.come(), services.come(), services.come(Role.VIEWER)
    services.begin(1), services.begin(2)
    services.slots[1].subscribers.show_frame(FRAME)
    assert [each.outbox.counters.offered for each in (first, second, viewer)] == [0, 1, 0]


async def test_a_viewer_gets_the_session_it_names_or_the_one_that_has_run_longest(services: AdmissionFixture) -> None:
    services.come(), services.come()
    older = services.begin(2)
    services.clock.spend(1)
    newer = services.begin(1)
    for wanted, session in (("", older), (newer, newer), ("s-unknown", older)):
        viewer = services.come(Role.VIEWER, session=wanted)
        services.admission.detach(viewer)
        assert welcomed(await told(viewer)) == [session]


async def test_a_viewer_gets_a_session_that_runs_rather_than_an_older_one_that_stops(
    services: AdmissionFixture,
) -> None:
    first, _ = services.come(), services.come()
    services.begin(1)
    services.clock.spend(1)
    newer = services.begin(2)
    services.admission.detach(first)
    assert welcomed(await told(services.come(Role.VIEWER))) == [newer]


async def test_a_viewer_whose_session_ends_gets_another(services: AdmissionFixture) -> None:
    first, _ = services.come(), services.come()
    mine, other = services.begin(1), services.begin(2, level=2)
    viewer = services.come(Role.VIEWER, session=mine)
    services.slots[1].subscribers.show_frame(FRAME)
    await told(viewer)
    services.admission.detach(first)
    services.end()
    messages = await told(viewer)
    assert [data.get("phase") for _, data in messages] == ["ended", None]
    assert welcomed(messages) == [other]
    assert messages[-1][1]["state"] == {"level": 2}
    assert viewer.outbox.counters.offered == 1  # the latest frame of that session
    assert viewer not in services.subscribers


async def test_a_viewer_with_a_full_send_window_sees_the_other_session_at_once(services: AdmissionFixture) -> None:
    first, _ = services.come(), services.come()
    mine, _ = services.begin(1), services.begin(2)
    viewer = services.come(Role.VIEWER, session=mine)
    for seq in range(4):
        services.subscribers.show_frame(jpeg_frame(seq))
        await drained(viewer.outbox)
        if seq == 0:
            viewer.outbox.acknowledge("video", seq)
    assert viewer.outbox.counters.sent == 3  # the size of its send window
    services.admission.detach(first)
    services.end()
    services.slots[1].subscribers.show_frame(jpeg_frame(5000))
    await drained(viewer.outbox)
    assert viewer.outbox.counters.sent == 4


async def test_a_viewer_without_a_session_gets_the_next_one_on_any_slot(
    services: AdmissionFixture,
) -> None:
    viewer = services.come(Role.VIEWER)
    controller = services.come()
    services.begin()
    services.admission.detach(controller)
    services.end()
    await told(viewer)
    services.slots[0].failed_in_a_row = 1
    services.come()
    session = services.begin(2, level=5)
    assert await told(viewer) == [
        ("reactor.session", {"phase": "started", "session": session}),
        ("reactor.state", {"level": 5}),
    ]


async def test_a_viewer_keeps_its_session_when_another_starts(services: AdmissionFixture) -> None:
    services.come()
    services.begin()
    viewer = services.come(Role.VIEWER)
    await told(viewer)
    services.come()
    services.begin(2)
    assert await told(viewer) == []


async def test_a_viewer_keeps_its_session_when_another_ends(services: AdmissionFixture) -> None:
    first, _ = services.come(), services.come()
    services.begin(1)
    viewer = services.come(Role.VIEWER, session=services.begin(2))
    await told(viewer)
    services.admission.detach(first)
    services.end()
    assert await told(viewer) == []


@pytest.mark.parametrize("last", [1, 2])
def test_a_viewer_without_a_session_sees_the_slot_that_was_used_last(services: AdmissionFixture, last: int) -> None:
    controllers = [services.come(), services.come()]
    for number in (3 - last, last):
        services.begin(number)
        services.admission.detach(controllers[number - 1])
        services.end(number=number)
    assert services.come(Role.VIEWER) in services.slots[last - 1].subscribers


async def test_a_viewer_without_a_session_gets_the_welcome_of_a_slot_that_is_ready(services: AdmissionFixture) -> None:
    services.engine.phase = EnginePhase.LOADING
    assert await types(services.come(Role.VIEWER)) == ["reactor.welcome"]


def test_the_tracks_of_the_pool_are_the_output_tracks_of_the_contract(services: AdmissionFixture) -> None:
    services.engine.contract = services.engines[1].contract = None
    assert services.admission.slots.tracks is None
    tracks = [{"name": "screen", "direction": "out"}, {"name": "camera", "direction": "in"}]
    services.engines[1].contract = {"tracks": tracks, "schema": {}}
    assert services.admission.slots.tracks == ["screen"]


async def test_the_view_of_a_client_applies_to_each_session_it_gets(services: AdmissionFixture) -> None:
    first, _ = services.come(), services.come()
    services.begin(1), services.begin(2)
    viewer = services.come(Role.VIEWER)
    services.admission.assignment.set_view(viewer, View(paused=True))
    services.admission.detach(first)
    services.end()
    services.slots[1].subscribers.show_frame(FRAME)
    assert viewer.outbox.counters.offered == 0


async def test_a_waiting_client_that_watches_is_unsubscribed_when_it_gets_a_slot(services: AdmissionFixture) -> None:
    _, second = services.come(), services.come()
    services.begin(1), services.begin(2)
    waiting = services.come(watches=True)
    assert waiting in services.subscribers
    services.admission.detach(second)
    services.end(number=2)
    assert waiting not in services.subscribers
    services.subscribers.show_frame(FRAME)
    services.begin(2)
    messages = await told(waiting)
    assert [data["role"] for kind, data in messages if kind == "reactor.welcome"] == ["viewer", "controller"]
    assert waiting.outbox.counters.offered == 0


async def test_a_controller_resumes_the_session_whose_secret_it_has() -> None:
    services = AdmissionFixture(engines=2, limits=TurnLimits(resume_grace_s=10.0))
    _, second = services.come(), services.come()
    services.begin(1), services.begin(2)
    assert services.slots[1].session is not None
    secret = services.slots[1].session.seats[0].resume_secret or ""
    services.admission.detach(second, lost=True)
    assert services.engines[1].of(ipc.Pause)
    assert not services.engine.of(ipc.Pause)
    back = services.come(resume=secret)
    assert services.slots[1].session.controller is back
    assert welcomed(await told(back)) == [services.session_in(2)]


async def test_as_many_turns_end_as_clients_wait_and_the_longest_first() -> None:
    services = AdmissionFixture(engines=2, limits=TurnLimits(max_session_s=60))
    first, second = services.come(), services.come()
    services.begin(2)
    services.clock.spend(5)
    services.begin(1)
    await told(first), await told(second)
    waiting = services.come()
    assert await phases(second) == ["ending"]
    assert await phases(first) == []
    another = services.come()
    assert await phases(first) == ["ending"]
    services.admission.detach(another)
    assert await phases(first) == ["ending"]  # which is called off
    services.clock.move_to(services.clock.now() + 59)
    assert services.engines[1].of(ipc.StopSession)
    assert not services.engine.of(ipc.StopSession)
    services.end(number=2)
    services.begin(2)
    assert services.slots[1].session is not None
    assert services.slots[1].session.controller is waiting


async def test_a_turn_is_no_longer_limited_when_another_controller_leaves() -> None:
    services = AdmissionFixture(engines=2, limits=TurnLimits(max_session_s=60))
    first, second = services.come(), services.come()
    services.begin(1), services.begin(2)
    services.come()
    assert (await told(first))[-1] == ("reactor.session", {"phase": "ending", "seconds": 60})
    services.admission.detach(second)
    assert await told(first) == [("reactor.session", {"phase": "ending", "seconds": None})]
    os.close(services.memory)


async def test_a_client_whose_slot_ends_a_session_holds_up_none_for_another_slot() -> None:
    services = AdmissionFixture(engines=2)
    leaving = services.come(slot=1)
    services.begin()
    services.admission.detach(leaving)
    waiting, other = services.come(slot=1), services.come(slot=2)
    assert services.slots[1].session is not None
    assert services.slots[1].session.controller is other
    services.end()
    assert services.slots[0].session is not None
    assert services.slots[0].session.controller is waiting


async def test_a_client_that_waits_for_its_slot_changes_no_turn_that_its_front_has_limited() -> None:
    services = AdmissionFixture(engines=3, limits=TurnLimits(max_session_s=60))
    controllers = [services.come(slot=number) for number in (1, 2, 3)]
    for number, controller in enumerate(controllers, 1):
        services.begin(number)
        controller.ids["ticket"] = f"t-{number}"
    for slot in services.slots:
        slot.limit_turns(["t-2"])
    services.admission.detach(controllers[2])
    assert [await phases(each) for each in controllers[:2]] == [["started"], ["started", "ending"]]
    services.come(slot=3)
    services.end(number=3)
    assert [await phases(each) for each in controllers[:2]] == [[], []]


async def test_a_slot_whose_sessions_fail_is_assigned_last(services: AdmissionFixture) -> None:
    services.come()
    services.begin()
    services.end("no")
    services.come()
    assert services.slot.session is None
    assert services.slots[1].session is not None
    services.come()
    assert services.slot.session is not None


async def test_health_is_that_of_the_best_engine(services: AdmissionFixture) -> None:
    engines = services.engines
    assert (health_status(services.admission), why_not_ready(services.admission)) == ("ready", "")
    engines[1].phase = EnginePhase.FAILED
    assert health_status(services.admission) == "ready"
    services.come()
    services.begin()
    assert health_status(services.admission) == "busy"
    engines[1].phase = EnginePhase.LOADING
    services.crash()
    engines[1].phase = EnginePhase.FAILED
    assert health_status(services.admission) == "loading"
    engines[0].phase = EnginePhase.FAILED
    assert health_status(services.admission) == "failed"


async def test_without_a_wait_queue_as_many_clients_are_admitted_as_there_are_slots() -> None:
    services = AdmissionFixture(engines=2, most_waiting=0)
    for engine in services.engines:
        engine.phase = EnginePhase.LOADING
    assert [services.come().closing is None for _ in range(3)] == [True, True, False]


async def test_without_a_wait_queue_a_slot_with_a_session_and_one_that_failed_have_no_room() -> None:
    services = AdmissionFixture(engines=3, most_waiting=0)
    services.engines[2].phase = EnginePhase.FAILED
    assert [services.come().closing is None for _ in range(3)] == [True, True, False]
    os.close(services.memory)


async def test_draining_sends_a_message_to_the_clients_of_every_session(services: AdmissionFixture) -> None:
    controllers = [services.come(), services.come()]
    services.begin(1), services.begin(2)
    for each in controllers:
        await told(each)
    services.admission.drain(25.0)
    assert [await phases(each) for each in controllers] == [["stopping"], ["stopping"]]
