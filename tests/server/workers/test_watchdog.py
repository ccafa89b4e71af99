from __future__ import annotations

import asyncio
import logging

import pytest

from reactor_runtime.ipc.messages import Heartbeat
from reactor_runtime.server.workers.watchdog import WARN_S, Watchdog
from tests.fakes import FakeClock, settle

FINE = Heartbeat(held=False, where="")
HELD = Heartbeat(held=True, where='  File "model.py", line 3, in inference\n')


class Watched:
    """A watchdog of a model whose heartbeats the test sets; `requests` counts those requested."""

    def __init__(self, step_timeout_s: float) -> None:
        self.clock = FakeClock()
        self.answer: Heartbeat | None = FINE
        self.requests = 0
        self.watchdog = Watchdog(self.clock, self._answer, step_timeout_s)
        self.hung = asyncio.create_task(self.watchdog.wait_for_hang())

    def _answer(self) -> None:
        self.requests += 1
        if self.answer is not None:
            self.watchdog.record_heartbeat(self.answer)

    async def pass_s(self, seconds: float) -> None:
        await self.clock.advance(seconds)


async def test_a_model_that_yields_does_not_hang() -> None:
    watched = Watched(8.0)
    await watched.pass_s(100.0)
    assert not watched.hung.done()
    assert watched.requests > 90
    watched.hung.cancel()


@pytest.mark.parametrize("answer", [HELD, None], ids=["a step goes on and on", "nothing answers"])
async def test_a_model_that_does_not_yield_for_the_timeout_hangs(answer: Heartbeat | None) -> None:
    watched = Watched(8.0)
    watched.answer = answer
    await watched.pass_s(6.0)
    assert not watched.hung.done()
    await watched.pass_s(4.0)
    assert watched.hung.result() == (HELD.where if answer else "")


async def test_consecutive_slow_steps_are_no_hang() -> None:
    watched = Watched(8.0)
    for _ in range(10):
        watched.answer = HELD
        await watched.pass_s(6.0)
        watched.answer = FINE
        await watched.pass_s(2.0)
    assert not watched.hung.done()
    watched.hung.cancel()


async def test_rounds_in_which_the_server_was_suspended_too_do_not_count() -> None:
    watched = Watched(8.0)
    watched.answer = None
    for _ in range(5):
        await settle()
        watched.clock.spend(60.0)  # Ctrl-Z stops both processes
        await watched.pass_s(0.0)
    assert not watched.hung.done()
    watched.hung.cancel()


async def test_without_a_timeout_a_hang_is_logged_at_doubling_intervals(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watched = Watched(0.0)
    watched.answer = HELD
    with caplog.at_level(logging.WARNING):
        await watched.pass_s(9 * WARN_S)
    assert [record.message.partition(".")[0] for record in caplog.records] == [
        "the model has been in one step for 30 s",
        "the model has been in one step for 60 s",
        "the model has been in one step for 120 s",
        "the model has been in one step for 240 s",
    ]
    assert all(HELD.where.strip() in record.message for record in caplog.records)
    watched.hung.cancel()


async def test_a_hang_at_the_end_of_a_session_is_logged_only_when_the_engine_is_silent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watched = Watched(0.0)
    watched.answer = HELD
    watched.watchdog.ending = True
    with caplog.at_level(logging.WARNING):
        await watched.pass_s(5 * WARN_S)
        assert not caplog.records
        watched.answer = None  # the engine can't log any more
        await watched.pass_s(4 * WARN_S)
    assert len(caplog.records) == 1
    watched.hung.cancel()


async def test_a_hang_at_the_end_of_a_session_times_out_as_well() -> None:
    watched = Watched(8.0)
    watched.answer = HELD
    watched.watchdog.ending = True
    await watched.pass_s(10.0)
    assert watched.hung.result() == HELD.where
