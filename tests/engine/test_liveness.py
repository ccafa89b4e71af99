"""Heartbeats, stacks of other threads, and the log of a session that does not end."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reactor_runtime.engine import liveness
from reactor_runtime.engine.drivers.threads import UntrackedThreads
from reactor_runtime.engine.liveness import EndWatch, HeartbeatSource, author_stack, is_in_debugger, is_in_our_code
from reactor_runtime.ipc.messages import Heartbeat
from tests.timeouts import TIMEOUT_S

REPORT_S = 0.01


class Loop:
    """A loop that turns when a test calls `turn`."""

    def __init__(self) -> None:
        self.posted: list[Callable[[], None]] = []
        self.stalled_at = ""
        self.source = HeartbeatSource(self.posted.append, lambda: self.stalled_at)

    def turn(self) -> None:
        while self.posted:
            self.posted.pop(0)()


def test_a_loop_that_turns_between_two_requests_is_not_blocked() -> None:
    loop = Loop()
    for _ in range(3):
        assert loop.source.beat() == Heartbeat(blocked=False, where="")
        loop.turn()


def test_a_loop_that_does_not_turn_is_blocked_and_the_heartbeat_has_its_stack() -> None:
    loop = Loop()
    assert not loop.source.beat().blocked
    blocked = loop.source.beat()
    assert blocked.blocked
    assert "in test_a_loop_that_does_not_turn_is_blocked" in blocked.where
    loop.turn()
    assert not loop.source.beat().blocked


def test_a_blocked_loop_gets_one_callback_however_often_it_is_requested() -> None:
    loop = Loop()
    for _ in range(5):
        loop.source.beat()
    assert len(loop.posted) == 1


def test_code_that_stands_still_in_another_thread_is_blocked() -> None:
    loop = Loop()
    loop.source.beat()
    loop.stalled_at = "in another thread\n"
    loop.turn()
    assert loop.source.beat() == Heartbeat(blocked=True, where="in another thread\n")


def in_a_thread(work: Callable[[], Any], look: Callable[[int | None], Any], begun: threading.Event) -> Any:
    """Return what `look` finds while a thread works."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert begun.wait(TIMEOUT_S)
    return look(thread.ident)


def test_the_stack_has_no_frames_of_the_threading_module() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def compute() -> None:
        begun.set()
        while not go_on.is_set():
            pass

    stack = in_a_thread(compute, author_stack, begun)
    go_on.set()
    assert "in compute" in stack
    assert threading.__file__ not in stack


def test_a_thread_that_waits_in_our_code_has_no_author_stack() -> None:
    begun, gate = threading.Event(), UntrackedThreads().gate()

    def wait() -> None:
        begun.set()
        gate.wait()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    assert begun.wait(TIMEOUT_S)
    while not is_in_our_code(thread.ident):
        assert thread.is_alive()
    gate.open()
    thread.join(TIMEOUT_S)
    assert not is_in_our_code(thread.ident)
    assert author_stack(thread.ident) == ""


def test_a_debugger_is_recognised() -> None:
    begun, go_on = threading.Event(), threading.Event()
    namespace = {"begun": begun, "go_on": go_on}
    exec(compile("def interaction():\n  begun.set()\n  go_on.wait()\n", "/usr/lib/python3/bdb.py", "exec"), namespace)
    interaction: Any = namespace["interaction"]
    assert in_a_thread(interaction, is_in_debugger, begun)
    go_on.set()
    assert not is_in_debugger(threading.get_ident())


class Reports(logging.Handler):
    """Keep the first report with a text: a report from before the session was at that line lacks it."""

    def __init__(self) -> None:
        super().__init__()
        self.wanted = ""
        self.found = ""
        self.some = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if self.wanted in record.getMessage() and not self.some.is_set():
            self.found = record.getMessage()
            self.some.set()


@pytest.fixture
def reports() -> Iterator[Reports]:
    handler = Reports()
    liveness.logger.addHandler(handler)
    yield handler
    liveness.logger.removeHandler(handler)


async def wait_for_report(reports: Reports) -> None:
    await asyncio.to_thread(reports.some.wait, TIMEOUT_S)


def compute(reports: Reports) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not reports.some.is_set() and time.monotonic() < deadline:
        sum(range(1000))


async def test_a_session_that_waits_is_reported_with_its_line(reports: Reports) -> None:
    reports.wanted = "asyncio.to_thread(reports.some.wait, TIMEOUT_S)"
    watched = EndWatch("MyModel", report_s=REPORT_S)
    watched.on_start("s-1")
    watched.on_stop("s-1")
    await wait_for_report(reports)
    watched.on_end()
    assert "the session of MyModel has not ended" in reports.found
    assert str(Path(asyncio.__file__).parent) not in reports.found
    assert "pytest" not in reports.found


async def test_a_session_that_computes_is_reported_with_its_line(reports: Reports) -> None:
    reports.wanted = "in compute"
    watched = EndWatch("MyModel", report_s=REPORT_S)
    watched.on_start("s-1")
    watched.on_stop("s-1")
    compute(reports)
    watched.on_end()
    assert "the session of MyModel has not ended" in reports.found


async def test_a_session_that_has_ended_is_not_watched() -> None:
    watched = EndWatch("MyModel", report_s=REPORT_S)
    watched.on_start("s-1")
    watched.on_stop("s-1")
    watched.on_end()
    watched.on_stop("s-1")
    watched.on_start("s-2")
    watched.on_stop("s-1")
    for thread in threading.enumerate():
        if thread.name == "reactor-end-watch":
            thread.join(TIMEOUT_S)
            assert not thread.is_alive()
    watched.on_end()
