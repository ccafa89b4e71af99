"""The part of the emitter that authors use: `self.output_buffer`, which is `self.output` too."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.engine.output.emitter import Emitter, Lend
from reactor_runtime.media.frames import check_shape


class Emit(Protocol):
    """Hand over output as the model's `emit` does."""

    async def __call__(self, output: object, *, compute_time: float | None, drop: bool) -> None: ...


class OutputBuffer:
    """Emit frames, change the rate and empty the queue for the author; belongs to the model's thread."""

    # Assigning to a track is an error.
    __slots__ = ("_emit", "_emitter")

    def __init__(self, emitter: Emitter, emit: Emit | None = None) -> None:
        self._emitter = emitter
        self._emit = emit or emitter.emit

    def __call__(self, *_: object, **__: object) -> NoReturn:
        """Raise TypeError: `output: MyOutput` in a class declares the tracks, and is no attribute."""
        raise TypeError("self.output is the queue of frames: make an output with its class, as in MyOutput(…)")

    @property
    def fps(self) -> float:
        """Return the rate at which frames are shown, in frames per second."""
        return self._emitter.pace.fps

    @fps.setter
    def fps(self, fps: float) -> None:
        self.set_fps(fps)

    def set_fps(self, fps: float) -> None:
        """Show frames at `fps` from the next one on; ValueError unless it is above 0."""
        self._emitter.pace.set_fps(float(fps))

    def flush(self, *, hold: bool = False) -> None:
        """Drop all queued frames and the rest of a batch that waits to be queued, and show one black frame.

        With `hold` clients keep the newest frame instead. Does nothing without a session.
        """
        self._emitter.flush(hold=hold)

    def empty(self, shape: Sequence[int]) -> NDArray[np.uint8]:
        """Return memory, with arbitrary values, for a frame `(height, width, 3)` or a batch, which is not copied.

        After the `yield` or `emit` it may be read, and not be changed: take another one for the next output.
        Any thread. Raises ValueError for a shape that no frame has.
        """
        return empty_frames(self._emitter.lend, shape)

    async def emit(self, output: object, *, compute_time: float | None = None, drop: bool = False) -> None:
        """Emit an Output, a frame or a batch, as `ReactorModel.emit`."""
        await self._emit(output, compute_time=compute_time, drop=drop)


def empty_frames(lend: Lend, shape: Sequence[int]) -> NDArray[np.uint8]:
    """Return an array of memory that `lend` returns; ValueError for a shape that no frame has."""
    checked = check_shape(shape)
    return lend(math.prod(checked)).reshape(checked)
