from __future__ import annotations

from reactor_runtime.server.options import TurnLimits
from tests.server.admission_fixture import AdmissionFixture, phases


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
