"""A real-time video model: waves of silk. `reactor run` serves it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from reactor_runtime.interface import InputField, InputState, Output, ReactorPipeline, Tap, Video, event


# Each field is a track that clients receive.
@dataclass
class MyOutput(Output):
    main_video: Video


# Each field is a control on the page and an event, set_brightness. Those with an underscore are private: the frame to
# come, and the pebbles, each with its place and its first frame.
@dataclass
class MyState(InputState):
    brightness: float = InputField(default=1.0, ge=0.0, le=2.0, description="Brightness multiplier")
    _frame_idx: int = 0
    _pebbles: tuple[tuple[float, float, int], ...] = ()


class MyModel(ReactorPipeline):
    state: MyState
    fps = 30
    buffer_size = 8

    # Called once, before any client: load weights here. `config` is config.yml.
    def load(self, config: dict[str, Any]) -> None:
        self.width = config.get("width", 640)
        self.height = config.get("height", 480)
        self.chunk_size = config.get("chunk_size", 4)

    # A button on the page, and a click on the video. Events are handled between two yields.
    @event(name="splash", description="Drop a pebble", bind=Tap())
    def splash(
        self, x: float = InputField(default=0.5, ge=0.0, le=1.0), y: float = InputField(default=0.5, ge=0.0, le=1.0)
    ) -> None:
        self.state._pebbles = (*self.state._pebbles[-2:], (x, y, self.state._frame_idx))

    # Started for each client, with a fresh state. Reactor shows the frames of each yield at an even rate.
    def inference(self):
        while True:
            batch, self.state._frame_idx = render_batch(
                self.width, self.height, self.chunk_size,
                self.state._frame_idx, self.state.brightness, self.state._pebbles,
            )
            yield MyOutput(main_video=batch)


# 512 colours in a ring, each in 128 shades: the height of a fold chooses the colour, its slope the shade.
COLOURS = (16, 20, 84), (30, 90, 200), (96, 196, 226), (176, 150, 240), (244, 110, 160), (255, 150, 112), (130, 40, 140)
RING = [np.interp(np.arange(0, 7, 7 / 512), np.arange(7), channel, period=7) for channel in np.transpose(COLOURS)]
LIGHT = np.tanh(np.linspace(-2, 2, 128))[:, None, None]
SILK = (np.transpose(RING) * (0.85 + 0.5 * LIGHT) + 35 * LIGHT.clip(0) ** 2).reshape(-1, 3)


# Your model's forward pass goes here. It returns uint8 RGB of shape (frames, height, width, 3), and the next index.
def render_batch(
    width: int, height: int, chunk_size: int, start_idx: int, brightness: float, pebbles: tuple[Any, ...] = ()
) -> tuple[np.ndarray, int]:
    batch = np.empty((chunk_size, height, width, 3), np.uint8)
    colours = (SILK * brightness).clip(0, 255).astype(np.uint8)
    x = np.linspace(-1, 1, width + 1, dtype=np.float32) * (width / height)
    y = np.linspace(-1, 1, height + 1, dtype=np.float32)[:, None]
    for idx, frame in enumerate(batch, start_idx):
        t = idx / MyModel.fps
        folds = np.sin(2.4 * x - 1.1 * y + 1.9 * np.sin(1.4 * x + 1.9 * y + 0.35 * t) - 0.25 * t)
        folds += np.sin(0.75 * x + 2.75 * y + 1.7 * folds + 0.3 * t)
        for px, py, since in pebbles:
            age = t - since / MyModel.fps
            if age < 5:
                behind = age - np.hypot(x - (2 * px - 1) * width / height, y - (2 * py - 1))
                folds += 0.5 * np.exp(-age - 16 * behind**2) * np.cos(20 * behind)
        shade = (64 + 2.2 * height * (folds[1:, :-1] - folds[:-1, 1:])).clip(0, 127).astype(np.int32)
        colour = (70 * folds[1:, 1:] + 18 * t).astype(np.int32) % 512
        colours.take(512 * shade + colour, axis=0, out=frame, mode="clip")
    return batch, start_idx + chunk_size
