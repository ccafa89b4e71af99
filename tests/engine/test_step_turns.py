"""StepTurns of the sessions that share a loaded model: who is next, and how long a late session can delay another."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactor_runtime.engine.step_turns import StepOrder, StepTurn, StepTurns
from tests.fakes import settle


def test_the_session_whose_frames_are_due_first_is_next() -> None:
    order: StepOrder[str] = StepOrder()
    for session, deadline in (("late", 30.0), ("soon", 10.0), ("later", 20.0)):
        order.ask(session, deadline)
    assert [order.take_next() for _ in range(3)] == ["soon", "later", "late"]
    assert not order


def test_a_session_that_is_always_late_has_no_second_turn_before_one_that_waits() -> None:
    order: StepOrder[str] = StepOrder()
    order.ask("late", 0.0)
    order.ask("early", 100.0)
    assert order.take_next() == "late"
    order.ask("late", 1.0)
    assert order.take_next() == "early"


def test_a_session_that_wants_no_step_any_more_gets_no_turn() -> None:
    order: StepOrder[str] = StepOrder()
    order.ask("gone", 0.0)
    order.ask("there", 1.0)
    order.withdraw("gone")
    assert order.take_next() == "there"


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(0, 1000), st.booleans()), max_size=200))
def test_while_a_session_waits_no_other_has_two_turns(steps: list[tuple[int, float, bool]]) -> None:
    order: StepOrder[int] = StepOrder()
    waiting: dict[int, Counter[int]] = {}
    for session, deadline, takes in steps:
        if session not in waiting:
            order.ask(session, deadline)
            waiting[session] = Counter()
        if takes:
            taken = order.take_next()
            del waiting[taken]
            for passed in waiting.values():
                passed[taken] += 1
                assert passed[taken] == 1


async def in_turn(turn: StepTurn, name: str, order: list[str]) -> None:
    await turn.take()
    order.append(name)
    await asyncio.sleep(0)
    turn.release()


async def test_sessions_that_ask_in_the_same_moment_come_by_their_deadlines() -> None:
    turns, order = StepTurns(), list[str]()
    tasks = []
    for number, due_at in enumerate((3.0, 1.0, 2.0)):
        turn = StepTurn(turns, number)
        turn.due_at = due_at
        tasks.append(asyncio.create_task(in_turn(turn, f"due at {due_at:g}", order)))
    await asyncio.gather(*tasks)
    assert order == ["due at 1", "due at 2", "due at 3"]


@pytest.mark.parametrize("has_turn", [False, True])
async def test_a_cancelled_session_leaves_the_turn_to_the_others(has_turn: bool) -> None:
    turns = StepTurns()
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
    await asyncio.wait_for(others, 1.0)
    third.release()
    await asyncio.wait_for(first.take(), 1.0)
