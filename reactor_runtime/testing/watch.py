"""Looking over the shoulder of `inference()`: what each step yielded, and how long it took."""

from __future__ import annotations

import copy
import time
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

import numpy as np

from reactor_runtime.authoring.tracks import Output, payloads
from reactor_runtime.media.tensors import copied

Note = Callable[[object, float], None]


def watched(inference: Callable[[], object], note: Note) -> Callable[[], Any]:
    """Wrap an `inference`, so that `note(output, seconds)` is called for each step; all else stays as it was."""

    def start() -> object:
        steps = inference()
        if isinstance(steps, Generator):
            return _Steps(steps, note)
        if isinstance(steps, AsyncGenerator):
            return _AsyncSteps(steps, note)
        return steps

    return start


def kept(output: object) -> object:
    """Copy what a step yielded, as authors may use the same array for the next one."""
    if isinstance(output, np.ndarray):
        return output.copy()
    if not isinstance(output, Output):
        return copied(output)
    twin = copy.copy(output)
    for name, payload in payloads(output).items():
        object.__setattr__(twin, name, kept(payload))  # the dataclass may be frozen
    return twin


class _Steps(Generator[Any, Any, Any]):
    def __init__(self, steps: Generator[Any, Any, Any], note: Note) -> None:
        self._steps = steps
        self._note = note

    def send(self, value: Any, /) -> Any:
        began = time.perf_counter()
        item = self._steps.send(value)
        self._note(item, time.perf_counter() - began)
        return item

    def throw(self, *error: Any) -> Any:
        began = time.perf_counter()
        item = self._steps.throw(*error)
        self._note(item, time.perf_counter() - began)
        return item

    def close(self) -> None:
        self._steps.close()


class _AsyncSteps(AsyncGenerator[Any, Any]):
    def __init__(self, steps: AsyncGenerator[Any, Any], note: Note) -> None:
        self._steps = steps
        self._note = note

    async def asend(self, value: Any, /) -> Any:
        began = time.perf_counter()
        item = await self._steps.asend(value)
        self._note(item, time.perf_counter() - began)
        return item

    async def athrow(self, *error: Any) -> Any:
        began = time.perf_counter()
        item = await self._steps.athrow(*error)
        self._note(item, time.perf_counter() - began)
        return item

    async def aclose(self) -> None:
        await self._steps.aclose()
