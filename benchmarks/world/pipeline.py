"""A model whose step takes as long for several sessions as for one, as a forward pass on a GPU."""

import time
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from reactor_runtime.interface import InputState, ModelMessage, Output, ReactorPipeline, Video


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

    def batch(self, sessions: list["World"]) -> Iterator[list[WorldOutput]]:
        count = 0
        while True:
            count += 1
            time.sleep(self.step_s)
            for session in sessions:
                session.send_nowait(Score(reward=float(session.state.move == "left")))
            yield [WorldOutput(main_video=self.frames[count % 8]) for _ in sessions]
