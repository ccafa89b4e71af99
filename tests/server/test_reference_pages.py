"""Every construct of the two pages on pipelines, written as the pages write it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.client import client, controlling
from tests.server.running import RunningServer, serving

IMPORTS = """\
from dataclasses import dataclass
from typing import Any

import numpy as np
from reactor_runtime.interface import Audio, Idle, InputField, InputState, ModelMessage, Output, ReactorPipeline, Video
"""
WALK_THROUGH = """\
from reactor_runtime.interface import InputField, InputState, Output, ReactorPipeline, Video

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
GENERATOR = """\
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
RAW = """\
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


def write(directory: Path, program: str) -> Path:
    (directory / "reactor.yaml").write_text("model: pipeline:MyModel\nname: my-model\nconfig: config.yml\n")
    (directory / "config.yml").write_text("width: 320\nheight: 240\n")
    (directory / "pipeline.py").write_text(IMPORTS + program)
    return directory


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(write(tmp_path_factory.mktemp("model"), WALK_THROUGH), "--set", "height=200") as server:
        yield server


async def test_the_model_that_is_walked_through_shows_its_brightness(walked: RunningServer) -> None:
    async with controlling(walked.url) as controller:
        first = await controller.frame()
        assert first.size == (320, 200)
        assert abs(first.level - 100) < 3
        assert (await controller.ask("set_brightness", {"brightness": 2}))["data"] == {"n": 1}
        assert abs((await controller.frame(applied=1)).level - 200) < 3


async def test_its_events_and_tracks_are_described(walked: RunningServer) -> None:
    async with client(walked.url) as controller:
        welcome = await controller.data("reactor.welcome")
    assert welcome["schema"]["events"]["set_brightness"] == {
        "description": "Brightness multiplier",
        "field": "brightness",
        "parameters": {
            "type": "object",
            "properties": {
                "brightness": {
                    "type": "number",
                    "minimum": 0.0,
                    "maximum": 2.0,
                    "default": 1.0,
                    "description": "Brightness multiplier",
                }
            },
            "required": ["brightness"],
            "additionalProperties": False,
        },
    }


async def test_the_generator_page_idles_sends_messages_sound_and_batches_and_is_restarted(tmp_path: Path) -> None:
    with serving(write(tmp_path, GENERATOR)) as server:
        async with controlling(server.url) as controller:
            await controller.send("set_prompt", {"prompt": "a cat"})
            frames = [await controller.frame() for _ in range(8)]
            assert all(abs(frame.level - 50) < 3 for frame in frames)
            sound = await controller.sound()
            assert (sound.channels, sound.sample_rate, sound.header.track) == (2, 48000, "main_audio")
            assert sound.samples in (800, 801)
            steps = [message["data"]["step"] for message in controller.texts if message["type"] == "progress"]
            assert steps == list(range(len(steps)))
            assert len(steps) > 3


async def test_a_raw_frame_is_enough_for_one_track(tmp_path: Path) -> None:
    with serving(write(tmp_path, RAW)) as server:
        async with controlling(server.url) as controller:
            assert abs((await controller.frame()).level - 200) < 3
