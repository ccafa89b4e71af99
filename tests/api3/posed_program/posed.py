"""A world model: each frame has the pose of its camera, a chunk of frames a pose each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from reactor_runtime import InputField, InputState, Output, ReactorPipeline, TrackPayload, Video

FRAMES = 4


class Shown(Output):
    main_video: Video
    depth: Video


class Steering(InputState):
    turn: int = InputField(default=1, ge=-5, le=5)


class World(ReactorPipeline):
    state: Steering
    output: Shown
    fps = 30

    def inference(self) -> Iterator[Any]:
        angle = 0
        while True:
            poses = []
            for _ in range(FRAMES):
                angle += self.state.turn
                poses.append({"angle": angle})
            frames = np.full((FRAMES, 32, 48, 3), angle % 256, np.uint8)
            # Frames of depth are the same for all four, and have the state of the model as bytes.
            depth = TrackPayload(frames[0], metadata=angle.to_bytes(4, "big", signed=True))
            yield Shown(main_video=TrackPayload(frames, metadata=poses), depth=depth)
