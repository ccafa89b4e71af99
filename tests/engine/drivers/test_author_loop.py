"""Coroutines of the author on a loop of their own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator

import pytest

from reactor_runtime.engine.drivers.threads import AuthorLoop, UntrackedThreads
from tests.timeouts import TIMEOUT_S


@pytest.fixture
def loop() -> Iterator[AuthorLoop]:
    with contextlib.closing(AuthorLoop("reactor-test", UntrackedThreads())) as loop:
        yield loop


async def test_a_coroutine_runs_on_another_thread_and_loop(loop: AuthorLoop) -> None:
    async def where() -> tuple[str, asyncio.AbstractEventLoop]:
        await asyncio.sleep(0)
        return threading.current_thread().name, asyncio.get_running_loop()

    here = asyncio.get_running_loop()
    first, second = await asyncio.gather(loop.run(where, here), loop.run(where, here))
    assert first == second
    assert first[0] == "reactor-test"
    assert first[1] is not here


@pytest.mark.parametrize(
    ("raised", "seen"), [(ValueError, ValueError), (SystemExit, RuntimeError), (KeyboardInterrupt, RuntimeError)]
)
async def test_what_it_raises_is_raised_and_the_loop_continues(
    loop: AuthorLoop, raised: type[BaseException], seen: type[Exception]
) -> None:
    async def fail() -> None:
        raise raised

    async def work() -> int:
        return 3

    here = asyncio.get_running_loop()
    with pytest.raises(seen):
        await loop.run(fail, here)
    assert await loop.run(work, here) == 3


async def test_cancelling_the_future_cancels_the_coroutine(loop: AuthorLoop) -> None:
    began, ended = threading.Event(), threading.Event()

    async def wait() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    done = loop.run(wait, asyncio.get_running_loop())
    assert await asyncio.to_thread(began.wait, TIMEOUT_S)
    done.cancel()
    assert await asyncio.to_thread(ended.wait, TIMEOUT_S)


async def test_closing_cancels_what_runs_and_work_starts_it_again(
    loop: AuthorLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reactor_runtime.engine.drivers.threads.JOIN_S", TIMEOUT_S)
    ended = threading.Event()

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def work() -> int:
        return 3

    here = asyncio.get_running_loop()
    waiting = loop.run(wait, here)
    assert await loop.run(work, here) == 3
    loop.close()
    loop.close()
    assert ended.is_set()
    with pytest.raises(RuntimeError, match="raised CancelledError"):
        await waiting
    assert await loop.run(work, here) == 3
