"""Several engines behind one line: who is served where, who sees what, and what each failure is to the others."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import pytest

from reactor_runtime.seam import messages as seam
from reactor_runtime.server.connection import Role
from reactor_runtime.server.health import health_status, why_not_ready
from reactor_runtime.server.lobby import drain
from reactor_runtime.server.supervisor import EnginePhase
from reactor_runtime.server.turn import TurnLimits
from reactor_runtime.wire.messages import Event, View
from tests.server.house import House, phases, places, told, types
from tests.server.house import drain as drained
from tests.server.test_lobby import FRAME


@pytest.fixture
def house() -> Iterator[House]:
    house = House(engines=2)
    yield house
    os.close(house.memory)


def welcomed(messages: list[tuple[str, dict[str, object]]]) -> list[object]:
    """List the sessions a client was welcomed to."""
    return [data["session"] for kind, data in messages if kind == "reactor.welcome"]


async def test_each_hall_takes_one_from_the_line_and_the_next_to_be_free_the_next(house: House) -> None:
    first, second, third, fourth = (house.come() for _ in range(4))
    for number, controller in ((1, first), (2, second)):
        session = house.begin(number)
        assert welcomed(await told(controller)) == [session]
    assert await places(third) == [(1, 1), (1, 2)]
    assert await places(fourth) == [(2, 2)]
    house.lobby.detach(second)
    house.end(number=2)
    assert welcomed([*await told(third)]) == []
    assert house.begin(2) == house.session_in(2)
    assert third.ids["session"] == house.session_in(2)
    assert await places(fourth) == [(1, 1)]


async def test_who_comes_while_all_load_is_served_by_the_engine_that_is_ready_first(house: House) -> None:
    for engine in house.engines:
        engine.phase = EnginePhase.LOADING
    first, second = house.come(), house.come()
    assert await phases(second) == ["loading"]
    house.load(2)
    assert house.halls[1].session is not None
    assert house.halls[1].session.controller is first
    assert await places(second) == [(1, 1)]
    house.load(1)
    assert house.hall.session is not None
    assert house.hall.session.controller is second


async def test_nobody_hears_of_loading_while_one_engine_is_ready(house: House) -> None:
    controller, viewer = house.come(), house.come(Role.VIEWER)
    house.begin()
    await told(controller), await told(viewer)
    house.crash(2)
    newcomer = house.come()
    assert await phases(controller) == await phases(viewer) == []
    assert await types(newcomer) == ["reactor.queue"]
    assert health_status(house.lobby) == "busy"


async def test_a_crash_ends_its_own_session_alone(house: House) -> None:
    first, second = house.come(), house.come()
    house.begin(1), house.begin(2)
    await told(first)
    house.crash(2)
    assert second.closing is not None
    assert second.closing.code == 1011
    assert first.closing is None
    assert await told(first) == []
    assert (house.hall.losses, house.halls[1].losses) == (0, 1)


async def test_events_and_answers_stay_in_their_session(house: House) -> None:
    controllers = [house.come(), house.come()]
    for number, controller in enumerate(controllers, start=1):
        house.begin(number)
        house.intake.event(controller, Event("set_level", f'{{"level": {number}}}', number))
        await told(controller)
    for engine, controller in zip(house.engines, controllers, strict=True):
        (event,) = engine.of(seam.ClientEvent)
        assert event.client == controller.id
    house.say(seam.Answer(house.session_in(2), controllers[1].id, 2, 1), 2)
    house.say(seam.StateChanged(house.session_in(2), {"level": 2}), 2)
    assert await told(controllers[0]) == []
    assert await types(controllers[1]) == ["reactor.reply", "reactor.state"]


async def test_pictures_of_a_session_reach_those_who_see_it(house: House) -> None:
    first, second, viewer = house.come(), house.come(), house.come(Role.VIEWER)
    house.begin(1), house.begin(2)
    house.halls[1].audience.show(FRAME)
    assert [each.outbox.counters.offered for each in (first, second, viewer)] == [0, 1, 0]


async def test_a_viewer_names_a_session_or_sees_the_one_that_has_run_longest(house: House) -> None:
    house.come(), house.come()
    older = house.begin(2)
    house.clock.spend(1)
    newer = house.begin(1)
    for wanted, session in (("", older), (newer, newer), ("s-unknown", older)):
        viewer = house.come(Role.VIEWER, session=wanted)
        house.lobby.detach(viewer)
        assert welcomed(await told(viewer)) == [session]


async def test_a_viewer_whose_session_ends_is_welcomed_to_another(house: House) -> None:
    first, _ = house.come(), house.come()
    mine, other = house.begin(1), house.begin(2, level=2)
    viewer = house.come(Role.VIEWER, session=mine)
    house.halls[1].audience.show(FRAME)
    await told(viewer)
    house.lobby.detach(first)
    house.end()
    messages = await told(viewer)
    assert [data.get("phase") for _, data in messages] == ["ended", None]
    assert welcomed(messages) == [other]
    assert messages[-1][1]["state"] == {"level": 2}
    assert viewer.outbox.counters.offered == 1  # the picture on screen there
    assert viewer not in house.audience


async def test_a_viewer_that_owes_acknowledgements_sees_the_other_session_at_once(house: House) -> None:
    first, _ = house.come(), house.come()
    mine, _ = house.begin(1), house.begin(2)
    viewer = house.come(Role.VIEWER, session=mine)
    for seq in range(4):
        house.audience.show(replace(FRAME, seq=seq))
        await drained(viewer.outbox)
        if seq == 0:
            viewer.outbox.acknowledge("video", seq)
    assert viewer.outbox.counters.sent == 3  # what its window lets through
    house.lobby.detach(first)
    house.end()
    house.halls[1].audience.show(replace(FRAME, seq=5000))
    await drained(viewer.outbox)
    assert viewer.outbox.counters.sent == 4


async def test_a_viewer_with_nothing_to_see_is_shown_the_next_session_wherever_that_is(house: House) -> None:
    viewer = house.come(Role.VIEWER)
    controller = house.come()
    house.begin()
    house.lobby.detach(controller)
    house.end()
    await told(viewer)
    house.halls[0].failed_in_a_row = 1
    house.come()
    session = house.begin(2, level=5)
    assert await told(viewer) == [
        ("reactor.session", {"phase": "started", "session": session}),
        ("reactor.state", {"level": 5}),
    ]


async def test_a_viewer_goes_on_watching_its_session_when_another_begins(house: House) -> None:
    house.come()
    house.begin()
    viewer = house.come(Role.VIEWER)
    await told(viewer)
    house.come()
    house.begin(2)
    assert await told(viewer) == []


async def test_what_a_client_wants_to_be_sent_holds_in_each_session_it_is_shown(house: House) -> None:
    first, _ = house.come(), house.come()
    house.begin(1), house.begin(2)
    viewer = house.come(Role.VIEWER)
    house.lobby.gallery.look(viewer, View(paused=True))
    house.lobby.detach(first)
    house.end()
    house.halls[1].audience.show(FRAME)
    assert viewer.outbox.counters.offered == 0


async def test_who_watches_in_line_sees_nothing_more_of_it_in_its_own_turn(house: House) -> None:
    _, second = house.come(), house.come()
    house.begin(1), house.begin(2)
    waiting = house.come(watches=True)
    assert waiting in house.audience
    house.lobby.detach(second)
    house.end(number=2)
    assert waiting not in house.audience
    house.audience.show(FRAME)
    house.begin(2)
    messages = await told(waiting)
    assert [data["role"] for kind, data in messages if kind == "reactor.welcome"] == ["viewer", "controller"]
    assert waiting.outbox.counters.offered == 0


async def test_a_controller_comes_back_to_the_session_whose_secret_it_has() -> None:
    house = House(engines=2, limits=TurnLimits(resume_grace_s=10.0))
    _, second = house.come(), house.come()
    house.begin(1), house.begin(2)
    assert house.halls[1].session is not None
    secret = house.halls[1].session.resume_secret or ""
    house.lobby.detach(second, lost=True)
    assert house.engines[1].of(seam.Hold)
    assert not house.engine.of(seam.Hold)
    back = house.come(resume=secret)
    assert house.halls[1].session.controller is back
    assert welcomed(await told(back)) == [house.session_in(2)]


async def test_only_as_many_turns_end_as_people_wait_and_the_longest_first() -> None:
    house = House(engines=2, limits=TurnLimits(max_session_s=60))
    first, second = house.come(), house.come()
    house.begin(2)
    house.clock.spend(5)
    house.begin(1)
    await told(first), await told(second)
    waiting = house.come()
    assert await phases(second) == ["ending"]
    assert await phases(first) == []
    another = house.come()
    assert await phases(first) == ["ending"]
    house.lobby.detach(another)
    assert await phases(first) == ["ending"]  # not any more
    house.clock.move_to(house.clock.now() + 59)
    assert house.engines[1].of(seam.StopSession)
    assert not house.engine.of(seam.StopSession)
    house.end(number=2)
    house.begin(2)
    assert house.halls[1].session is not None
    assert house.halls[1].session.controller is waiting


async def test_an_engine_whose_sessions_fail_is_tried_last(house: House) -> None:
    house.come()
    house.begin()
    house.end("no")
    house.come()
    assert house.hall.session is None
    assert house.halls[1].session is not None
    house.come()
    assert house.hall.session is not None


async def test_the_model_is_as_well_as_the_best_of_its_engines(house: House) -> None:
    engines = house.engines
    assert (health_status(house.lobby), why_not_ready(house.lobby)) == ("ready", "")
    engines[1].phase = EnginePhase.FAILED
    assert health_status(house.lobby) == "ready"
    house.come()
    house.begin()
    assert health_status(house.lobby) == "busy"
    engines[1].phase = EnginePhase.LOADING
    house.crash()
    engines[1].phase = EnginePhase.FAILED
    assert health_status(house.lobby) == "loading"
    engines[0].phase = EnginePhase.FAILED
    assert health_status(house.lobby) == "failed"


async def test_where_nobody_may_wait_as_many_are_let_in_as_there_are_engines() -> None:
    house = House(engines=2, most_waiting=0)
    for engine in house.engines:
        engine.phase = EnginePhase.LOADING
    assert [house.come().closing is None for _ in range(3)] == [True, True, False]


async def test_draining_tells_the_clients_of_every_session(house: House) -> None:
    controllers = [house.come(), house.come()]
    house.begin(1), house.begin(2)
    for each in controllers:
        await told(each)
    drain(house.lobby, 25.0)
    assert [await phases(each) for each in controllers] == [["stopping"], ["stopping"]]
