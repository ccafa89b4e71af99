"""A camera whose background is replaced: MediaPipe's segmentation of people; its weights are in the package of pip."""

import time
from typing import Literal

import cv2
import numpy as np
from mediapipe.python.solutions.selfie_segmentation import SelfieSegmentation

from reactor_runtime.interface import (
    Input,
    InputField,
    InputState,
    MessageField,
    ModelMessage,
    Output,
    ReactorPipeline,
    Video,
)


class Camera(Input):
    camera: Video


class Composed(Output):
    main_video: Video


class Scene(InputState):
    background: Literal["blur", "colour", "mask"] = "blur"
    colour: str = InputField(default="#2f7d5b", widget="color", pattern="^#[0-9a-fA-F]{6}$")
    edge: float = InputField(default=0.3, ge=0.05, le=0.95, description="How sure the model has to be of a person")
    seen: bool = InputField(default=False, read_only=True, description="Whether somebody is in the frame")


class Timing(ModelMessage):
    segmentation_ms: float = MessageField(widget="value", unit="ms", label="Segmentation", volatile=True)


class Matte(ReactorPipeline):
    state: Scene
    input: Camera
    fps = 30

    def load(self, _config):
        # The second model is for landscape frames.
        self.segmentation = SelfieSegmentation(model_selection=1)

    async def inference(self):
        while True:
            (frame,) = await self.input.camera.read()
            frame = np.ascontiguousarray(frame.data)
            began = time.perf_counter()
            person = self.segmentation.process(frame).segmentation_mask
            self.send_nowait(Timing(segmentation_ms=1e3 * (time.perf_counter() - began)))
            self.state.seen = bool(person.mean() > 0.02)
            yield Composed(main_video=compose(frame, person, self.state))


def compose(frame, person, scene):
    """Return a frame with another background; the mask is soft around `edge`."""
    share = np.clip((person - scene.edge) * 6 + 0.5, 0, 1)[..., None]
    if scene.background == "mask":
        return (255 * share.repeat(3, 2)).astype(np.uint8)
    if scene.background == "blur":
        behind = cv2.GaussianBlur(frame, (0, 0), 15)
    else:
        behind = np.array([int(scene.colour[at : at + 2], 16) for at in (1, 3, 5)], np.uint8)
    return (frame * share + behind * (1 - share)).astype(np.uint8)
