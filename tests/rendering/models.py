"""Models for renderings: their frames and sound tell at which step they were made, and from what."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np

from reactor_runtime import ApplicationError, ReactorApp
from reactor_runtime.interface import (
    Audio,
    CommandError,
    Input,
    InputField,
    InputState,
    Output,
    ReactorModel,
    ReactorPipeline,
    UploadedFile,
    Video,
    VideoModel,
    command,
    event,
    get_ctx,
    model,
)

FPS, RATE = 10, 48_000


class Picture(Output):
    main_video: Video
    main_audio: Audio


class Silent(Output):
    main_video: Video


class Level(InputState):
    level: int = InputField(default=0, ge=0, le=9)
    image: UploadedFile | None = None


def picture(*values: int) -> np.ndarray:
    """Return a frame whose first pixels are `values`."""
    frame = np.zeros((16, 16, 3), np.uint8)
    frame.reshape(-1)[: len(values)] = values
    return frame


class Counting(ReactorPipeline):
    """Show the number of the step, the level and the size of the uploaded file; play the number of the step."""

    state: Level
    output: Picture
    fps = FPS

    @event(name="refuse")
    def refuse(self) -> None:
        raise CommandError("no", "not now")

    @event(name="fail")
    def fail(self) -> None:
        raise ValueError("it broke")

    def inference(self) -> Iterator[Any]:
        step = 0
        while True:
            size = self.state.image.size_bytes if self.state.image else 0
            sound = np.full((1, RATE // FPS), 100 * step, np.int16)
            yield Picture(main_video=picture(step, self.state.level, size), main_audio=sound)
            step += 1


class Batches(ReactorPipeline):
    """Show the number of the frame and the level, in batches of twelve."""

    state: Level
    output: Silent
    fps = FPS

    def inference(self) -> Iterator[Any]:
        for first in range(0, 240, 12):
            yield Silent(main_video=np.stack([picture(first + idx, self.state.level) for idx in range(12)]))


class Sung(ReactorPipeline):
    """Show the number of the step and the level, with sound that lasts as long as each frame."""

    state: Level
    output: Picture

    async def inference(self) -> AsyncIterator[Any]:
        for step in itertools.count():
            await asyncio.sleep(0)
            sound = np.zeros((1, RATE // FPS), np.int16)
            yield Picture(main_video=picture(step, self.state.level), main_audio=sound)


class Sleeping(ReactorPipeline):
    """Take as long as a frame lasts to make one."""

    state: InputState
    output: Silent
    fps = FPS

    async def inference(self) -> AsyncIterator[Any]:
        for step in itertools.count():
            await asyncio.sleep(1 / FPS)
            yield Silent(main_video=picture(step))


class Sensors(Input):
    camera: Video
    microphone: Audio


class Follower(ReactorPipeline):
    """Show the red of the camera's newest frame, and play what the microphone brought."""

    state: InputState
    input: Sensors
    output: Picture
    fps = FPS

    async def inference(self) -> AsyncIterator[Any]:
        red = 255
        while True:
            await asyncio.sleep(0)
            frames = self.input.camera.try_read()
            red = int(frames[-1][0, 0, 0]) if frames else red
            pieces = self.input.microphone.try_read() or []
            loudest = max((int(abs(piece).max()) for piece in pieces), default=0)
            yield Picture(main_video=picture(red), main_audio=np.full((1, RATE // FPS), loudest, np.int16))


class Unpaced(ReactorPipeline):
    state: InputState
    output: Silent

    def inference(self) -> Iterator[Any]:
        while True:
            yield Silent(main_video=picture(1))


class Waiting(ReactorPipeline):
    """Show nothing until its event comes."""

    state: Level
    output: Silent

    def inference(self) -> Iterator[Any]:
        while True:
            yield None if self.state.level == 0 else Silent(main_video=picture(self.state.level))


class Dull(ReactorApp):
    """Make one step without a frame, and skip all others."""

    output: Silent
    has_stepped = False

    async def process_input(self) -> None:
        if self.has_stepped:
            raise ApplicationError("nothing to do")

    def generate(self, input: object) -> None:  # noqa: ARG002  (what a step calls)
        self.has_stepped = True

    async def process_output(self, outcome: object) -> None: ...


class Failing(ReactorPipeline):
    state: InputState
    output: Silent
    fps = FPS

    def inference(self) -> Iterator[Any]:
        for step in range(5):
            yield Silent(main_video=picture(step))
        raise ValueError("out of ideas")


class UnpacedLoop(ReactorModel):
    """Show the number of the step and a level, which its event sets after a while."""

    output: Silent
    level = 0

    @event(name="set_level")
    async def set_level(self, level: int) -> None:
        await asyncio.sleep(0.2)
        self.level = level

    async def run(self) -> None:
        step = 0
        while True:
            await self.emit(Silent(main_video=picture(step, self.level)))
            step += 1


class Loop(UnpacedLoop):
    fps = FPS


class Immediate(ReactorModel):
    """Show the number of the step and the level of the session."""

    state: Level
    output: Silent
    fps = FPS

    async def run(self) -> None:
        for step in itertools.count():
            await self.emit(Silent(main_video=picture(step, self.state.level)))


class SleepingLoop(ReactorModel):
    """Take as long as a frame lasts after each."""

    output: Silent
    fps = FPS
    drop = False

    async def run(self) -> None:
        for step in itertools.count():
            await self.emit(Silent(main_video=picture(step)), drop=self.drop)
            await asyncio.sleep(1 / FPS)


class DroppingLoop(SleepingLoop):
    drop = True


@model(name="commanded")
class Commanded(VideoModel):
    """Emit blocks of five frames with the level."""

    fps = FPS
    level = 0

    def __init__(self, config: dict[str, Any]) -> None:
        pass

    @command("set_level")
    def set_level(self, level: int) -> None:
        self.level = level

    def start_session(self) -> None:
        while not get_ctx().should_stop():
            get_ctx().emit_block(np.stack([picture(idx, self.level) for idx in range(5)]))


@model(name="blocks")
class Blocks(VideoModel):
    """Emit so many blocks of five frames, each made after `sleeps_s` of real time, and end the session."""

    fps = FPS
    blocks, sleeps_s = 3, 0.0

    def __init__(self, config: dict[str, Any]) -> None:
        pass

    def start_session(self) -> None:
        for number in range(self.blocks):
            threading.Event().wait(self.sleeps_s)
            get_ctx().emit_block(np.stack([picture(number, idx) for idx in range(5)]))
