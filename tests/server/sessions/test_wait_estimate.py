from __future__ import annotations

import pytest

from reactor_runtime.server.options import TurnLimits
from reactor_runtime.server.sessions.wait_estimate import TurnLengths
from tests.server.admission_fixture import AdmissionFixture, told


def lengths(*lasted_s: float, limits: TurnLimits | None = None) -> TurnLengths:
    measured = TurnLengths(limits or TurnLimits())
    for length in lasted_s:
        measured.begin(1, 100.0)
        measured.end(1, 100.0 + length)
    return measured


def waits(measured: TurnLengths, *lasted_s: float, most: int = 4) -> list[float]:
    estimate = measured.estimate(lasted_s)
    return [] if estimate is None else [estimate.wait_s(position) for position in range(1, most + 1)]


def test_without_a_limit_and_a_turn_that_has_ended_nothing_is_known() -> None:
    assert waits(lengths(), 20) == []


def test_while_no_turn_runs_nothing_is_known() -> None:
    assert waits(lengths(limits=TurnLimits(max_session_s=300))) == []


@pytest.mark.parametrize(
    ("measured", "first"),
    [(lengths(limits=TurnLimits(max_session_s=300)), 280), (lengths(10, 60, 900), 40)],
    ids=["the limit", "the median"],
)
def test_a_wait_is_the_rest_of_the_turn_and_whole_turns_after_it(measured: TurnLengths, first: float) -> None:
    turn_s = first + 20
    assert waits(measured, 20) == [first, first + turn_s, first + 2 * turn_s, first + 3 * turn_s]


def test_the_turns_of_all_slots_end_one_after_the_other() -> None:
    limits = TurnLimits(max_session_s=300)
    assert waits(lengths(limits=limits), 100, 250) == [50, 200, 350, 500]


def test_a_turn_over_its_limit_has_the_time_of_the_notice() -> None:
    limits = TurnLimits(max_session_s=300)
    assert waits(lengths(limits=limits), 4000, most=1) == [limits.notice_s]


def test_a_turn_longer_than_most_is_expected_to_last_as_long_again() -> None:
    assert waits(lengths(60), 4000, most=1) == [60]


async def test_a_position_comes_with_the_estimated_wait() -> None:
    services = AdmissionFixture(limits=TurnLimits(max_session_s=300))
    services.come()
    services.begin()
    services.clock.move_to(services.clock.now() + 100)
    waiting = services.come()
    assert await told(waiting) == [("reactor.queue", {"position": 1, "length": 1, "wait_s": 200.0})]


async def test_ended_sessions_are_measured() -> None:
    services = AdmissionFixture()
    services.come()
    services.begin()
    services.clock.move_to(services.clock.now() + 40)
    services.come()
    services.end()
    services.begin()
    waiting = services.come()
    assert await told(waiting) == [("reactor.queue", {"position": 1, "length": 1, "wait_s": 40.0})]
