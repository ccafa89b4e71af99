"""Which session `get_ctx()` gives."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Any

import pytest

from reactor_runtime.authoring.styles.context import Context, belonging_to, running
from reactor_runtime.interface import get_ctx


class Session:
    """As much of a context as is needed to be found."""

    def __init__(self, model: str) -> None:
        self.model = model

    def emit_block(self, frames: object) -> None: ...

    def empty(self, shape: object) -> Any: ...

    def should_stop(self) -> bool:
        return False

    def send(self, message: object) -> None: ...

    def enable_monitoring(self) -> None: ...

    def disable_monitoring(self) -> None: ...

    def get_track(self, name: str | None = None) -> Any: ...


def in_thread(work: Callable[[], object]) -> object:
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(outcome(work)))
    thread.start()
    thread.join()
    return found[0]


def outcome(work: Callable[[], object]) -> object:
    try:
        return work()
    except RuntimeError as error:
        return str(error)


def test_without_a_session_there_is_none() -> None:
    with pytest.raises(RuntimeError, match="no session runs: get_ctx"):
        get_ctx()


def test_any_thread_finds_the_only_session() -> None:
    session: Context = Session("A")
    with running(session):
        assert get_ctx() is session
        assert in_thread(get_ctx) is session
    assert "no session runs" in str(in_thread(get_ctx))


def test_with_two_sessions_each_finds_its_own_and_other_code_gets_the_reason() -> None:
    first, second = Session("A"), Session("B")
    with running(first), running(second):
        for session in (first, second):
            with belonging_to(session):
                assert get_ctx() is session
        assert "several sessions run in this process (A, B)" in str(in_thread(get_ctx))
    assert "no session runs" in str(outcome(get_ctx))


def test_code_of_a_finished_session_never_gets_the_next_session() -> None:
    first, second = Session("A"), Session("B")
    with running(first), belonging_to(first):
        kept = contextvars.copy_context()
    with running(second):
        assert "the session of A that this code belongs to is over" in str(outcome(lambda: kept.run(get_ctx)))
        assert get_ctx() is second
