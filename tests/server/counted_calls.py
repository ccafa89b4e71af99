"""A clock of calls instead of CPU time: a slow machine, or one with other load, changes nothing that it measures."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType

import pytest

# About what a call takes, so that the estimates of the server, which are in seconds, weigh as much as they do there.
CALL_S = 0.5e-6


@pytest.fixture
def counted_calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the CPU time of the thread of the test be the number of calls that it has made, times `CALL_S`."""
    calls, measured, real_thread_time = 0, threading.get_ident(), time.thread_time

    def count(frame: FrameType, event: str, argument: object) -> None:  # noqa: ARG001  (the signature Python calls)
        nonlocal calls
        calls += event in ("call", "c_call")

    def thread_time() -> float:
        return calls * CALL_S if threading.get_ident() == measured else real_thread_time()

    monkeypatch.setattr(time, "thread_time", thread_time)
    sys.setprofile(count)
    yield
    sys.setprofile(None)
