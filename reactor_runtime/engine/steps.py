"""One face for what `inference()` returned: a generator or an async generator."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from typing import Any, Protocol

from reactor_runtime.engine.session import Session


class Steps(Protocol):
    """Make one output a step; StopAsyncIteration when the generator has ended."""

    async def next(self) -> object: ...

    async def throw(self, error: Exception) -> object:
        """Raise `error` where the author yielded: the traceback names that line, and the author may catch it."""

    async def close(self) -> None: ...


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


class AsyncSteps:
    """Step an async generator; a step that waits ends with SessionStopped when the client goes."""

    def __init__(self, generator: AsyncGenerator[Any, None], session: Session) -> None:
        self._generator = generator
        self._session = session

    async def next(self) -> object:
        return await self._session.guard(_await(self._generator.__anext__()))

    async def throw(self, error: Exception) -> object:
        return await self._session.guard(_await(self._generator.athrow(error.with_traceback(None))))

    async def close(self) -> None:
        await self._generator.aclose()


def start_steps(result: object, session: Session) -> Steps:
    """Take what `inference()` returned; TypeError if it can't be stepped."""
    if isinstance(result, Generator):
        return SyncSteps(result)
    if isinstance(result, AsyncGenerator):
        return AsyncSteps(result, session)
    if hasattr(result, "close"):  # a coroutine that is dropped unawaited would warn a second time
        result.close()
    raise TypeError(
        f"inference() returned {type(result).__name__}, not a generator; make frames with `yield` in a def or async def"
    )


async def _await(awaitable: Any) -> object:
    return await awaitable
