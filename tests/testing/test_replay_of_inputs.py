"""Replays of each authoring style, with each way to read an input, and with a handler that emits."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.engine.recorder import Recorder, RecordOptions
from reactor_runtime.interface import (
    Input,
    InputState,
    Output,
    ReactorModel,
    ReactorPipeline,
    Video,
    VideoModel,
    event,
    get_ctx,
)
from reactor_runtime.testing import Studio, replay


class Camera(Input):
    cam: Video


class Picture(Output):
    video: Video


class Level(InputState):
    level: int = 0


def picture(value: int) -> Any:
    return np.full((8, 8, 3), value, np.uint8)


async def read_nothing(model: Any) -> int:  # noqa: ARG001
    return 0


async def read(model: Any) -> int:
    [frame] = await model.input.cam.read()
    return int(frame.flat[0])


async def try_read(model: Any) -> int:
    frames = model.input.cam.try_read()
    return int(frames[0].flat[0]) if frames else 0


async def read_in_time(model: Any) -> int:
    try:
        [frame] = await model.input.cam.read(timeout=0.1)
    except TimeoutError:
        return 0
    return int(frame.flat[0])


READS = [read_nothing, read, try_read, read_in_time]


def loop_model(read_input: Callable[[Any], Awaitable[int]], *, waits: bool) -> type[Model]:
    class Loop(ReactorModel):
        input: Camera
        output: Picture
        state: Level
        fps = 10

        async def run(self) -> None:
            while True:
                if waits:
                    await self.connected.wait()
                value = await read_input(self)
                await self.emit(picture(value + self.state.level))

        @event(name="flash")
        async def flash(self) -> None:
            for value in (200, 201):
                await self.emit(picture(value))

    return Loop


def pipeline(read_input: Callable[[Any], Awaitable[int]]) -> type[Model]:
    class Pipeline(ReactorPipeline):
        input: Camera
        output: Picture
        state: Level
        fps = 10

        async def inference(self) -> AsyncIterator[Any]:
            while True:
                value = await read_input(self)
                yield picture(value + self.state.level)

    return Pipeline


def block_model() -> type[Model]:
    class Blocks(VideoModel):
        fps = 10

        def __init__(self, config: dict[str, Any]) -> None:  # noqa: ARG002
            self.level = 0

        def start_session(self) -> None:
            while not get_ctx().should_stop():
                get_ctx().emit_block(picture(self.level)[None])

        @event(name="set_level")
        def set_level(self, level: int) -> None:
            self.level = level

        @event(name="flash")
        def flash(self) -> None:
            get_ctx().emit_block(picture(200)[None])

    return Blocks


def check_replay(model: type[Model], directory: Path, *, reads: bool, flashes: bool) -> None:
    """Record a session, with time before it and media and events in it, and compare its replay."""
    recorder = Recorder(RecordOptions(directory), {}, directory)
    with contextlib.closing(recorder), Studio(model, {}, logs=recorder) as studio:
        studio.run(0.35)
        studio.connect()
        for number in range(20):
            if reads and number % 5 != 4:
                studio.push_media("cam", picture(number))
            studio.run(0.11)
            if number % 7 == 3:
                studio.send_event("set_level", level=number)
            if flashes and number % 5 == 2:
                studio.send_event("flash")
    (file,) = directory.iterdir()
    result = replay(file, model)
    assert result.frames >= 10
    assert result.differences == []


@pytest.mark.parametrize("flashes", [False, True], ids=["", "handler emits"])
@pytest.mark.parametrize("waits", [False, True], ids=["", "waits for a client"])
@pytest.mark.parametrize("read_input", READS)
def test_a_loop_replays_what_it_read(
    read_input: Callable[[Any], Awaitable[int]], waits: bool, flashes: bool, tmp_path: Path
) -> None:
    model = loop_model(read_input, waits=waits)
    check_replay(model, tmp_path, reads=read_input is not read_nothing, flashes=flashes)


@pytest.mark.parametrize("read_input", [read_nothing, try_read, read_in_time])
def test_a_pipeline_replays_what_it_read(read_input: Callable[[Any], Awaitable[int]], tmp_path: Path) -> None:
    check_replay(pipeline(read_input), tmp_path, reads=read_input is not read_nothing, flashes=False)


@pytest.mark.parametrize("flashes", [False, True], ids=["", "handler emits"])
def test_a_block_model_replays_its_events(flashes: bool, tmp_path: Path) -> None:
    check_replay(block_model(), tmp_path, reads=False, flashes=flashes)
