"""A loop model without work of its own: copies its camera to its output, and measures the time of an emit."""

import asyncio
import itertools
import statistics
import time
from typing import Any

import numpy as np

from reactor_runtime.interface import (
    BufferClosed,
    Input,
    ModelMessage,
    Output,
    ReactorModel,
    Video,
    connected,
    disconnected,
    event,
)

WARMUP = 20


class LoopInput(Input):
    camera: Video


class LoopOutput(Output):
    main_video: Video


class Costs(ModelMessage):
    """Median seconds of an emit, of one right after it, of a put into a bare queue, and of copying the frame."""

    emit_s: float
    again_s: float
    put_s: float
    copy_s: float


class Loop(ReactorModel):
    input: LoopInput
    fps = 60

    def load(self, config: dict[str, Any]) -> None:
        shape = (8, config["height"], config["width"], 3)
        self.frames = np.random.default_rng(7).integers(0, 255, shape, np.uint8)
        self.spare = np.zeros(shape, np.uint8)

    @connected
    def open_camera(self) -> None:
        self.input.camera.reset()

    @disconnected
    def close_camera(self) -> None:
        self.input.camera.close()

    @event(name="measure")
    async def measure(self, count: int) -> Costs:
        """Emit slower than frames are shown, so that no emit waits for room, from memory that is not in a cache."""
        queue: asyncio.Queue[LoopOutput] = asyncio.Queue(4)
        times: list[list[float]] = []
        for number in range(WARMUP + count):
            await asyncio.sleep(1 / 25)
            outputs = [LoopOutput(main_video=self.frames[(number + offset) % 8]) for offset in (0, 2)]
            marks = [time.perf_counter()]
            await self.emit(outputs[0])
            marks.append(time.perf_counter())
            await self.emit(outputs[1])
            marks.append(time.perf_counter())
            await queue.put(outputs[0])
            marks.append(time.perf_counter())
            np.copyto(self.spare[number % 8], self.frames[(number + 4) % 8])
            marks.append(time.perf_counter())
            times.append([after - before for before, after in itertools.pairwise(marks)])
            queue.get_nowait()
        emit_s, again_s, put_s, copy_s = (statistics.median(column) for column in zip(*times[WARMUP:], strict=True))
        return Costs(emit_s=emit_s, again_s=again_s, put_s=put_s, copy_s=copy_s)

    async def run(self) -> None:
        while True:
            await self.connected.wait()
            try:
                while self.connected.is_set():
                    [frame] = await self.input.camera.read()
                    await self.emit(LoopOutput(main_video=frame))
            except BufferClosed:
                pass
