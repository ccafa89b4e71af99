"""Video in, video out: apply a filter to each frame of the client's camera as it arrives.

`reactor run` creates one MyModel, calls load() once, and runs inference() for each client that controls the model.
"""

from collections.abc import AsyncIterator
from itertools import count
from typing import Any

import numpy as np
from reactor_runtime.interface import (
    CommandError,
    Input,
    InputField,
    InputState,
    ModelMessage,
    Output,
    ReactorPipeline,
    UploadedFile,
    Video,
    event,
)

from card import draw_card, read_image
from filters import FILTERS, fit


# What clients send: each field is a track. Frames of any size arrive as RGB arrays.
class MyInput(Input):
    camera: Video


# What clients see: each field is a track.
class MyOutput(Output):
    main_video: Video


# What clients may change: a menu, a slider, a switch and a field for a file on the page.
class MyState(InputState):
    filter: str = InputField(default="oil", choices=list(FILTERS), description="What happens to the frame")
    strength: float = InputField(default=0.6, ge=0.0, le=1.0, description="How much of it")
    mirror: bool = InputField(default=True, description="Left and right as in a mirror")
    image: UploadedFile | None = InputField(default=None, description="An image instead of the camera")
    # A field with a leading underscore is private: clients cannot read or set it.
    _image: np.ndarray | None = None


# A message to clients.
class CameraOn(ModelMessage):
    """The first frame of the camera has arrived, or the first of another size."""

    width: int
    height: int


class MyModel(ReactorPipeline):
    state: MyState
    # The camera's frames arrive at self.input.camera.
    input: MyInput
    fps = 30

    def load(self, config: dict[str, Any]) -> None:
        self.width = config.get("width", 640)
        self.height = config.get("height", 480)

    # Replaces the event of the field, to read the file once and to refuse a file that is not an image.
    @event(name="set_image", description="An image instead of the camera")
    def set_image(self, image: UploadedFile | None = None) -> None:
        try:
            self.state._image = None if image is None else fit(read_image(image.open()), self.width, self.height)
        except ValueError as error:
            raise CommandError("bad_image", str(error)) from error
        self.state.image = image

    # Started for each client. The camera's frame and the filter are local variables: the next client gets new ones.
    async def inference(self) -> AsyncIterator[MyOutput]:
        camera: np.ndarray | None = None
        live = False
        chosen, apply = "", FILTERS["plain"](self.width, self.height)
        for idx in count():
            # The newest frame; older ones are dropped, so a camera that is faster than the model adds no delay.
            # While the camera is on, wait for its next frame, which is shown at once. Else draw at the rate above.
            try:
                frames = await self.input.camera.read(timeout=0.2) if live else self.input.camera.try_read()
            except TimeoutError:
                frames = None
            live = frames is not None
            if frames is not None:
                if camera is None or camera.shape != frames[0].shape:
                    self.send_nowait(CameraOn(width=frames[0].shape[1], height=frames[0].shape[0]))
                camera = frames[0]
            if self.state._image is not None:
                frame = self.state._image
            elif camera is None:
                frame = draw_card(self.width, self.height, idx / 30)
            else:
                frame = fit(camera, self.width, self.height)
            if chosen != self.state.filter:
                chosen, apply = self.state.filter, FILTERS[self.state.filter](self.width, self.height)
            shown = apply(frame[:, ::-1] if self.state.mirror else frame, self.state.strength)
            yield MyOutput(main_video=shown)
