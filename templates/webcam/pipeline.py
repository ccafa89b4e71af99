"""Video in, video out: the newest picture of the client's camera, through a filter, thirty times a second.

`reactor run` makes one MyModel, calls load() once, and runs inference() while somebody is connected.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np
from reactor_runtime.interface import Input, InputField, InputState, ModelMessage, Output, ReactorPipeline, Video

from card import draw_card, write
from filters import FILTERS


# What clients send. Each field is a track; whatever size its pictures have, they arrive as RGB arrays.
class MyInput(Input):
    camera: Video


# What clients see.
class MyOutput(Output):
    main_video: Video


# What clients may change: a menu, a slider and a switch on the page.
class MyState(InputState):
    filter: str = InputField(default="oil", choices=list(FILTERS), description="What happens to the picture")
    strength: float = InputField(default=0.6, ge=0.0, le=1.0, description="How much of it")
    mirror: bool = InputField(default=True, description="Left and right as in a mirror")


# What clients are told.
class CameraOn(ModelMessage):
    """The camera's first picture has come, or one of another size."""

    width: int
    height: int


class MyModel(ReactorPipeline):
    state: MyState
    input: MyInput  # this is where its pictures arrive, as self.input.camera
    fps = 30

    def load(self, config: dict[str, Any]) -> None:
        self.width = whole_number(config, "width", 640, least=16, most=4096)
        self.height = whole_number(config, "height", 480, least=16, most=4096)

    # Started for each client. What the camera sent and what a filter remembers stay in here, and go with the client.
    def inference(self) -> Iterator[MyOutput]:
        camera: np.ndarray | None = None
        chosen, apply = "", FILTERS["plain"](self.width, self.height)
        for idx in count():
            # The newest picture, or None when none has come since. Those before it are dropped, so that a camera
            # faster than the model makes nothing late. `await self.input.camera.read()` would wait for one.
            frames = self.input.camera.try_read()
            if frames is not None:
                if camera is None or camera.shape != frames[0].shape:
                    self.send_nowait(CameraOn(width=frames[0].shape[1], height=frames[0].shape[0]))
                camera = frames[0]
            if camera is None:
                picture = draw_card(self.width, self.height, idx / 30)
            else:
                picture = fit(camera, self.width, self.height)
            if chosen != self.state.filter:
                chosen, apply = self.state.filter, FILTERS[self.state.filter](self.width, self.height)
            shown = apply(picture[:, ::-1] if self.state.mirror else picture, self.state.strength)
            if camera is None:
                write(shown, ["waiting for a camera", "press start beside the picture"])
            yield MyOutput(main_video=shown)


# What raises in load() stops `reactor run` with the message and this line; later it would spoil somebody's session.
def whole_number(config: dict[str, Any], key: str, default: int, *, least: int, most: int) -> int:
    """Read a value of config.yml and see that it makes sense."""
    value = config.get(key, default)
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{key} in config.yml is {value!r}; write a whole number from {least} to {most}")
    return value


def fit(frame: np.ndarray, width: int, height: int) -> np.ndarray:
    """Cut and scale a picture about its middle until it fills the size."""
    scale = min(frame.shape[0] / height, frame.shape[1] / width)
    rows = (np.arange(height) + 0.5 - height / 2) * scale + frame.shape[0] / 2
    columns = (np.arange(width) + 0.5 - width / 2) * scale + frame.shape[1] / 2
    return frame.take(rows.astype(np.intp), axis=0).take(columns.astype(np.intp), axis=1)
