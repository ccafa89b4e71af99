"""A session that doesn't end is told of, with the line it is at, whether it computes or waits."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from reactor_runtime.engine import overdue
from reactor_runtime.engine.overdue import Overdue
from tests.timeouts import TIMEOUT_S

REPORT_S = 0.01


class Reports(logging.Handler):
    """Keep the first report that has a text in it: one that came before the session was at that line has not."""

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
    overdue.logger.addHandler(handler)
    yield handler
    overdue.logger.removeHandler(handler)


async def wait_for_ever(reports: Reports) -> None:
    await asyncio.to_thread(reports.some.wait, TIMEOUT_S)  # of all that it does after its client has left


def compute(reports: Reports) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not reports.some.is_set() and time.monotonic() < deadline:
        sum(range(1000))


async def test_a_session_that_waits_is_reported_with_its_line(reports: Reports) -> None:
    reports.wanted = "asyncio.to_thread(reports.some.wait, TIMEOUT_S)"
    watched = Overdue("MyModel", report_s=REPORT_S)
    watched.begin("s-1")
    watched.stopping("s-1")
    await wait_for_ever(reports)
    watched.end()
    assert "the session of MyModel has not ended" in reports.found
    assert str(Path(asyncio.__file__).parent) not in reports.found
    assert "pytest" not in reports.found


async def test_a_session_that_computes_is_reported_with_its_line(reports: Reports) -> None:
    reports.wanted = "in compute"
    watched = Overdue("MyModel", report_s=REPORT_S)
    watched.begin("s-1")
    watched.stopping("s-1")
    compute(reports)
    watched.end()
    assert "the session of MyModel has not ended" in reports.found


async def test_nothing_is_watched_once_it_has_ended() -> None:
    watched = Overdue("MyModel", report_s=REPORT_S)
    watched.begin("s-1")
    watched.stopping("s-1")
    watched.end()
    watched.stopping("s-1")
    watched.begin("s-2")
    watched.stopping("s-1")
    for thread in threading.enumerate():
        if thread.name == "reactor-overdue":
            thread.join(TIMEOUT_S)
            assert not thread.is_alive()
    watched.end()
