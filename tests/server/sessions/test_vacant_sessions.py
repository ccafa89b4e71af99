"""Sessions of models that follow their clients: without a controller, without any client, and before the next one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from reactor_runtime.errors import ModelFailed, to_json
from reactor_runtime.ipc import messages as ipc
from reactor_runtime.server.delivery.client import Client, Role
from reactor_runtime.server.options import TurnLimits
from reactor_runtime.server.workers.engine import EnginePhase
from reactor_runtime.wire.messages import Event
from reactor_runtime.wire.protocol import CloseCode
from tests.server.admission_fixture import AdmissionFixture, told

LIMITS = TurnLimits(outlives_s=60.0)


Make = Callable[..., AdmissionFixture]


@pytest.fixture
def make() -> Iterator[Make]:
    """Return a function that makes admission with engines of such a model."""
    all_made: list[AdmissionFixture] = []

    def of(*, shared: bool = False, **options: Any) -> AdmissionFixture:
        made = AdmissionFixture(**{"limits": LIMITS, **options})
        all_made.append(made)
        for number, engine in enumerate(made.engines, start=1):
            assert engine.contract is not None
            engine.contract |= {"follows_clients": True, "shared": shared}
            made.load(number)
        return made

    yield of
    for made in all_made:
        os.close(made.memory)


@pytest.fixture
def services(make: Make) -> AdmissionFixture:
    return make()


def began(services: AdmissionFixture, number: int = 1) -> Client:
    controller = services.come()
    services.begin(number)
    return controller


def stopped(services: AdmissionFixture) -> bool:
    return bool(services.engine.of(ipc.StopSession))


async def test_a_session_ends_60_s_after_its_last_client(services: AdmissionFixture) -> None:
    controller = began(services)
    services.admission.detach(controller)
    assert services.engine.of(ipc.ClientLeft) == [ipc.ClientLeft(services.session, controller.id)]
    await services.clock.advance(59.9)
    assert not stopped(services)
    await services.clock.advance(0.2)
    assert stopped(services)


async def test_a_controller_that_leaves_before_its_session_has_started_ends_it(services: AdmissionFixture) -> None:
    services.admission.detach(services.come())
    assert stopped(services)


async def test_a_viewer_keeps_it_alive(services: AdmissionFixture) -> None:
    controller = began(services)
    viewer = services.come(Role.VIEWER)
    assert services.engine.of(ipc.ClientJoined) == [
        ipc.ClientJoined(services.session, viewer.id, "viewer", viewer.joined_at_unix)
    ]
    services.admission.detach(controller, lost=True)
    await services.clock.advance(600)
    assert not stopped(services)
    services.admission.detach(viewer)
    await services.clock.advance(61)
    assert stopped(services)


async def test_viewers_of_the_session_before_are_clients_of_the_next(services: AdmissionFixture) -> None:
    viewer = services.come(Role.VIEWER)
    began(services)
    assert [joined.client for joined in services.engine.of(ipc.ClientJoined)] == [viewer.id]


async def test_another_controller_gets_a_session_of_its_own(services: AdmissionFixture) -> None:
    first = began(services)
    session = services.session
    services.admission.detach(first)
    await services.clock.advance(30)
    assert not stopped(services)
    second = services.come()
    assert stopped(services)
    assert second in services.admission.wait_queue.waiting
    services.end()
    assert services.session != session
    services.begin()
    welcome = next(data for kind, data in await told(second) if kind == "reactor.welcome")
    assert (welcome["role"], welcome["session"]) == ("controller", services.session)


async def test_a_session_whose_connection_broke_is_kept_for_its_controller(make: Make) -> None:
    services = make(engines=2)
    services.admission.detach(began(services, 1), lost=True)
    secret = services.slot.session.seats[0].resume_secret  # type: ignore[union-attr]
    other = services.come()
    assert services.slots[1].session is not None, "it gets the free slot"
    third = services.come()
    await services.clock.advance(59)
    assert not stopped(services)
    again = services.come(resume=secret or "")
    assert (await told(again))[1][1]["phase"] == "resumed"
    services.admission.detach(again, lost=True)
    # The time begins again with each loss.
    await services.clock.advance(59)
    assert not stopped(services)
    services.come(Role.VIEWER, session=services.session)
    await services.clock.advance(2)
    assert stopped(services), "a viewer does not keep it from those that wait"
    assert third in services.admission.wait_queue.waiting
    assert other not in services.admission.wait_queue.waiting


async def test_only_as_many_sessions_end_as_controllers_wait(make: Make) -> None:
    services = make(engines=2)
    first, second = began(services, 1), began(services, 2)
    services.admission.detach(second)
    services.admission.detach(first)
    services.come()
    assert [bool(engine.of(ipc.StopSession)) for engine in services.engines] == [False, True]
    services.come(Role.VIEWER)
    assert [bool(engine.of(ipc.StopSession)) for engine in services.engines] == [False, True]
    services.come()
    assert [bool(engine.of(ipc.StopSession)) for engine in services.engines] == [True, True]


@pytest.mark.parametrize("lost", [False, True])
async def test_the_next_controller_continues_a_shared_session_within_the_time(make: Make, lost: bool) -> None:
    services = make(shared=True)
    first = began(services)
    session, secret = services.session, services.slot.session.seats[0].resume_secret  # type: ignore[union-attr]
    services.admission.detach(first, lost=lost)
    await services.clock.advance(59)
    second = services.come()
    (kind, welcome), started = await told(second)
    assert (kind, welcome["role"], welcome["session"]) == ("reactor.welcome", "controller", session)
    assert welcome["resume"] not in (None, secret)
    assert started == ("reactor.session", {"phase": "started", "session": session})
    assert services.engine.of(ipc.ClientJoined)[-1].role == "controller"
    await services.clock.advance(600)
    assert not stopped(services)
    services.inbound.route_event(second, Event("set_level", "{}", 4))
    [event] = services.engine.of(ipc.ClientEvent)
    assert (event.client, event.ticket) == (second.id, 4)
    services.say(ipc.EventApplied(session, second.id, 4, 1))
    assert await told(second) == [("reactor.reply", {"n": 1})]


async def test_a_controller_that_waits_continues_a_shared_one_at_once(make: Make) -> None:
    services = make(shared=True)
    first = began(services)
    waiting = services.come(watches=True)
    await told(waiting)
    services.admission.detach(first)
    welcome, started = await told(waiting)
    assert (welcome[1]["role"], started[1]["session"]) == ("controller", services.session)
    # It was a client already, and has another role now.
    assert [joined.role for joined in services.engine.of(ipc.ClientJoined)] == ["viewer", "controller"]
    assert not services.admission.wait_queue.waiting


async def test_the_former_controller_resumes_it_while_it_has_none(services: AdmissionFixture) -> None:
    first = began(services)
    secret = services.slot.session.seats[0].resume_secret  # type: ignore[union-attr]
    services.admission.detach(first, lost=True)
    again = services.come(resume=secret or "")
    welcome, resumed = await told(again)
    assert (welcome[1]["role"], resumed[1]["phase"]) == ("controller", "resumed")
    await services.clock.advance(600)
    assert not stopped(services)


async def test_a_shared_session_has_a_key_of_uploads_for_each_client_that_is_there(make: Make) -> None:
    services = make(shared=True)
    first, session = began(services), services.slot.session
    assert session is not None
    former = session.uploads.key_of(first.id)
    assert session.uploader(former, shared=True) == first.id
    services.admission.detach(first)
    second = services.come()
    welcome, _ = await told(second)
    assert session.uploader(welcome[1]["upload_key"], shared=True) == second.id
    assert session.uploader(former, shared=True) is None


async def test_a_queue_without_room_admits_a_controller_to_it(make: Make) -> None:
    services = make(most_waiting=0)
    services.admission.detach(began(services))
    second = services.come()
    assert second.closing is None
    services.end()
    assert not services.admission.wait_queue.waiting


async def test_the_shared_session_that_has_waited_longest_is_continued_before_a_slot_is_used(make: Make) -> None:
    services = make(engines=3, shared=True)
    first, second = began(services, 1), began(services, 2)
    services.admission.detach(second)
    services.admission.detach(first)
    welcome, _ = await told(services.come())
    assert welcome[1]["session"] == services.session_in(2)
    welcome, _ = await told(services.come())
    assert welcome[1]["session"] == services.session_in(1)
    services.come()
    assert services.slots[2].session is not None


async def test_a_session_that_has_ended_meanwhile_is_not_continued(services: AdmissionFixture) -> None:
    services.admission.detach(began(services))
    session = services.session
    services.crash()
    services.load()
    services.come()
    assert services.session != session
    await services.clock.advance(61)
    assert not stopped(services), "the grace period was of the other session"


async def test_a_server_that_stops_ends_it(services: AdmissionFixture) -> None:
    controller = began(services)
    services.admission.drain(30)
    services.admission.detach(controller)
    assert stopped(services)


async def test_without_a_grace_period_it_ends_with_its_controller(make: Make) -> None:
    services = make(limits=TurnLimits(outlives_s=0.0))
    controller = began(services)
    services.come(Role.VIEWER)
    services.admission.detach(controller)
    assert stopped(services)
    sent = [type(message) for message in services.engine.told[-2:]]
    assert sent == [ipc.ClientLeft, ipc.StopSession]


async def test_another_turn_begins_with_another_controller(make: Make) -> None:
    services = make(shared=True, limits=TurnLimits(outlives_s=60.0, max_session_s=400.0))
    first = began(services)
    await services.clock.advance(390)
    services.admission.detach(first)
    services.come()
    services.come()
    await services.clock.advance(390)
    assert not stopped(services)
    await services.clock.advance(20)
    assert stopped(services)


async def test_a_controller_without_activity_ends_it_and_a_session_without_one_goes_on(make: Make) -> None:
    services = make(limits=TurnLimits(outlives_s=60.0, idle_timeout_s=10.0))
    first = began(services)
    services.come(Role.VIEWER)
    services.admission.detach(first)
    await services.clock.advance(300)
    assert not stopped(services)
    services.come()
    await services.clock.advance(21)
    assert stopped(services)


async def test_a_model_that_crashes_frees_its_slot_only_when_it_is_loaded(services: AdmissionFixture) -> None:
    controller = began(services)
    waiting = services.come()
    services.engine.phase = EnginePhase.LOADING
    services.say(ipc.Ended(services.session, to_json(ModelFailed("CUDA")), crashed=True))
    assert controller.closing is not None
    assert controller.closing.code == CloseCode.MODEL_FAILED
    assert waiting in services.admission.wait_queue.waiting
    services.load()
    assert waiting not in services.admission.wait_queue.waiting
