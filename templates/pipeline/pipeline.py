"""The model: its tracks, its controls, and how its frames are made.

`reactor run` creates one MyModel, calls load() once, and runs inference() for each client that controls the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from reactor_runtime.interface import InputField, InputState, Output, ReactorPipeline, Tap, Video, event

from picture import PALETTES, Splash, add_ripple, colour_ring, flow, paint, write
from settings import whole_number


# Each field is a track that clients receive.
@dataclass
class MyOutput(Output):
    main_video: Video


# Each field is a control on the page and an event, set_<field>. Wrong values are refused before they get here.
@dataclass
class MyState(InputState):
    brightness: float = InputField(default=1.0, ge=0.0, le=2.0, description="Brightness multiplier")
    palette: str = InputField(default="aurora", choices=list(PALETTES), description="Colours of the picture")
    caption: str = InputField(default="hello", max_length=24, description="Text in the picture")
    # A field with a leading underscore is private: clients cannot read or set it.
    _splashes: tuple[Splash, ...] = ()
    _next_idx: int = 0


class MyModel(ReactorPipeline):
    state: MyState
    buffer_size = 8

    # Called once, before any client: read config.yml, load weights, warm up. An exception here stops `reactor run`.
    def load(self, config: dict[str, Any]) -> None:
        self.width = whole_number(config, "width", 640, least=16, most=4096)
        self.height = whole_number(config, "height", 480, least=16, most=4096)
        self.chunk_size = whole_number(config, "chunk_size", 4, least=1, most=64)

    # A button on the page, and a click on the frame. Events are handled between two yields, never within a step.
    @event(name="splash", description="Drop a pebble into the picture", bind=Tap())
    def splash(
        self,
        x: float = InputField(default=0.5, ge=0.0, le=1.0, description="0 is left, 1 is right"),
        y: float = InputField(default=0.5, ge=0.0, le=1.0, description="0 is top, 1 is bottom"),
    ) -> None:
        self.state._splashes = (*self.state._splashes[-3:], Splash(x, y, self.state._next_idx))

    # Started for each client with a fresh state. Each yield sends frames; Reactor shows them at an even rate.
    def inference(self) -> Iterator[MyOutput]:
        while True:
            batch, self.state._next_idx = render_batch(
                self.width, self.height, self.chunk_size, self.state._next_idx,
                self.state.brightness, self.state.palette, self.state.caption, self.state._splashes,
            )
            yield MyOutput(main_video=batch)


# Your model's forward pass goes here. It returns uint8 RGB of shape (frames, height, width, 3).
def render_batch(
    width: int, height: int, chunk_size: int, start_idx: int,
    brightness: float, palette: str = "aurora", caption: str = "", splashes: tuple[Splash, ...] = (),
) -> tuple[np.ndarray, int]:
    """Draw chunk_size frames from start_idx on; return them and the index of the next frame."""
    colours = colour_ring(palette, brightness)
    batch = np.empty((chunk_size, height, width, 3), np.uint8)
    for idx, frame in enumerate(batch, start_idx):
        shades = flow(width, height, idx)
        for splash in splashes:
            add_ripple(shades, splash, idx)
        paint(frame, shades, colours)
        write(frame, caption, brightness)
    return batch, start_idx + chunk_size
