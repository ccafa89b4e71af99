"""The model as a loop of its own: run() decides when frames are made, and runs on from one client to the next.

`reactor run` creates one MyModel, calls load() once, and then run(), which lasts as long as the model.
"""

from __future__ import annotations

import asyncio
from typing import Any

from reactor_runtime.interface import InputField, ModelMessage, Output, ReactorModel, Tap, Video, connected, event

from picture import PALETTES, Splash, render_batch
from settings import whole_number


# Each field is a track that clients receive.
class MyOutput(Output):
    main_video: Video


# A message to clients: the reply to a splash, {"type": "splashed", "data": {"number": 3}} on the wire.
class Splashed(ModelMessage):
    """The number of pebbles in the pond."""

    number: int


class MyModel(ReactorModel):
    fps = 60
    # Two batches: one is shown while the next is made.
    buffer_size = 8

    # Called once, before any client. Attributes set here belong to the model and are not reset between clients:
    # pebbles stay in the pond for the next client.
    def load(self, config: dict[str, Any]) -> None:
        self.width = whole_number(config, "width", 640, least=16, most=4096)
        self.height = whole_number(config, "height", 480, least=16, most=4096)
        self.chunk_size = whole_number(config, "chunk_size", 4, least=1, most=64)
        self.frame_idx = 0
        self.pebbles = 0
        self.splashes: tuple[Splash, ...] = ()
        self.flowing = asyncio.Event()

    # Called for each client: reset its settings here. run() continues when this has returned.
    @connected
    def welcome(self) -> None:
        self.brightness = 1.0
        self.palette = "aurora"
        self.caption = "hello"
        self.flowing.set()

    # Without a state class, each control is a method. Wrong values are refused before they get here.
    @event(name="set_brightness", description="Make it darker or brighter")
    def set_brightness(self, brightness: float = InputField(default=1.0, ge=0.0, le=2.0)) -> None:
        self.brightness = brightness

    @event(name="set_palette", description="Choose the colours")
    def set_palette(self, palette: str = InputField(default="aurora", choices=list(PALETTES))) -> None:
        self.palette = palette

    @event(name="set_caption", description="Write into the picture")
    def set_caption(self, caption: str = InputField(default="hello", max_length=24)) -> None:
        self.caption = caption

    @event(name="splash", description="Drop a pebble into the picture", bind=Tap())
    def splash(
        self,
        x: float = InputField(default=0.5, ge=0.0, le=1.0, description="0 is left, 1 is right"),
        y: float = InputField(default=0.5, ge=0.0, le=1.0, description="0 is top, 1 is bottom"),
    ) -> Splashed:
        self.pebbles += 1
        self.splashes = (*self.splashes[-3:], Splash(x, y, self.frame_idx))
        return Splashed(number=self.pebbles)

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
                    self.frame_idx, self.brightness,
                    self.palette, self.caption, self.splashes,
                )
                # Waits while the buffer is full, which paces the loop: emit whole batches and never sleep.
                await self.emit(MyOutput(main_video=batch))
