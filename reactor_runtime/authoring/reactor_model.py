"""The loop style: `ReactorModel`, whose `run()` lives as long as the model and emits what it makes."""

from __future__ import annotations

import asyncio

from reactor_runtime.authoring.loop_model import LoopModel
from reactor_runtime.authoring.tracks import Output


class ReactorModel(LoopModel):
    """Write a model as a loop: prepare in `load()`, then wait for `self.connected`, compute and `emit()` in `run()`.

    `fps` is the rate frames are shown at, `buffer_size` the most moments that wait to be shown. Events run concurrently
    with `run()`, at its await points: copy what you need of the instance before you await.
    """

    fps: float = 30

    async def run(self) -> None:
        """Run once, from `load()` to the end of the process; by default it waits for ever, as event-driven models do.

        Raising or returning ends the session; it is started again for the next.
        """
        await asyncio.Event().wait()

    async def emit(self, output: Output | object, *, compute_time: float | None = None, drop: bool = False) -> None:
        """Hand over an Output, a raw frame or a batch of frames; nobody connected: nothing happens.

        Waits while the queue is full; with `drop` it never waits, keeps what fits from the front of a batch and
        discards the rest. `compute_time` in seconds moves the rate towards the frames made per second. Raises
        TypeError or ValueError for what can't be shown, naming track, what came and the fix. Belongs to the model's
        thread.
        """
        await self._served().emit(output, compute_time=compute_time, drop=drop)
