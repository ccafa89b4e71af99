from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest

from reactor_runtime.server.encoding.encoder import LOOP_AT_ONCE_S, Encoder
from tests.timeouts import TIMEOUT_S


@pytest.fixture
def encoder() -> Iterator[Encoder]:
    encoder = Encoder()
    yield encoder
    encoder.close()
    assert not any(thread.is_alive() for thread in encoder.threads)


async def submitted(encoder: Encoder, *jobs: Callable[[], Any]) -> list[Any]:
    arrived: asyncio.Future[Future[list[Any]]] = asyncio.get_running_loop().create_future()
    encoder.submit(jobs, arrived.set_result)
    return (await asyncio.wait_for(arrived, TIMEOUT_S)).result()


def same(value: int) -> int:
    return value


async def test_jobs_run_on_threads_and_end_on_the_loop(encoder: Encoder) -> None:
    assert await submitted(encoder, lambda: 6 * 7, lambda: "seven") == [42, "seven"]


async def test_an_error_in_a_job_is_the_outcome_of_all(encoder: Encoder) -> None:
    def job() -> None:
        raise ValueError("no picture")

    with pytest.raises(ValueError, match="no picture"):
        await submitted(encoder, partial(same, 1), job, partial(same, 2))
    assert await submitted(encoder, lambda: "the thread lives") == ["the thread lives"]


async def test_many_jobs_at_once_all_finish(encoder: Encoder) -> None:
    results = await asyncio.gather(*(submitted(encoder, partial(same, n), partial(same, -n)) for n in range(1000)))
    assert results == [[n, -n] for n in range(1000)]


async def submitted_short(encoder: Encoder, job: Callable[[], Any], *, copies: bool = False) -> Any:
    arrived: asyncio.Future[Future[list[Any]]] = asyncio.get_running_loop().create_future()
    encoder.submit([job], arrived.set_result, short=True, copies=copies)
    assert not arrived.done(), "the caller goes on first"
    (result,) = (await asyncio.wait_for(arrived, TIMEOUT_S)).result()
    return result


async def test_a_short_job_that_comes_alone_runs_on_the_loop(encoder: Encoder) -> None:
    assert await submitted_short(encoder, threading.get_ident) == threading.get_ident()


async def test_a_short_job_runs_on_a_thread_while_another_is_at_work(encoder: Encoder) -> None:
    may_end = threading.Event()
    working = asyncio.create_task(submitted(encoder, partial(may_end.wait, TIMEOUT_S)))
    await asyncio.sleep(0)
    assert await submitted_short(encoder, threading.get_ident) != threading.get_ident()
    # A copy takes less time than a thread takes to wake.
    assert await submitted_short(encoder, threading.get_ident, copies=True) == threading.get_ident()
    may_end.set()
    assert await working == [True]
    assert await submitted_short(encoder, threading.get_ident) == threading.get_ident()


async def test_jobs_on_the_loop_take_a_tenth_of_its_time(encoder: Encoder) -> None:
    def burn() -> int:
        until = time.monotonic() + 3 * LOOP_AT_ONCE_S
        while time.monotonic() < until:
            pass
        return threading.get_ident()

    assert await submitted_short(encoder, burn) == threading.get_ident()
    assert await submitted_short(encoder, burn) != threading.get_ident()


async def test_the_error_of_a_job_on_the_loop_is_its_outcome(encoder: Encoder) -> None:
    def job() -> None:
        raise ValueError("no picture")

    with pytest.raises(ValueError, match="no picture"):
        await submitted_short(encoder, job)
