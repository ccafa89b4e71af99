from __future__ import annotations

import asyncio

import pytest

from reactor_runtime.authoring.events.messages import ClientInfo
from reactor_runtime.engine.session import ModelSession, SessionStopped
from tests.fakes import FakeClock, settle
from tests.timeouts import TIMEOUT_S


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def session(clock: FakeClock) -> ModelSession:
    return ModelSession("s-1", ClientInfo("c", 0.0), clock, started_at_unix=1e9)


async def work(result: int) -> int:
    await asyncio.sleep(0)
    return result


async def test_guard_returns_the_result_of_the_author_s_coroutine(session: ModelSession) -> None:
    assert await session.guard(work(7)) == 7


async def test_stop_ends_waits_and_may_be_called_twice(session: ModelSession) -> None:
    waiting = asyncio.create_task(session.guard(asyncio.Event().wait()))
    await settle()
    session.stop()
    session.stop()
    with pytest.raises(SessionStopped):
        await asyncio.wait_for(waiting, TIMEOUT_S)


async def test_stop_cancels_the_author_s_coroutine_at_the_end_of_the_grace(
    session: ModelSession, clock: FakeClock
) -> None:
    waiting = asyncio.create_task(session.guard(asyncio.Event().wait()))
    await settle()
    session.stop(grace_s=1.0)
    await clock.advance(0.9)
    assert not waiting.done()
    await clock.advance(0.2)
    with pytest.raises(SessionStopped):
        await asyncio.wait_for(waiting, TIMEOUT_S)


async def test_the_end_of_the_grace_does_not_cancel_a_task_that_has_given_its_result(
    session: ModelSession, clock: FakeClock
) -> None:
    closed = asyncio.Event()
    result: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(closed.wait())
    waiting = asyncio.create_task(session.guard_task(result, task))
    await settle()
    session.stop(grace_s=1.0)
    result.set_result(7)
    assert await asyncio.wait_for(waiting, TIMEOUT_S) == 7
    await clock.advance(2.0)
    closed.set()
    assert await asyncio.wait_for(task, TIMEOUT_S)


async def test_no_work_is_started_in_a_stopped_session(session: ModelSession) -> None:
    session.stop()
    with pytest.raises(SessionStopped):
        await session.guard(work(7))


async def test_cancelling_the_own_task_is_not_a_stop(session: ModelSession) -> None:
    waiting = asyncio.create_task(session.guard(asyncio.Event().wait()))
    await settle()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_cancellation_of_the_author_s_own_is_an_error(session: ModelSession) -> None:
    async def lose_a_task() -> None:
        task = asyncio.create_task(asyncio.Event().wait())
        task.cancel()
        await task

    with pytest.raises(RuntimeError, match="cancelled"):
        await session.guard(lose_a_task())


async def test_an_exit_of_the_author_s_is_an_error(session: ModelSession) -> None:
    async def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(RuntimeError, match=r"sys\.exit\(3\)"):
        await session.guard(leave())


async def test_an_input_wakes_an_idle_model(session: ModelSession) -> None:
    idle = asyncio.create_task(session.alarm.wait())
    await settle()
    session.notify_input()
    await asyncio.wait_for(idle, TIMEOUT_S)
    assert session.input_pending


def test_wall_time_runs_on_from_the_start_of_the_session() -> None:
    clock = FakeClock(now=50.0)
    session = ModelSession("s-1", ClientInfo("c", 0.0), clock, started_at_unix=1e9)
    clock.spend(0.5)
    assert session.wall_us(clock.now()) == 1_000_000_000_500_000


def test_a_frame_is_the_first_to_show_the_events_applied_since_the_one_before(session: ModelSession) -> None:
    for n, arrived_at in ((1, 10.0), (2, 0.0), (3, 11.0), (4, 12.0)):
        with session.handling(n, arrived_at):
            assert (session.applied, session.handled_here) == ((n - 1,), n)
    assert session.handled_here == 0
    assert session.applied == (4,)
    assert session.shown_by((3,)) == (10.0, 11.0)
    assert session.shown_by((3,)) == ()
    assert session.shown_by((4,)) == (12.0,)
