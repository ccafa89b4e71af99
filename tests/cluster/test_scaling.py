from __future__ import annotations

import pytest

from reactor_runtime.cluster.front.scaling import Plan, Scaling, WorkerState, make_plan

LIMITS = Scaling(least=1, most=4, spare=1, idle_after_s=60)


def workers(*, busy: int = 0, loading: int = 0, idle: tuple[float, ...] = (), requested: int = 0) -> list[WorkerState]:
    return [
        *[WorkerState(f"b{number}", busy=True, idle_since=None) for number in range(busy)],
        *[WorkerState(f"l{number}", busy=False, idle_since=None) for number in range(loading)],
        *[WorkerState(f"i{number}", busy=False, idle_since=since) for number, since in enumerate(idle)],
        *[WorkerState(f"r{number}", busy=False, idle_since=None, requested=True) for number in range(requested)],
    ]


@pytest.mark.parametrize(
    ("fleet", "waiting", "starts"),
    [
        (workers(), 0, 1),
        (workers(busy=1), 0, 1),
        (workers(busy=1, loading=1), 0, 0),
        (workers(busy=1, loading=1), 1, 1),
        (workers(busy=2), 10, 2),
        (workers(busy=4), 10, 0),
    ],
    ids=["the spare one", "a spare one again", "one loads", "one more for who waits", "at most four", "full"],
)
def test_a_plan_starts_what_sessions_queue_and_spare_need(fleet: list[WorkerState], waiting: int, starts: int) -> None:
    assert make_plan(LIMITS, fleet, waiting, now=100.0).start == starts


def test_a_plan_releases_those_that_are_idle_longest_when_their_time_is_over() -> None:
    plan = make_plan(LIMITS, workers(busy=1, idle=(30.0, 10.0, 90.0)), 0, now=80.0)
    assert plan == Plan(0, ("i1",), 30.0 + 60)


def test_a_plan_never_releases_a_session_or_what_the_queue_needs() -> None:
    assert make_plan(LIMITS, workers(busy=4, idle=(0.0,)), 0, now=1e6).release == ("i0",)
    assert make_plan(LIMITS, workers(busy=5), 0, now=1e6) == Plan(0, (), None)
    assert make_plan(LIMITS, workers(busy=1, idle=(0.0, 0.0)), 1, now=1e6).release == ()


def test_a_plan_withdraws_the_newest_requests_before_it_releases_a_worker() -> None:
    assert make_plan(LIMITS, workers(requested=14), 0, now=0.0) == Plan(0, tuple(f"r{n}" for n in range(1, 14)), None)
    fleet = workers(busy=1, loading=1, idle=(0.0, 50.0), requested=1)
    assert make_plan(LIMITS, fleet, 0, now=70.0) == Plan(0, ("r0", "i0"), 50.0 + 60)
    assert make_plan(LIMITS, fleet, 1, now=70.0) == Plan(0, ("r0", "i0"), None)
    assert make_plan(LIMITS, fleet, 2, now=70.0) == Plan(0, ("r0",), None)
