from __future__ import annotations

import asyncio
import gc
import math
import os
import time
from collections.abc import AsyncIterator

import pytest

from reactor_runtime.clock import Alarm, SystemClock
from tests.fakes import FakeClock, settle
from tests.timeouts import TIMEOUT_S


@pytest.fixture
async def clock() -> AsyncIterator[SystemClock]:
    clock = SystemClock()
    yield clock
    clock.close()


async def test_deadlines_are_met_in_order_whatever_order_they_were_set_in(clock: SystemClock) -> None:
    met: list[int] = []
    done = asyncio.Event()
    start = clock.now()
    for number in (3, 1, 4, 0, 2):
        clock.call_at(start + 0.002 * number, lambda number=number: met.append(number))  # type: ignore[misc]
    clock.call_at(start + 0.012, done.set)
    async with asyncio.timeout(TIMEOUT_S):
        await done.wait()
    assert met == [0, 1, 2, 3, 4]


async def test_no_deadline_is_met_early(clock: SystemClock) -> None:
    done: asyncio.Future[float] = asyncio.get_running_loop().create_future()
    deadline = clock.now() + 0.005
    clock.call_at(deadline, lambda: done.set_result(time.monotonic()))
    assert await asyncio.wait_for(done, TIMEOUT_S) >= deadline


async def test_a_deadline_that_is_over_is_met_at_once(clock: SystemClock) -> None:
    done = asyncio.Event()
    clock.call_at(clock.now() - 1, done.set)
    assert not done.is_set()
    await asyncio.wait_for(done.wait(), TIMEOUT_S)


async def test_a_cancelled_deadline_is_not_met(clock: SystemClock) -> None:
    met: list[str] = []
    done = asyncio.Event()
    start = clock.now()
    timer = clock.call_at(start + 0.001, lambda: met.append("cancelled"))
    clock.call_at(start + 0.002, lambda: met.append("kept"))
    clock.call_at(start + 0.003, done.set)
    timer.cancel()
    await asyncio.wait_for(done.wait(), TIMEOUT_S)
    assert met == ["kept"]


async def test_a_callback_may_set_the_next_deadline(clock: SystemClock) -> None:
    done = asyncio.Event()

    def again() -> None:
        clock.call_at(clock.now() + 0.001, done.set)

    clock.call_at(clock.now() + 0.001, again)
    await asyncio.wait_for(done.wait(), TIMEOUT_S)


async def test_a_closed_clock_keeps_no_descriptor_and_makes_no_call() -> None:
    before = len(os.listdir("/proc/self/fd"))
    clock = SystemClock()
    met: list[int] = []
    clock.call_at(clock.now(), lambda: met.append(1))
    clock.close()
    clock.close()
    await settle()
    assert (met, len(os.listdir("/proc/self/fd"))) == ([], before)


@pytest.mark.parametrize("far_s", [1e300, math.inf])
async def test_a_deadline_that_no_timer_can_hold_is_waited_for_all_the_same(clock: SystemClock, far_s: float) -> None:
    done = asyncio.Event()
    clock.call_at(clock.now() + far_s, lambda: pytest.fail("it is never over"))
    clock.call_at(clock.now() + 0.001, done.set)
    await asyncio.wait_for(done.wait(), TIMEOUT_S)


async def test_cancelled_deadlines_that_are_far_away_are_not_kept(clock: SystemClock) -> None:
    met: list[int] = []
    done = asyncio.Event()
    start = clock.now()
    for number in range(5000):
        clock.call_at(start + 86_400, done.set).cancel()
        if number % 500 == 0:
            kept = clock.call_at(start + 0.001 * number / 500, lambda number=number: met.append(number))  # type: ignore[misc]
    kind = type(kept)
    assert sum(type(each) is kind for each in gc.get_objects()) < 200
    clock.call_at(start + 0.02, done.set)
    await asyncio.wait_for(done.wait(), TIMEOUT_S)
    assert met == list(range(0, 5000, 500))


async def test_an_alarm_keeps_a_ring_until_the_next_wait() -> None:
    alarm = Alarm(FakeClock())
    alarm.ring()
    alarm.ring()
    await asyncio.wait_for(alarm.wait(), TIMEOUT_S)
    second = asyncio.create_task(alarm.wait())
    await settle()
    assert not second.done()
    alarm.ring()
    await asyncio.wait_for(second, TIMEOUT_S)


async def test_an_alarm_wakes_at_its_deadline_and_not_before() -> None:
    clock = FakeClock()
    sleeper = asyncio.create_task(Alarm(clock).wait(clock.now() + 2))
    await clock.advance(1.9)
    assert not sleeper.done()
    await clock.advance(0.1)
    assert sleeper.done()
    assert clock.pending == 0


async def test_a_rung_alarm_leaves_no_deadline_behind() -> None:
    clock = FakeClock()
    alarm = Alarm(clock)
    sleeper = asyncio.create_task(alarm.wait(clock.now() + 2))
    await settle()
    alarm.ring()
    await asyncio.wait_for(sleeper, TIMEOUT_S)
    assert clock.pending == 0


async def test_an_alarm_works_after_a_cancelled_wait() -> None:
    clock = FakeClock()
    alarm = Alarm(clock)
    sleeper = asyncio.create_task(alarm.wait(clock.now() + 2))
    await settle()
    sleeper.cancel()
    await asyncio.gather(sleeper, return_exceptions=True)
    assert clock.pending == 0
    alarm.ring()
    await asyncio.wait_for(alarm.wait(), TIMEOUT_S)


async def test_a_deadline_in_the_past_is_no_sleep() -> None:
    clock = FakeClock()
    await asyncio.wait_for(Alarm(clock).wait(clock.now()), TIMEOUT_S)


async def test_the_fake_clock_meets_deadlines_in_order_and_on_time() -> None:
    clock = FakeClock(now=10.0)
    met: list[tuple[str, float]] = []
    clock.call_at(13.0, lambda: met.append(("later", clock.now())))
    clock.call_at(11.0, lambda: met.append(("sooner", clock.now())))
    clock.call_at(12.0, lambda: met.append(("never", clock.now()))).cancel()
    await clock.advance(2.5)
    assert (met, clock.now()) == ([("sooner", 11.0)], 12.5)
    await clock.advance(1.0)
    assert met == [("sooner", 11.0), ("later", 13.0)]
