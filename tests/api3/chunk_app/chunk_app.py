"""A video model that makes 12 frames in a step, with the smallest buffer, at a rate that its config decides."""

from __future__ import annotations

from typing import Any

import numpy as np

from reactor_runtime import InputState, Output, ReactorApp, Video, event

FRAMES = 12


class Chunk(Output):
    main_video: Video


class ChunkState(InputState):
    level: int = 0
    _chunk: int = 0


class ChunkApp(ReactorApp):
    state: ChunkState
    buffer_size = 1

    def load(self, config: dict[str, Any]) -> None:  # noqa: ARG002  (read from it in a real model)
        type(self).fps = 120

    @event(name="cut")
    def cut(self, hold: bool = False) -> None:
        self.output.flush(hold=hold)

    async def process_input(self) -> tuple[int, int]:
        self.state._chunk += 1
        return self.state._chunk, self.state.level

    def generate(self, input: tuple[int, int]) -> Chunk:
        chunk, level = input
        levels = np.array([level, chunk % 100, 0], np.uint8)
        return Chunk(main_video=np.broadcast_to(levels, (FRAMES, 32, 48, 3)))
