"""A model whose photo-like frames are made in load(), so that a step takes no time."""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from reactor_runtime.interface import InputField, InputState, Output, ReactorPipeline, Video


class BenchOutput(Output):
    main_video: Video


class BenchState(InputState):
    level: int = InputField(default=0, ge=0, le=1_000_000)


class Bench(ReactorPipeline):
    state: BenchState

    def load(self, config: dict[str, Any]) -> None:
        self.batch = config["batch"]
        self.copies = bool(config["copies"])
        self.burn_s = config["burn_ms"] / 1e3
        if config["fps"]:
            self.output_buffer.set_fps(config["fps"])
        self.frames = photo_like(config["width"], config["height"], config["max_frames"])

    def inference(self) -> Iterator[BenchOutput]:
        index = 0
        while True:
            burn_until = time.perf_counter() + self.burn_s
            while time.perf_counter() < burn_until:
                sum(range(100))
            if self.batch == 1:
                frame = self.frames[index % len(self.frames)]
                yield BenchOutput(main_video=frame.copy() if self.copies else frame)
            else:
                yield BenchOutput(main_video=self.frames[: self.batch])
            index += self.batch


def photo_like(width: int, height: int, count: int) -> np.ndarray:
    """Draw smooth shapes with moving grain, which compress like a detailed photograph (200 kB at 720p)."""
    random = np.random.default_rng(7)
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    frames = np.empty((count, height, width, 3), np.uint8)
    for index in range(count):
        phase = index / count * 2 * np.pi
        smooth = np.stack(
            [
                120 + 70 * np.sin(x / 97 + y / 61 + phase) + 40 * np.sin(x * y / 90000),
                110 + 60 * np.cos(x / 53 - y / 140 + phase),
                100 + 80 * np.sin(np.hypot(x - width / 2, y - height / 2) / 40 - phase),
            ],
            axis=-1,
        )
        grain = random.normal(0, 6, (height, width, 1)).astype(np.float32)
        frames[index] = (smooth + grain).clip(0, 255)
    return frames
