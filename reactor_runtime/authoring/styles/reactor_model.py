"""The loop style: `ReactorModel`, whose `run()` runs as long as the model and emits frames."""

from __future__ import annotations

import asyncio

from reactor_runtime.authoring.styles.async_model import AsyncModel
from reactor_runtime.authoring.tracks.tracks import Output


class ReactorModel(AsyncModel):
    """Write a model as a loop: prepare in `load()`, then wait for `self.connected`, compute and `emit()` in `run()`.

    `fps` is the rate at which frames are shown, `buffer_size` the maximum number of bundles that wait to be shown.
    Events run concurrently with `run()`, at its await points: copy the attributes you need before you await. An
    annotated `state` is made anew for each session, and has its defaults while no client is connected.
    """

    fps: float = 30

    async def run(self) -> None:
        """Run from `load()` to the end of the process.

        The default waits for ever, for models that act only in handlers.
        Raising or returning ends the session; the next session starts it again.
        """
        await asyncio.Event().wait()

    async def emit(self, output: Output | object, *, compute_time: float | None = None, drop: bool = False) -> None:
        """Emit an Output, a frame or a batch of frames; without a client nothing happens.

        Waits while the queue is full; with `drop` it never waits, keeps the frames of a batch that fit and drops the
        rest. `compute_time` in seconds moves the rate towards the frames made per second. Raises TypeError or
        ValueError that names the track, the value and the fix. Call it on the model's thread.
        """
        await self._reactor_served().emit(output, compute_time=compute_time, drop=drop)
