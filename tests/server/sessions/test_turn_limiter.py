from __future__ import annotations

from reactor_runtime.server.options import TurnLimits
from reactor_runtime.server.sessions.session import SessionPhase
from tests.server.admission_fixture import AdmissionFixture, phases

LIMITS = TurnLimits(max_session_s=600.0)


async def test_the_turns_of_many_sessions_are_limited_soon_and_together() -> None:
    services = AdmissionFixture(engines=65, most_waiting=4, limits=TurnLimits(max_session_s=600.0))
    controllers = [services.come() for _ in range(65)]
    for number in range(1, 66):
        services.begin(number)
    services.come()
    services.come()
    assert "ending" not in await phases(controllers[0])
    await services.clock.advance(0.2)
    assert ["ending" in await phases(controller) for controller in controllers[:3]] == [True, True, False]
    assert services.clock.pending == 2


async def test_a_session_that_stops_makes_room_for_a_client_that_waits() -> None:
    services = AdmissionFixture(engines=3, most_waiting=4, limits=LIMITS)
    controllers = [services.come() for _ in range(3)]
    for number in range(1, 4):
        services.begin(number)
    services.come()
    services.come()
    assert ["ending" in await phases(each) for each in controllers] == [True, True, False]
    services.admission.detach(controllers[0])
    # Its engine has not ended it yet: one of the two that wait gets its slot.
    sessions = [slot.session for slot in services.slots if slot.session is not None]
    running = [each.seats[0].turn for each in sessions if each.phase is SessionPhase.RUNNING]
    assert [turn.left_s is not None for turn in running] == [True, False]


async def test_a_turn_is_not_limited_any_more_when_the_client_that_waits_leaves() -> None:
    services = AdmissionFixture(limits=LIMITS)
    controller = services.come()
    services.begin()
    waiting = services.come()
    assert "ending" in await phases(controller)
    services.admission.detach(waiting)
    assert services.clock.pending == 0
