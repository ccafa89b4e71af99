"""The model as a loop of its own: run() decides when frames are made, and runs on from one client to the next.

`reactor run` creates one MyModel, calls load() once, and then run(), which lasts as long as the model.
"""

import asyncio
from typing import Any

import numpy as np
from reactor_runtime.interface import InputField, ModelMessage, Output, ReactorModel, Tap, Video, connected, event


# Each field is a track that clients receive.
class MyOutput(Output):
    main_video: Video


# A message to clients: the reply to a splash, {"type": "splashed", "data": {"number": 3}} on the wire.
class Splashed(ModelMessage):
    """The number of pebbles dropped by all clients."""

    number: int


class MyModel(ReactorModel):
    fps = 30
    # Two batches: one is shown while the next is made.
    buffer_size = 8

    # Called once, before any client. Attributes set here belong to the model and are not reset between clients:
    # time goes on, and the ripples stay for the next client.
    def load(self, config: dict[str, Any]) -> None:
        self.width = config.get("width", 640)
        self.height = config.get("height", 480)
        self.chunk_size = config.get("chunk_size", 4)
        self.frame_idx = 0
        self.number = 0
        self.pebbles: tuple[tuple[float, float, int], ...] = ()
        self.flowing = asyncio.Event()

    # Called for each client: reset its values here. run() continues when this has returned.
    @connected
    def welcome(self) -> None:
        self.brightness = 1.0
        self.flowing.set()

    # Without a state class, each control is a method. Wrong values are refused before they get here.
    @event(name="set_brightness", description="Make it darker or brighter")
    def set_brightness(self, brightness: float = InputField(default=1.0, ge=0.0, le=2.0)) -> None:
        self.brightness = brightness

    @event(name="splash", description="Drop a pebble", bind=Tap())
    def splash(
        self, x: float = InputField(default=0.5, ge=0.0, le=1.0), y: float = InputField(default=0.5, ge=0.0, le=1.0)
    ) -> Splashed:
        self.pebbles = (*self.pebbles[-2:], (x, y, self.frame_idx))
        self.number += 1
        return Splashed(number=self.number)

    @event(name="freeze", description="Stop time")
    def freeze(self) -> None:
        self.flowing.clear()

    @event(name="flow", description="Continue time")
    def flow(self) -> None:
        self.flowing.set()

    async def run(self) -> None:
        while True:
            # Without a client no frames are made.
            await self.connected.wait()
            while self.connected.is_set():
                await self.flowing.wait()
                # Events are handled at every await. The values of this batch are arguments, so that events cannot
                # change them meanwhile; in a thread the work does not delay events.
                batch, self.frame_idx = await asyncio.to_thread(
                    render_batch,
                    self.width, self.height, self.chunk_size,
                    self.frame_idx, self.brightness, self.pebbles,
                )
                # Waits while the buffer is full, which paces the loop: emit whole batches and never sleep.
                await self.emit(MyOutput(main_video=batch))


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
