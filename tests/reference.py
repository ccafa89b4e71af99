"""Programs with every construct of the reference pages on pipelines and on blocks, written as the pages write it."""

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
BLOCKS = """\
import time
import torch
from reactor_runtime import VideoModel, command, get_ctx, model


@model(name="blocks", config="config.yml")
class MyModel(VideoModel):
    def __init__(self, config):
        self.height, self.width = config["height"], config["width"]
        self.prompt = ""

    @command("set_prompt", description="What to paint")
    def set_prompt(self, prompt: str):
        self.prompt = prompt

    def has_input(self):
        return bool(self.prompt)

    def generate(self):
        return torch.full((1, 3, 4, self.height, self.width), 0.25, dtype=torch.float16)

    def generate_block(self):
        # From (B, C, T, H, W) float tensor in [-1, 1] range
        video = self.generate()

        # Remove batch, reorder to (T, H, W, C)
        frames = video.squeeze(0).permute(1, 2, 3, 0)

        # Convert from [-1, 1] to [0, 255] uint8
        frames = ((frames + 1.0) * 127.5).clamp(0, 255).to(torch.uint8)

        # Move to CPU and convert to NumPy
        return frames.cpu().numpy()

    def start_session(self):
        frame_count = 0
        get_ctx().emit_block(None)
        while not get_ctx().should_stop():
            # Wait for user to provide initial input
            while not self.has_input():
                if get_ctx().should_stop():
                    return
                get_ctx().disable_monitoring()  # Tell Reactor we are intentionally paused
                time.sleep(0.1)

            get_ctx().enable_monitoring()  # Resume tracking

            # Generate and emit frames
            frames = self.generate_block()
            get_ctx().emit_block(frames)

            frame_count += len(frames)
            get_ctx().send({
                "type": "progress",
                "data": {"frames_generated": frame_count}
            })
"""
