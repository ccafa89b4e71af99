from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest

from reactor_runtime.server.encoding.encoder import Encoder
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
