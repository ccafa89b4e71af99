"""A text-driven model in the browser: frames follow the prompt while it is being changed.

`reactor run` creates one MyModel, calls load() once, and runs inference() for each client that controls the model.
standin.py draws the frames; README.md shows the same class with diffusers.
"""

from collections.abc import Iterator
from itertools import count
from typing import Any

from reactor_runtime.interface import (
    CommandError,
    InputField,
    InputState,
    Output,
    ReactorPipeline,
    UploadedFile,
    Video,
    event,
)

from standin import StandIn

PROMPTS = ("northern lights over a lake", "neon city in the rain", "a forest in autumn", "liquid gold")


# Each field is a track that clients receive.
class MyOutput(Output):
    main_video: Video


# Each field is a control on the page and an event, set_<field>. Wrong values are refused before they get here.
class MyState(InputState):
    prompt: str = InputField(default=PROMPTS[0], max_length=500, description="What to show", examples=PROMPTS)
    negative_prompt: str = InputField(default="", max_length=500, description="What to avoid")
    seed: int = InputField(default=1, ge=0, le=2**32 - 1, description="The noise to begin with")
    steps: int = InputField(default=4, ge=1, le=8, description="Denoising steps for each frame")
    blend: float = InputField(default=1.5, ge=0.0, le=10.0, description="Seconds from one prompt to the next")
    image: UploadedFile | None = InputField(default=None, description="An image to start from")
    strength: float = InputField(default=0.6, ge=0.0, le=1.0, description="How far to depart from the image")
    # A field with a leading underscore is private: clients cannot read or set it.
    _image: Any = None


class MyModel(ReactorPipeline):
    state: MyState
    fps = 24

    # Called once, before any client: load weights, compile, warm up. An exception here stops `reactor run`.
    def load(self, config: dict[str, Any]) -> None:
        width = config.get("width", 512)
        height = config.get("height", 288)
        self.chunk_size = config.get("chunk_size", 4)
        self.model = StandIn(width, height)

    # Replaces the event of the field, to read the file once and to refuse a file that is not an image.
    @event(name="set_image", description="An image to start from")
    def set_image(self, image: UploadedFile | None = None) -> None:
        try:
            self.state._image = None if image is None else self.model.read_image(image.open())
        except ValueError as error:
            raise CommandError("bad_image", str(error)) from error
        self.state.image = image

    # Started for each client with a fresh state. Each step makes a chunk of frames.
    def inference(self) -> Iterator[MyOutput]:
        state = self.state
        text = state.prompt, state.negative_prompt
        shown = wanted = self.model.encode(*text)
        for first_idx in count(0, self.chunk_size):
            # Text encoders are slow, so this one runs only when the text has changed.
            if text != (state.prompt, state.negative_prompt):
                text = state.prompt, state.negative_prompt
                wanted = self.model.encode(*text)
            embeddings = [shown := toward(shown, wanted, state.blend * self.fps) for _ in range(self.chunk_size)]
            yield MyOutput(
                main_video=self.model.frames(
                    embeddings, first_idx,
                    seed=state.seed, steps=state.steps, image=state._image, strength=state.strength,
                )
            )


# Works for the arrays of NumPy and for tensors.
def toward(shown: Any, wanted: Any, frames: float) -> Any:
    """Return the embedding of the next frame; after so many frames 95 % of the difference is gone."""
    return shown + (wanted - shown) * min(1.0, 3 / max(frames, 1))
