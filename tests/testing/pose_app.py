"""An app without output tracks, in a module without an `Output`: it reads a camera and sends messages."""

from __future__ import annotations

from typing import Any

from reactor_runtime import ApplicationError, Input, ModelMessage, ReactorApp, ReadMode, StepOutcome, Video


class Camera(Input):
    camera: Video


class Pose(ModelMessage):
    x: float


class PoseApp(ReactorApp):
    inputs: Camera

    async def process_input(self) -> Any:
        frames = self.inputs.camera.try_read(mode=ReadMode.FIFO)
        if frames is None:
            raise ApplicationError("no frame of the camera yet")
        return frames[0]

    def generate(self, input: Any) -> float:
        return float(input.mean())

    async def process_output(self, outcome: StepOutcome) -> None:
        await self.send(Pose(x=outcome.result))
