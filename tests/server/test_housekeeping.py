from __future__ import annotations

import asyncio

import pytest

from reactor_runtime.server.housekeeping import keep_running
from tests.timeouts import TIMEOUT_S


async def test_a_failed_task_is_run_again_and_each_type_of_failure_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failures: list[Exception] = [OSError(24, "Too many open files")] * 3 + [ImportError("numpy.ma")] * 2

    async def task() -> None:
        if failures:
            raise failures.pop()

    await asyncio.wait_for(keep_running(task, "the statistics", pause_s=0), TIMEOUT_S)
    assert [record.message for record in caplog.records] == ["the statistics failed, and is retried every 0.0 s"] * 2
    assert all(record.exc_info for record in caplog.records)


async def test_a_cancelled_task_is_not_run_again() -> None:
    starts: list[int] = []

    async def task() -> None:
        starts.append(1)
        await asyncio.Event().wait()

    running = asyncio.create_task(keep_running(task, "the statistics"))
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert starts == [1]
