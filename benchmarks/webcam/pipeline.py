"""A pipeline without work of its own that copies its camera, at a declared rate; it waits for frames or polls."""

from collections.abc import AsyncIterator
from typing import Any

from reactor_runtime.interface import Idle, Input, InputState, Output, ReactorPipeline, Video


class WebcamInput(Input):
    camera: Video


class WebcamOutput(Output):
    main_video: Video


class WebcamState(InputState):
    pass


class Webcam(ReactorPipeline):
    state: WebcamState
    input: WebcamInput
    output: WebcamOutput

    def load(self, config: dict[str, Any]) -> None:
        self.polls = config["polls"]
        self.output_buffer.set_fps(config["fps"])

    async def inference(self) -> AsyncIterator[Any]:
        camera = self.input.camera
        while True:
            images = camera.try_read() if self.polls else await camera.read()
            yield WebcamOutput(main_video=images[0]) if images else Idle
