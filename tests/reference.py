"""Programs with every construct of the two reference pages on pipelines, written as the pages write it."""

_IMPORTS = """\
from dataclasses import dataclass
from typing import Any

import numpy as np
from reactor_runtime.interface import Audio, Idle, InputField, InputState, ModelMessage, Output, ReactorPipeline, Video
"""
WALK_THROUGH = (
    _IMPORTS
    + """\
@dataclass
class MyOutput(Output):
    main_video: Video


@dataclass
class MyState(InputState):
    brightness: float = InputField(default=1.0, ge=0.0, le=2.0, description="Brightness multiplier")


class MyModel(ReactorPipeline):
    state: MyState
    buffer_size = 8

    def load(self, config: dict[str, Any]) -> None:
        self.width = config.get("width", 640)
        self.height = config.get("height", 480)
        self.chunk_size = config.get("chunk_size", 4)

    def inference(self):
        frame_idx = 0
        while True:
            batch, frame_idx = render_batch(
                self.width, self.height, self.chunk_size,
                frame_idx, self.state.brightness,
            )
            yield MyOutput(main_video=batch)

def render_batch(width, height, chunk_size, start_idx, brightness):
    level = int(min(255, 100 * brightness))
    return np.full((chunk_size, height, width, 3), level, np.uint8), start_idx + chunk_size
"""
)
GENERATOR = (
    _IMPORTS
    + """\
@dataclass
class MyOutput(Output):
    main_video: Video
    main_audio: Audio


@dataclass
class MyState(InputState):
    prompt: str = ""


@dataclass
class Progress(ModelMessage):
    step: int


class Pipe:
    def forward(self, prompt):
        return np.full((2, 48, 64, 3), 10 * len(prompt), np.uint8)


class MyModel(ReactorPipeline):
    state: MyState
    _step = 0

    def load(self, config):
        self.pipe = Pipe()

    async def inference(self):
        # Wait for the user to set a prompt
        while not self.state.prompt:
            # Skip this iteration
            yield Idle
        for _ in range(3):
            frames = self.pipe.forward(prompt=self.state.prompt)
            await self.send(Progress(step=self._step))
            self._step += 1
            yield None
            yield MyOutput(main_video=frames, main_audio=np.zeros((2, 1601), np.int16))
"""
)
RAW = (
    _IMPORTS
    + """\
@dataclass
class MyOutput(Output):
    main_video: Video


class MyState(InputState):
    prompt: str = ""


class MyModel(ReactorPipeline):
    state: MyState

    def inference(self):
        while True:
            yield np.full((48, 64, 3), 200, np.uint8)
"""
)
