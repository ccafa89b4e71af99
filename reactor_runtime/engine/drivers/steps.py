"""Steps: one interface for a generator and an async generator of `inference()`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from functools import partial
from types import AsyncGeneratorType, FrameType, GeneratorType
from typing import Any, Protocol

from reactor_runtime.engine.session import ModelSession, SessionStopped, without_exit

_Call = tuple[Callable[[], Awaitable[object]], asyncio.Future[object]]


class Steps(Protocol):
    """Make one output per step; raise StopAsyncIteration when the generator has ended."""

    async def next(self) -> object: ...

    async def throw(self, error: Exception) -> object:
        """Raise `error` at the author's `yield`: the traceback names that line, and the author may catch it."""

    async def close(self) -> None: ...

    @property
    def frame(self) -> FrameType | None:
        """Return the frame of the author's generator, if it is one of Python's own."""


class SyncSteps:
    """Step a generator on the model's thread."""

    def __init__(self, generator: Generator[Any, None, Any]) -> None:
        self._generator = generator

    async def next(self) -> object:
        try:
            return next(self._generator)
        except StopIteration:
            raise StopAsyncIteration from None

    async def throw(self, error: Exception) -> object:
        try:
            return self._generator.throw(error.with_traceback(None))  # it begins anew where the author yielded
        except StopIteration:
            raise StopAsyncIteration from None

    async def close(self) -> None:
        self._generator.close()

    @property
    def frame(self) -> FrameType | None:
        return self._generator.gi_frame if isinstance(self._generator, GeneratorType) else None


class AsyncSteps:
    """Step an async generator in one task from its first step to its end: ContextVars, timeouts and task groups around
    a `yield` work.

    A step that waits ends with SessionStopped when the client goes.
    """

    def __init__(self, generator: AsyncGenerator[Any, None], session: ModelSession) -> None:
        self._generator = generator
        self._session = session
        self._calls: asyncio.Queue[_Call | None] = asyncio.Queue()
        self._newest: asyncio.Future[object] | None = None
        self._task = asyncio.create_task(without_exit(self._run()), name="inference")

    async def next(self) -> object:
        return await self._call(self._generator.__anext__)

    async def throw(self, error: Exception) -> object:
        return await self._call(lambda: self._generator.athrow(error.with_traceback(None)))

    async def close(self) -> None:
        if self._newest is not None and self._newest.cancelled():
            self._task.cancel()  # a step still runs that nobody waits for: this session's own task was cancelled
        self._calls.put_nowait(None)
        await self._task

    async def _call(self, step: Callable[[], Awaitable[object]]) -> object:
        if self._session.stopping:
            raise SessionStopped
        self._newest = asyncio.get_running_loop().create_future()
        self._calls.put_nowait((step, self._newest))
        return await self._session.guard_task(self._newest, self._task)

    async def _run(self) -> None:
        cancelled: asyncio.CancelledError | None = None
        while True:
            try:
                call = await self._calls.get()
            except asyncio.CancelledError as error:
                cancelled = error  # by a timeout or a task group around the `yield`: raised there with the next step
                continue
            if call is None:
                return await self._close()
            step, result = call
            if cancelled is not None:
                step, cancelled = partial(self._generator.athrow, cancelled), None
            await self._make(step, result)

    async def _close(self) -> None:
        try:
            await self._generator.aclose()
        except BaseExceptionGroup as group:  # a task group round the `yield` wraps the GeneratorExit that ends it
            _, others = group.split(GeneratorExit)
            if others is not None:
                raise others from None

    async def _make(self, step: Callable[[], Awaitable[object]], result: asyncio.Future[object]) -> None:
        try:
            item = await without_exit(_await(step()))
        except asyncio.CancelledError:
            result.cancel()
        except BaseException as error:  # noqa: BLE001  (the author's code raised it; it is raised in next() or throw())
            if not result.done():
                result.set_exception(error)
        else:
            if not result.done():
                result.set_result(item)

    @property
    def frame(self) -> FrameType | None:
        return self._generator.ag_frame if isinstance(self._generator, AsyncGeneratorType) else None


def start_steps(result: object, session: ModelSession) -> Steps:
    """Return the steps of what `inference()` returned; TypeError if it is no generator."""
    if isinstance(result, Generator):
        return SyncSteps(result)
    if isinstance(result, AsyncGenerator):
        return AsyncSteps(result, session)
    if hasattr(result, "close"):  # a coroutine that is dropped unawaited would warn a second time
        result.close()
    raise TypeError(
        f"inference() returned {type(result).__name__}, not a generator: write `yield` in place of `return`, "
        "in a def or async def"
    )


async def _await(awaitable: Any) -> object:
    return await awaitable
