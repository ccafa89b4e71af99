"""A neural world in the browser: a network sees one frame of a cave and dreams everything after it.

`reactor run` creates one MyModel, calls load() once, and runs inference() for each client that controls the model.
network.py is the dream, game.py the game that it learned; train.py makes dream.safetensors from both.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from reactor_runtime.interface import (
    Button,
    InputField,
    InputState,
    Key,
    Keys,
    Output,
    ReactorPipeline,
    Stick,
    Video,
    connected,
    event,
)

from game import SIDE, WAYS

WEIGHTS = Path(__file__).with_name("dream.safetensors")


# Each field is a track that clients receive.
class MyOutput(Output):
    main_video: Video


# Each field is a control on the page. A field bound to keys or a gamepad returns to its default when they are released.
class MyState(InputState):
    move: tuple[float, float] = InputField(
        default=(0.0, 0.0),
        ge=-1.0,
        le=1.0,
        description="Walk to the right, and up",
        bind=[Keys("a", "d", "s", "w"), Keys("left", "right", "down", "up"), Stick("left"), Stick("dpad")],
    )
    temperature: float = InputField(
        default=1.0, ge=0.0, le=4.0, description="How freely the wisp changes its way; 0 is the likeliest"
    )
    compare: bool = InputField(default=True, description="Show the real game to the right of the dream")
    # Private fields are not controls.
    _dreamer: Any = None
    _lightning: bool = False
    # Frames until the hero may move again.
    _rest: int = 0


class MyModel(ReactorPipeline):
    state: MyState
    fps = 20

    # Called once, before any client.
    def load(self, config: dict[str, Any]) -> None:
        try:
            import torch

            from dreamer import load_dream
        except ModuleNotFoundError as error:
            raise RuntimeError(f"{error.name} is not installed; try: pip install -r requirements.txt") from error
        # A step takes two milliseconds on one core: threads would only wait for each other.
        torch.set_num_threads(config.get("threads", 1))
        self.width = config.get("width", 960)
        self.height = config.get("height", 480)
        self.seed = config.get("seed", 4)
        self.dream = load_dream(WEIGHTS)

    # Called for each client, with a fresh state.
    @connected
    def begin(self) -> None:
        from dreamer import Dreamer

        self.state._dreamer = Dreamer(self.dream, games=1, seed=self.seed)
        self.state._dreamer.light_torches()

    @event(name="restart", description="Dream of another cave", bind=[Key("r"), Button("start")])
    def restart(self) -> None:
        self.state._dreamer.restart()
        self.state._dreamer.light_torches()

    @event(name="lightning", description="Light the whole cave for a moment", bind=[Key("space"), Button("a")])
    def lightning(self) -> None:
        self.state._lightning = True

    # Each step makes one frame, so that a key shows in the next frame.
    def inference(self) -> Iterator[MyOutput]:
        state, dreamer = self.state, self.state._dreamer
        while True:
            dreamer.step(np.array([self.next_way()]), np.array([state._lightning]), state.temperature)
            state._lightning = False
            frames = [*dreamer.frames(), *(dreamer.games.draw() if state.compare else ())]
            yield MyOutput(main_video=self.arrange(frames))

    def next_way(self) -> int:
        """Return the way of the hero in the next frame: a key that is held moves it in every second frame."""
        self.state._rest = max(0, self.state._rest - 1)
        way = 0 if self.state._rest else way_of(*self.state.move)
        if way:
            self.state._rest = 2
        return way

    def arrange(self, frames: list[np.ndarray]) -> np.ndarray:
        """Return a frame of the size in config.yml, black with the frames side by side in it, as large as possible."""
        side = min(self.width // 2, self.height)
        # Enlarged by a whole number, so that all pixels are equally large.
        side = max(side // SIDE * SIDE, min(side, SIDE))
        nearest = np.arange(side) * SIDE // side
        row = np.concatenate([frame[nearest][:, nearest] for frame in frames], axis=1)
        canvas = np.zeros((self.height, self.width, 3), np.uint8)
        top, left = (self.height - row.shape[0]) // 2, (self.width - row.shape[1]) // 2
        canvas[top : top + row.shape[0], left : left + row.shape[1]] = row
        return canvas


def way_of(right: float, up: float) -> int:
    """Return the index in WAYS for keys or a stick."""
    if max(abs(right), abs(up)) < 0.4:
        return 0
    if abs(right) > abs(up):
        return WAYS.tolist().index([0, 1 if right > 0 else -1])
    return WAYS.tolist().index([-1 if up > 0 else 1, 0])
