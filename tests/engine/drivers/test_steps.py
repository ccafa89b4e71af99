"""Stepping an async generator: one task for its whole life."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextvars import ContextVar
from typing import Any

import pytest

from reactor_runtime.authoring.events.messages import ClientInfo
from reactor_runtime.engine.drivers.steps import Steps, start_steps
from reactor_runtime.engine.session import ModelSession, SessionStopped
from tests.fakes import FakeClock, settle
from tests.timeouts import TIMEOUT_S

style: ContextVar[str] = ContextVar("style", default="none")


@pytest.fixture
def session() -> ModelSession:
    return ModelSession("s-1", ClientInfo("c-1", 0.0), FakeClock(), 1e9)


@contextlib.asynccontextmanager
async def stepping(generator: Any, session: ModelSession) -> AsyncIterator[Steps]:
    steps = start_steps(generator, session, "inference")
    try:
        yield steps
    finally:
        await asyncio.wait_for(steps.close(), TIMEOUT_S)


async def test_a_context_variable_that_was_set_before_a_yield_is_set_after_it(session: ModelSession) -> None:
    async def inference() -> AsyncIterator[str]:
        style.set("ink")
        yield style.get()
        yield style.get()

    async with stepping(inference(), session) as steps:
        assert [await steps.next(), await steps.next()] == ["ink", "ink"]
    assert style.get() == "none"


async def test_all_steps_and_the_end_run_in_one_task(session: ModelSession) -> None:
    tasks = []

    async def inference() -> AsyncIterator[None]:
        try:
            for _ in range(2):
                tasks.append(asyncio.current_task())
                yield None
        finally:
            tasks.append(asyncio.current_task())

    async with stepping(inference(), session) as steps:
        await steps.next()
        await steps.next()
    assert len(tasks) == 3
    assert len(set(tasks)) == 1


async def test_a_timeout_round_a_yield_is_raised_there_with_the_next_step(session: ModelSession) -> None:
    async def inference() -> AsyncIterator[str]:
        try:
            async with asyncio.timeout(0):
                yield "in time"
                yield "never"
        except TimeoutError:
            yield "late"
        await asyncio.sleep(0)
        yield "on"

    async with stepping(inference(), session) as steps:
        assert await steps.next() == "in time"
        await settle()
        assert [await steps.next(), await steps.next()] == ["late", "on"]


async def test_a_task_group_around_a_yield_ends_with_the_exception_of_its_task(session: ModelSession) -> None:
    async def fail() -> None:
        raise ValueError("no weights")

    async def inference() -> AsyncIterator[str]:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
            while True:
                yield "a frame"

    async with stepping(inference(), session) as steps:
        assert await steps.next() == "a frame"
        await settle()
        with pytest.raises(ExceptionGroup) as raised:
            await steps.next()
    assert str(raised.value.exceptions[0]) == "no weights"


async def test_a_task_group_is_left_in_order_when_the_generator_is_closed(session: ModelSession) -> None:
    ended = []

    async def beside() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("beside")

    async def inference() -> AsyncIterator[str]:
        async with asyncio.TaskGroup() as group:
            group.create_task(beside())
            await asyncio.sleep(0)
            while True:
                yield "a frame"

    async with stepping(inference(), session) as steps:
        await steps.next()
    assert ended == ["beside"]


async def test_stopping_cancels_a_step_that_waits_and_nothing_in_its_finally(session: ModelSession) -> None:
    ended = []

    async def inference() -> AsyncIterator[str]:
        try:
            yield "a frame"
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            yield "the last"
        finally:
            await asyncio.sleep(0)
            ended.append("finally")

    async with stepping(inference(), session) as steps:
        await steps.next()
        step = asyncio.ensure_future(steps.next())
        await settle()
        session.stop()
        assert await step == "the last"
        with pytest.raises(SessionStopped):
            await steps.next()
    assert ended == ["finally"]


async def test_a_step_that_is_cancelled_with_its_session_s_task_ends(session: ModelSession) -> None:
    ended = []

    async def inference() -> AsyncIterator[str]:
        try:
            await asyncio.Event().wait()
            yield "never"
        finally:
            ended.append("finally")

    async def serve() -> None:
        async with stepping(inference(), session) as steps:
            await steps.next()

    serving = asyncio.create_task(serve())
    await settle()
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert ended == ["finally"]


def test_the_error_for_a_result_that_is_no_generator_names_the_method(session: ModelSession) -> None:
    with pytest.raises(TypeError, match=r"^frames\(\) returned list, not a generator"):
        start_steps([], session, "frames")
