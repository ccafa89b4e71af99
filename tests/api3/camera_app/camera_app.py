"""A policy of a robot: a step takes one frame of each of three cameras, or does not take place."""

from __future__ import annotations

from typing import Any

import numpy as np

from reactor_runtime import ApplicationError, Input, Output, ReactorApp, ReadMode, StepOutcome, Video


class Cameras(Input):
    left: Video
    right: Video
    wrist: Video


class View(Output):
    view: Video


class CameraApp(ReactorApp):
    cameras: Cameras
    fps = 25

    async def process_input(self) -> list[Any]:
        buffers = (self.cameras.left, self.cameras.right, self.cameras.wrist)
        if not all(buffer.available for buffer in buffers):
            raise ApplicationError("no frame of each camera yet")
        read = [buffer.try_read(mode=ReadMode.FIFO) for buffer in buffers]
        return [frames[0] for frames in read if frames is not None]

    def generate(self, input: list[Any]) -> Any:
        return np.concatenate(input, axis=1)

    async def process_output(self, outcome: StepOutcome) -> View:
        if outcome.error:
            raise outcome.error
        return View(view=outcome.result)
