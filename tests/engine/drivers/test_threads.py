"""Threads for the author's code."""

from __future__ import annotations

import asyncio
import sys
import threading

import pytest

from reactor_runtime.engine.drivers.threads import AuthorThread, UntrackedThreads
from tests.timeouts import TIMEOUT_S


def author() -> AuthorThread:
    return AuthorThread("author", UntrackedThreads())


async def test_work_is_done_in_one_daemon_thread_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reactor_runtime.engine.drivers.threads.JOIN_S", TIMEOUT_S)
    thread = author()
    first, second = [await thread.run(threading.current_thread) for _ in range(2)]
    assert first is second
    assert (first.name, first.daemon) == ("author", True)
    thread.close()
    assert not first.is_alive()


async def test_no_thread_is_begun_without_work() -> None:
    before = threading.active_count()
    thread = author()
    assert not thread.busy
    assert thread.stack() == ""
    thread.close()
    assert threading.active_count() == before


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (ValueError("no"), ValueError, "no"),
        (SystemExit(3), RuntimeError, r"the model called sys\.exit\(3\)"),
        (KeyboardInterrupt(), RuntimeError, "the model raised KeyboardInterrupt"),
        (StopIteration(), RuntimeError, "the model raised StopIteration"),
    ],
    ids=lambda part: type(part).__name__ if isinstance(part, BaseException) else "",
)
async def test_exceptions_that_would_end_a_loop_are_converted(
    error: BaseException, kind: type[Exception], words: str
) -> None:
    def work() -> None:
        raise error

    thread = author()
    with pytest.raises(kind, match=words):
        await thread.run(work)
    assert await thread.run(lambda: 1) == 1
    thread.close()


async def test_the_stack_is_the_author_s_code_alone() -> None:
    here, go_on = threading.Event(), threading.Event()

    def compute() -> None:
        here.set()
        assert go_on.wait(TIMEOUT_S)

    thread = author()
    done = thread.run(compute)
    await asyncio.to_thread(here.wait, TIMEOUT_S)
    assert thread.busy
    assert "in compute" in thread.stack()
    assert "engine/drivers/threads.py" not in thread.stack()
    assert threading.__file__ not in thread.stack()
    go_on.set()
    assert await done is None
    thread.close()


async def test_a_thread_that_is_closed_at_work_ends_after_it() -> None:
    go_on = threading.Event()
    thread = author()
    done = thread.run(lambda: go_on.wait(TIMEOUT_S) and threading.current_thread())
    thread.close()
    go_on.set()
    ended = await done
    await asyncio.to_thread(ended.join, TIMEOUT_S)
    assert not ended.is_alive()


def test_a_closed_loop_is_no_error_of_the_thread(capfd: pytest.CaptureFixture[str]) -> None:
    go_on, threads = threading.Event(), []

    def work() -> None:
        threads.append(threading.current_thread())
        go_on.wait(TIMEOUT_S)

    async def begin() -> AuthorThread:
        thread = author()
        thread.run(work)
        return thread

    thread = asyncio.run(begin())
    thread.close()
    go_on.set()
    while not threads:
        sys._current_frames()
    threads[0].join(TIMEOUT_S)
    assert capfd.readouterr().err == ""
