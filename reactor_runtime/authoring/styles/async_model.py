"""The base class of models that run on an event loop: generators and loops."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.authoring.code.source import declared_at
from reactor_runtime.authoring.events.messages import ModelMessage
from reactor_runtime.authoring.styles.model import Model

_RESERVED = ("connected", "output_buffer", "send", "send_nowait")


@runtime_checkable
class OutputQueue(Protocol):
    """Control the queue of frames that wait to be shown."""

    @property
    def fps(self) -> float:
        """Return the rate at which frames are shown."""
        ...

    @fps.setter
    def fps(self, fps: float) -> None: ...

    def set_fps(self, fps: float) -> None:
        """Change the rate from the next frame on; raise ValueError unless it is above 0."""
        ...

    def flush(self, *, hold: bool = False) -> None:
        """Drop all queued frames and show one black frame; with `hold` the newest frame stays."""
        ...

    def empty(self, shape: Sequence[int]) -> NDArray[np.uint8]:
        """Return memory, with arbitrary values, for a frame `(height, width, 3)` or a batch, which is not copied.

        After the `yield` or `emit` it may be read, and not be changed: take another one for the next output.
        """
        ...

    async def emit(self, output: object, *, compute_time: float | None = None, drop: bool = False) -> None:
        """Emit an Output, a frame or a batch, as `ReactorModel.emit`."""
        ...


class Runtime(Protocol):
    """Connect a model to the engine that runs it."""

    @property
    def connected(self) -> asyncio.Event: ...

    @property
    def output_buffer(self) -> OutputQueue: ...

    def send(self, message: ModelMessage) -> None: ...

    async def emit(self, output: object, *, compute_time: float | None, drop: bool) -> None: ...


class _OutputAttribute:
    """Return the output buffer as `self.output`; an instance may have another value, as a stub in a test."""

    def __get__(self, model: AsyncModel | None, owner: type) -> Any:
        return self if model is None else model.output_buffer


class AsyncModel(Model):
    """Provide `connected`, messages and the output buffer to a model on an event loop."""

    # The engine sets it before load(), because an author's __init__ need not call ours.
    _reactor_runtime: Runtime | None = None
    output: Any = _OutputAttribute()

    def __init_subclass__(cls, **options: Any) -> None:
        _check_names(cls)
        super().__init_subclass__(**options)

    @property
    def connected(self) -> asyncio.Event:
        """Return the event that is set while a client is connected."""
        return self._reactor_served().connected

    @property
    def output_buffer(self) -> OutputQueue:
        """Return the queue of frames that wait to be shown."""
        return self._reactor_served().output_buffer

    async def send(self, message: ModelMessage) -> None:
        """Send a message to the session's clients after the frames emitted before it; does nothing without a client."""
        self._reactor_served().send(message)

    def send_nowait(self, message: ModelMessage) -> None:
        """Send a message as `send` does, from sync code and from any thread."""
        self._reactor_served().send(message)

    def _reactor_served(self) -> Runtime:
        if self._reactor_runtime is None:
            raise RuntimeError(f"{type(self).__name__} is not running: use this in load() or later")
        return self._reactor_runtime


def _check_names(cls: type) -> None:
    for name in _RESERVED:
        if name in vars(cls):
            with declared_at(cls, name):
                raise TypeError(f"{cls.__name__}.{name} would hide the model's own self.{name}; give it another name")
