"""Steps of `inference()`: one interface for a generator and an async generator; `app_steps.py` has those of an app."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from functools import partial
from types import AsyncGeneratorType, FrameType, GeneratorType
from typing import Any, ClassVar, Protocol

from reactor_runtime.authoring.code.source import declared_at
from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.engine.batch import Batch
from reactor_runtime.engine.served import Version
from reactor_runtime.engine.session import ModelSession, SessionStopped, without_exit

_Call = tuple[Callable[[], Awaitable[object]], asyncio.Future[object]]


class Steps(Protocol):
    """Make one output per step; raise StopAsyncIteration when the generator has ended."""

    # Whether `next` never waits on the loop.
    computes_at_once: ClassVar[bool]
    # How many sessions the last step was made for, at the same time.
    sessions: int

    async def next(self) -> object: ...

    async def throw(self, error: Exception) -> object:
        """Raise `error` at the author's `yield`: the traceback names that line, and the author may catch it."""

    async def close(self) -> None: ...

    def interrupt(self) -> None:
        """Cancel a step that waits; `next` raises StopAsyncIteration."""

    @property
    def frame(self) -> FrameType | None:
        """Return the frame of the author's generator, if it is one of Python's own."""


class StepTimer:
    """Measure how long a step computes: without the seconds of waiting that `waited_s` counts.

    `seconds` is a clock that advances while a step computes, which the one of `now` may not.
    """

    def __init__(self, now: Callable[[], float], waited_s: Callable[[], float], seconds: Callable[[], float]) -> None:
        self.seconds = seconds
        self._now = now
        self._waited_s = waited_s
        self.begin()

    def begin(self) -> None:
        """Begin to measure a step."""
        # Seconds that the author gives in place of the measured ones.
        self.given_s: float | None = None
        # Seconds in which other sessions made steps.
        self.others_s = 0.0
        self.began = self._now()
        self._began_s = self.seconds()
        self._waited_before_s = self._waited_s()

    def step_s(self) -> float:
        """Return the seconds since `began`, by `seconds`."""
        return self.seconds() - self._began_s

    def compute_s(self, now: float) -> float:
        """Return how long the step has computed until `now`."""
        if self.given_s is not None:
            return self.given_s
        return now - self.began - self.others_s - (self._waited_s() - self._waited_before_s)


class SyncSteps:
    """Step a generator on the model's thread."""

    computes_at_once: ClassVar[bool] = True
    sessions = 1

    def __init__(self, generator: Generator[Any, None, Any]) -> None:
        self._generator = generator

    async def next(self) -> object:
        try:
            return next(self._generator)
        except StopIteration:
            raise StopAsyncIteration from None
        except StopAsyncIteration as error:
            raise RuntimeError("the model raised StopAsyncIteration") from error

    async def throw(self, error: Exception) -> object:
        try:
            # Without our frames: the new traceback begins at the author's `yield`.
            return self._generator.throw(error.with_traceback(None))
        except StopIteration:
            raise StopAsyncIteration from None
        except StopAsyncIteration as error:
            raise RuntimeError("the model raised StopAsyncIteration") from error

    async def close(self) -> None:
        self._generator.close()

    def interrupt(self) -> None:
        """Do nothing: a step never waits on the loop."""

    @property
    def frame(self) -> FrameType | None:
        return self._generator.gi_frame if isinstance(self._generator, GeneratorType) else None


class AsyncSteps:
    """Step an async generator in one task, so that ContextVars, timeouts and task groups around a `yield` work.

    A step that waits ends with SessionStopped when the client leaves.
    """

    computes_at_once: ClassVar[bool] = False
    sessions = 1

    def __init__(self, generator: AsyncGenerator[Any, None], session: ModelSession) -> None:
        self._generator = generator
        self._session = session
        self._calls: asyncio.Queue[_Call | None] = asyncio.Queue()
        self._newest: asyncio.Future[object] | None = None
        self._interrupted = False
        self._task = asyncio.create_task(without_exit(self._run()), name="inference")

    async def next(self) -> object:
        return await self._call(self._generator.__anext__)

    async def throw(self, error: Exception) -> object:
        return await self._call(lambda: self._generator.athrow(error.with_traceback(None)))

    async def close(self) -> None:
        if self._newest is not None and self._newest.cancelled():
            # The session's own task was cancelled while the step was running.
            self._task.cancel()
        self._calls.put_nowait(None)
        await self._task

    def interrupt(self) -> None:
        if self._newest is not None and not self._newest.done():
            self._interrupted = True
            self._task.cancel()

    async def _call(self, step: Callable[[], Awaitable[object]]) -> object:
        if self._session.stopping:
            raise SessionStopped
        self._newest = asyncio.get_running_loop().create_future()
        self._calls.put_nowait((step, self._newest))
        try:
            return await self._session.guard_task(self._newest, self._task)
        except RuntimeError:
            if self._interrupted and self._newest.cancelled():
                raise StopAsyncIteration from None
            raise

    async def _run(self) -> None:
        cancelled: asyncio.CancelledError | None = None
        while True:
            try:
                call = await self._calls.get()
            except asyncio.CancelledError as error:
                # By a timeout or a task group around the `yield`: the next step raises it there.
                cancelled = error
                continue
            if call is None:
                return await self._close()
            step, result = call
            if cancelled is not None:
                step, cancelled = partial(self._generator.athrow, cancelled), None
            await self._make(step, result)

    async def _close(self) -> None:
        try:
            await self._session.with_numbers(self._generator.aclose())
        # A task group around the `yield` wraps the GeneratorExit that ends it.
        except BaseExceptionGroup as group:
            _, others = group.split(GeneratorExit)
            if others is not None:
                raise others from None

    async def _make(self, step: Callable[[], Awaitable[object]], result: asyncio.Future[object]) -> None:
        try:
            item = await without_exit(self._session.with_numbers(step()))
        except asyncio.CancelledError:
            self._task.uncancel()
            result.cancel()
        # The caller of next() or throw() raises it.
        except BaseException as error:  # noqa: BLE001
            if not result.done():
                result.set_exception(error)
        else:
            if not result.done():
                result.set_result(item)

    @property
    def frame(self) -> FrameType | None:
        return self._generator.ag_frame if isinstance(self._generator, AsyncGeneratorType) else None


class BatchedSteps:
    """Step a session in the batches of its model."""

    computes_at_once: ClassVar[bool] = False

    def __init__(self, batch: Batch, model: Model, session: ModelSession) -> None:
        self.sessions = 1
        self.model = model
        self.wake = session.wake
        self.stepped = session.stepped
        self.session = session
        self._batch = batch
        batch.open(self)

    async def next(self) -> object:
        return await self._batch.make_step(self, self.session.now())

    async def throw(self, error: Exception) -> object:
        raise error

    async def close(self) -> None:
        self._batch.close(self)

    def interrupt(self) -> None:
        """Do nothing: a step waits only until the other sessions have asked for theirs."""

    @property
    def frame(self) -> FrameType | None:
        return self._batch.frame


def start_pipeline(version: Version, session: ModelSession, timer: StepTimer) -> Steps:  # noqa: ARG001
    """Start the author's generator; TypeError at its `return` if it is none."""
    if session.batch is not None:
        return BatchedSteps(session.batch, version.model, session)
    method = version.contract.style.frames_method
    made = getattr(version.model, method)()
    with declared_at(type(version.model), method, returning=True):
        return start_steps(made, session, method)


def start_steps(result: object, session: ModelSession, method: str) -> Steps:
    """Return the steps of the generator that the author's `method` returned; raise TypeError if it is none."""
    if isinstance(result, Generator):
        return SyncSteps(result)
    if isinstance(result, AsyncGenerator):
        return AsyncSteps(result, session)
    # A coroutine that is dropped without `await` would warn in addition to this error.
    if hasattr(result, "close"):
        result.close()
    raise TypeError(
        f"{method}() returned {type(result).__name__}, not a generator: write `yield` in place of `return`, "
        "in a def or async def"
    )
