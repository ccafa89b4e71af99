"""A model whose step takes as long for several sessions as for one, as a forward pass on a GPU."""

import random
import time
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from reactor_runtime.interface import InputState, ModelMessage, Output, ReactorPipeline, Video, connected


class WorldOutput(Output):
    main_video: Video


class WorldState(InputState):
    move: Literal["stay", "left", "right"] = "stay"


class Score(ModelMessage):
    reward: float


class World(ReactorPipeline):
    state: WorldState
    output: WorldOutput
    fps = 30
    sessions_per_model = 8

    def load(self, config: dict[str, Any]) -> None:
        self.step_s = config["step_ms"] / 1e3
        size = config["size"]
        self.frames = np.random.default_rng(29).integers(0, 256, (8, size, size, 3), np.uint8)
        if config["weights_mb"]:
            import torch

            torch.set_num_threads(1)
            self.weights = torch.randn(config["weights_mb"] * 250_000)

    @connected
    def begin(self) -> None:
        self.random = random.Random(random.getrandbits(32))

    def step(self) -> WorldOutput:
        left = self.state.move == "left"
        self.send_nowait(Score(reward=float(left)))
        frame = self.frames[self.random.randrange(8)]
        if left:
            frame = frame[::-1]
        return WorldOutput(main_video=frame)

    def batch(self, sessions: list["World"]) -> Iterator[list[WorldOutput]]:
        while True:
            time.sleep(self.step_s)
            yield [session.step() for session in sessions]
