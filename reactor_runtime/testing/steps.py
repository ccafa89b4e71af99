"""The steps of a pipeline, counted and timed from outside."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

from reactor_runtime.authoring.styles.pipeline import ReactorPipeline

OnStep = Callable[[object, float], None]


class WatchedInference:
    """Be the `inference` of a model, and call `on_step(output, seconds)` after each step."""

    def __init__(self, model: ReactorPipeline, on_step: OnStep) -> None:
        self._model = model
        # What load() has assigned; else the method of the class, which a reload may replace.
        self._assigned = vars(model).get("inference")
        self._on_step = on_step

    def __call__(self) -> Any:
        steps: object = type(self._model).inference(self._model) if self._assigned is None else self._assigned()
        if isinstance(steps, Generator):
            return _WatchedSteps(steps, self._on_step)
        if isinstance(steps, AsyncGenerator):
            return _WatchedAsyncSteps(steps, self._on_step)
        return steps


class _WatchedSteps(Generator[Any, Any, Any]):
    def __init__(self, steps: Generator[Any, Any, Any], on_step: OnStep) -> None:
        self._steps = steps
        self._on_step = on_step

    def send(self, value: Any, /) -> Any:
        began = time.perf_counter()
        item = self._steps.send(value)
        self._on_step(item, time.perf_counter() - began)
        return item

    def throw(self, *error: Any) -> Any:
        began = time.perf_counter()
        item = self._steps.throw(*error)
        self._on_step(item, time.perf_counter() - began)
        return item

    def close(self) -> None:
        self._steps.close()


class _WatchedAsyncSteps(AsyncGenerator[Any, Any]):
    def __init__(self, steps: AsyncGenerator[Any, Any], on_step: OnStep) -> None:
        self._steps = steps
        self._on_step = on_step

    async def asend(self, value: Any, /) -> Any:
        began = time.perf_counter()
        item = await self._steps.asend(value)
        self._on_step(item, time.perf_counter() - began)
        return item

    async def athrow(self, *error: Any) -> Any:
        began = time.perf_counter()
        item = await self._steps.athrow(*error)
        self._on_step(item, time.perf_counter() - began)
        return item

    async def aclose(self) -> None:
        await self._steps.aclose()
