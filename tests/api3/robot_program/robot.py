"""A policy of a robot: it aligns three cameras by the time of capture, and sends a chunk of frames for each image."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

import numpy as np

from reactor_runtime import (
    Input,
    InputField,
    InputFrame,
    InputState,
    Output,
    ReactorPipeline,
    ReadMode,
    TrackPayload,
    Video,
)


class Cameras(Input):
    head: Video
    left: Video
    right: Video


class Plan(Output):
    main_video: Video


class Settings(InputState):
    chunk: int = InputField(default=1, ge=1, le=12, description="Frames a step")


def nearest(frames: deque[InputFrame[np.uint8]], to: InputFrame[np.uint8]) -> InputFrame[np.uint8]:
    """Take the frame that was captured closest to another one."""
    assert to.capture_time_us is not None
    wanted = to.capture_time_us
    found = min(frames, key=lambda frame: abs((frame.capture_time_us or 0) - wanted))
    frames.remove(found)
    return found


class Robot(ReactorPipeline):
    input: Cameras
    state: Settings
    output: Plan
    fps = 30
    buffer_size = 1

    async def inference(self) -> AsyncIterator[Any]:
        left: deque[InputFrame[np.uint8]] = deque(maxlen=8)
        right: deque[InputFrame[np.uint8]] = deque(maxlen=8)
        while True:
            [head] = await self.input.head.read(mode=ReadMode.FIFO)
            left.extend(await self.input.left.read(mode=ReadMode.ALL))
            right.extend(await self.input.right.read(2, mode=ReadMode.ALL))
            seen = [head, nearest(left, head), nearest(right, head)]
            view = np.concatenate([frame.data for frame in seen], axis=1)
            aligned = {
                "times": [frame.capture_time_us for frame in seen],
                "pts": [frame.pts for frame in seen],
                "poses": [json.loads(frame.metadata)["pose"] for frame in seen if frame.metadata is not None],
            }
            if self.state.chunk == 1:
                yield Plan(main_video=TrackPayload(view, metadata=aligned))
            else:
                actions = [{**aligned, "action": index} for index in range(self.state.chunk)]
                yield Plan(main_video=TrackPayload(np.stack([view] * self.state.chunk), metadata=actions))
