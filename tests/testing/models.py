"""Small models of both styles, for driving them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.authoring.styles.reactor_model import ReactorModel
from reactor_runtime.interface import (
    CommandError,
    InputField,
    InputState,
    ModelMessage,
    Output,
    ReactorPipeline,
    Video,
    connected,
    disconnected,
    event,
)


class Picture(Output):
    video: Video


class Step(ModelMessage):
    number: int


class Level(InputState):
    level: int = InputField(default=1, ge=0, le=9)
    _steps: int = 0


def frame(red: int) -> NDArray[np.uint8]:
    return np.full((2, 2, 3), red, np.uint8)


class Counter(ReactorPipeline):
    """Paint the level, and say which step it is."""

    state: Level
    output: Picture
    fps = 10

    def load(self, config: dict[str, Any]) -> None:
        self.frames = config.get("frames", 1)

    @event(name="double")
    def double(self) -> Step:
        self.state.level *= 2
        self.send_nowait(Step(number=-1))
        return Step(number=self.state.level)

    @event(name="refuse")
    def refuse(self) -> None:
        raise CommandError("full", "no more")

    @event(name="break")
    def fail(self) -> None:
        raise KeyError("broken")

    def inference(self) -> Iterator[Any]:
        while True:
            self.state._steps += 1
            self.send_nowait(Step(number=self.state._steps))
            yield Picture(video=np.stack([frame(self.state.level)] * self.frames))


class Blinker(ReactorModel):
    """Emit a frame each quarter of a second while somebody is there, slept for in between."""

    output: Picture
    fps = 10

    def load(self, config: dict[str, Any]) -> None:  # noqa: ARG002
        self.red = 1
        self.log: list[str] = []

    @connected
    async def greet(self) -> None:
        self.log.append("connected")
        await self.send(Step(number=0))

    @disconnected
    def part(self) -> None:
        self.log.append("disconnected")

    @event(name="set_red")
    async def set_red(self, red: int) -> Step:
        await asyncio.sleep(0.1)
        self.red = red
        return Step(number=red)

    async def run(self) -> None:
        try:
            while True:
                await self.connected.wait()
                while self.connected.is_set():
                    await self.emit(Picture(video=frame(self.red)))
                    await asyncio.sleep(0.25)
        finally:
            self.log.append("over")
