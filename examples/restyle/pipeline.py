"""Camera in, painted video out: SD-Turbo paints each frame of the camera in one step, according to the prompt.

`reactor run` creates one MyModel, calls load() once, and runs inference() for each client that controls the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from diffusion import Restyler, choose_device

from reactor_runtime.frames import to_frames
from reactor_runtime.interface import Idle, Input, InputField, InputState, Output, ReactorPipeline, Video

FPS = 30


class MyInput(Input):
    camera: Video


class MyOutput(Output):
    main_video: Video


class MyState(InputState):
    prompt: str = InputField(
        default="an oil painting of a fox in the snow",
        max_length=300,
        description="What to see",
        examples=["a pencil sketch of a sailor", "a marble statue in a garden", "a city at night, neon light, rain"],
    )
    strength: float = InputField(default=0.5, ge=0.1, le=1.0, description="1 ignores the camera")
    blend: float = InputField(default=1.0, ge=0.0, le=10.0, description="Seconds from one prompt to the next")
    seed: int = InputField(default=1, ge=0, le=2**31 - 1, description="The noise to begin with")
    mirror: bool = InputField(default=True, description="Left and right as in a mirror")


class MyModel(ReactorPipeline):
    state: MyState
    input: MyInput
    fps = FPS

    def load(self, config: dict[str, Any]) -> None:
        tiny = config.get("tiny", False)
        self.size = 64 if tiny else config.get("size", 512)
        if tiny:
            self.restyler = Restyler.tiny()
        else:
            device = choose_device(config.get("device", "auto"))
            self.restyler = Restyler.load(device, compile=config.get("compile", False))
        # The first frame takes longest, above all with `compile`: it is painted here, so that no client waits for it.
        # The bars of the downloads appear on the page by themselves.
        self.progress(None, "painting the first frame")
        self.paint(np.zeros((self.size, self.size, 3), np.uint8), self.restyler.encode_prompt(""), MyState())

    def inference(self) -> Iterator[MyOutput | type[Idle]]:
        state, camera = self.state, None
        prompt = state.prompt
        shown = wanted = self.restyler.encode_prompt(prompt)
        while True:
            if frames := self.input.camera.try_read():
                camera = frames[0]
            if prompt != state.prompt:
                prompt = state.prompt
                wanted = self.restyler.encode_prompt(prompt)
            if camera is None:
                yield Idle
                continue
            shown = self.restyler.blend(shown, wanted, toward(state.blend))
            yield MyOutput(main_video=self.paint(camera, shown, state))

    def paint(self, camera: np.ndarray, embedding: torch.Tensor, state: MyState) -> np.ndarray:
        image = square(camera[:, ::-1] if state.mirror else camera, self.size, self.restyler.device)
        painted = self.restyler.paint(image, embedding, strength=state.strength, seed=state.seed)
        return to_frames(painted[0], layout="CHW", value_range=(-1, 1))


def square(frame: np.ndarray, size: int, device: torch.device) -> torch.Tensor:
    """Return the middle square of a frame as a float tensor (1, 3, size, size) from -1 to 1."""
    side = min(frame.shape[:2])
    top, left = (frame.shape[0] - side) // 2, (frame.shape[1] - side) // 2
    cut = np.ascontiguousarray(frame[top : top + side, left : left + side])
    image = torch.from_numpy(cut).to(device).permute(2, 0, 1)[None].float() / 127.5 - 1
    return torch.nn.functional.interpolate(image, (size, size), mode="bilinear", antialias=True)


def toward(seconds: float) -> float:
    """Return the share of the way to the wanted prompt for one frame; 95 % are done after `seconds`."""
    return min(1.0, 3 / max(seconds * FPS, 1))
