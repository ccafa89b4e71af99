"""A model with a loop of its own: it decides when pictures are made, and goes on from one client to the next.

`reactor run` makes one MyModel, calls load() once, and then run(), which lives as long as the model.
"""

from __future__ import annotations

import asyncio
from typing import Any

from reactor_runtime.interface import InputField, ModelMessage, Output, ReactorModel, Video, connected, event

from picture import PALETTES, Splash, render_batch


# What clients see. Each field is a track; its name is what they know it by.
class MyOutput(Output):
    main_video: Video


# What clients are told: the answer to a splash, {"type": "splashed", "data": {"number": 3}} on the wire.
class Splashed(ModelMessage):
    """How many pebbles lie in the pond."""

    number: int


class MyModel(ReactorModel):
    fps = 60
    buffer_size = 8  # twice a batch: one is shown while the next is made

    # Called once, before anyone can connect. What is set here belongs to the model and not to a client: nobody
    # resets it, so each client finds the pond as the one before left it.
    def load(self, config: dict[str, Any]) -> None:
        self.width = whole_number(config, "width", 640, least=16, most=4096)
        self.height = whole_number(config, "height", 480, least=16, most=4096)
        self.chunk_size = whole_number(config, "chunk_size", 4, least=1, most=64)
        self.frame_idx = 0
        self.pebbles = 0
        self.splashes: tuple[Splash, ...] = ()
        self.flowing = asyncio.Event()

    # Called for each client. What belongs to a client starts anew here; run() goes on when this is done.
    @connected
    def welcome(self) -> None:
        self.brightness = 1.0
        self.palette = "aurora"
        self.caption = "hello"
        self.flowing.set()

    # There is no state class: each thing a client may do is a method. Wrong values never get here.
    @event(name="set_brightness", description="Make it darker or brighter")
    def set_brightness(self, brightness: float = InputField(default=1.0, ge=0.0, le=2.0)) -> None:
        self.brightness = brightness

    @event(name="set_palette", description="Choose the colours")
    def set_palette(self, palette: str = InputField(default="aurora", choices=list(PALETTES))) -> None:
        self.palette = palette

    @event(name="set_caption", description="Write into the picture")
    def set_caption(self, caption: str = InputField(default="hello", max_length=24)) -> None:
        self.caption = caption

    @event(name="splash", description="Drop a pebble into the picture")
    def splash(
        self,
        x: float = InputField(default=0.5, ge=0.0, le=1.0, description="0 is left, 1 is right"),
        y: float = InputField(default=0.5, ge=0.0, le=1.0, description="0 is top, 1 is bottom"),
    ) -> Splashed:
        self.pebbles += 1
        self.splashes = (*self.splashes[-3:], Splash(x, y, self.frame_idx))
        return Splashed(number=self.pebbles)

    @event(name="freeze", description="Stop the time")
    def freeze(self) -> None:
        self.flowing.clear()

    @event(name="flow", description="Let the time run")
    def flow(self) -> None:
        self.flowing.set()

    async def run(self) -> None:
        while True:
            await self.connected.wait()  # nobody is there: nothing is made, and it costs nothing
            while self.connected.is_set():
                await self.flowing.wait()
                # Events are handled whenever a loop awaits. What this batch needs of them is copied here, before;
                # it then can't change under way, and in a thread of its own the work doesn't hold them up.
                batch, self.frame_idx = await asyncio.to_thread(
                    render_batch,
                    self.width, self.height, self.chunk_size,
                    self.frame_idx, self.brightness,
                    self.palette, self.caption, self.splashes,
                )
                # Waits while the queue is full: this paces the loop. Give it the whole batch, never sleep.
                await self.emit(MyOutput(main_video=batch))


# What raises in load() stops `reactor run` with the message and this line; later it would spoil somebody's session.
def whole_number(config: dict[str, Any], key: str, default: int, *, least: int, most: int) -> int:
    """Read a value of config.yml and see that it makes sense."""
    value = config.get(key, default)
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{key} in config.yml is {value!r}; write a whole number from {least} to {most}")
    return value
