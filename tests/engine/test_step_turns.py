"""StepTurns of the sessions that share a loaded model: who is next, and how long a late session can delay another."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactor_runtime.engine.step_turns import StepOrder, StepTurn, StepTurns
from tests.fakes import FakeClock, settle
from tests.timeouts import TIMEOUT_S


def test_the_session_whose_frames_are_due_first_is_next() -> None:
    order: StepOrder[str] = StepOrder()
    for session, deadline in (("late", 30.0), ("soon", 10.0), ("later", 20.0)):
        order.ask(session, deadline=deadline, wanted_at=0.0)
    assert [order.take_next() for _ in range(3)] == ["soon", "later", "late"]
    assert not order


def test_a_session_that_is_always_late_has_no_second_turn_before_one_that_waits() -> None:
    order: StepOrder[str] = StepOrder()
    order.ask("late", deadline=0.0, wanted_at=0.0)
    order.ask("early", deadline=100.0, wanted_at=1.0)
    assert order.take_next() == "late"
    order.end("late", 50.0)
    order.ask("late", deadline=1.0, wanted_at=0.0)
    assert order.take_next() == "early"


def test_the_step_that_runs_when_a_session_wants_to_begin_is_the_one_that_delays_it() -> None:
    order: StepOrder[str] = StepOrder()
    order.ask("late", deadline=0.0, wanted_at=0.0)
    assert order.take_next() == "late"
    order.end("late", 50.0)
    # Its timer was due during the step.
    order.ask("early", deadline=100.0, wanted_at=30.0)
    order.ask("late", deadline=1.0, wanted_at=0.0)
    assert order.take_next() == "early"


def test_a_session_that_wants_no_step_any_more_gets_no_turn() -> None:
    order: StepOrder[str] = StepOrder()
    order.ask("gone", deadline=0.0, wanted_at=0.0)
    order.ask("there", deadline=1.0, wanted_at=0.0)
    order.withdraw("gone")
    assert order.take_next() == "there"


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(0, 1000), st.integers(0, 20), st.booleans()), max_size=200))
def test_while_a_session_waits_no_other_ends_two_steps(steps: list[tuple[int, float, int, bool]]) -> None:
    order: StepOrder[int] = StepOrder()
    waiting: dict[int, tuple[float, Counter[int]]] = {}
    ends: list[tuple[float, int]] = []
    now = 0.0
    for session, deadline, ago, takes in steps:
        if session not in waiting:
            last = max((end for end, ended in ends if ended == session), default=0.0)
            wanted_at = max(last, now - ago)
            order.ask(session, deadline=deadline, wanted_at=wanted_at)
            waiting[session] = wanted_at, Counter(ended for end, ended in ends if end > wanted_at)
        if takes:
            taken = order.take_next()
            del waiting[taken]
            now += 3
            ends.append((now, taken))
            order.end(taken, now)
            for _, passed in waiting.values():
                passed[taken] += 1
                assert passed[taken] == 1


async def in_turn(turn: StepTurn, name: str, order: list[str]) -> None:
    await turn.take()
    order.append(name)
    await asyncio.sleep(0)
    turn.release()


async def test_sessions_that_ask_in_the_same_moment_come_by_their_deadlines() -> None:
    turns, order = StepTurns(FakeClock().now), list[str]()
    tasks = []
    for number, due_at in enumerate((3.0, 1.0, 2.0)):
        turn = StepTurn(turns, number)
        turn.due_at = due_at
        tasks.append(asyncio.create_task(in_turn(turn, f"due at {due_at:g}", order)))
    await asyncio.gather(*tasks)
    assert order == ["due at 1", "due at 2", "due at 3"]


@pytest.mark.parametrize("has_turn", [False, True])
async def test_a_cancelled_session_leaves_the_turn_to_the_others(has_turn: bool) -> None:
    turns = StepTurns(FakeClock().now)
    first, second, third = (StepTurn(turns, number) for number in range(3))
    await first.take()
    cancelled = asyncio.create_task(second.take())
    others = asyncio.create_task(third.take())
    await settle()
    if has_turn:
        first.release()
        for _ in range(4):
            await asyncio.sleep(0)
    cancelled.cancel()
    first.release()
    second.release()
    await asyncio.wait_for(others, TIMEOUT_S)
    third.release()
    await asyncio.wait_for(first.take(), TIMEOUT_S)
