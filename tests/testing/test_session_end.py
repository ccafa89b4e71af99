"""Sessions that the model ends with `self.end()`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.interface import (
    InputState,
    Output,
    ReactorModel,
    ReactorPipeline,
    Video,
    VideoModel,
    event,
    get_ctx,
)
from reactor_runtime.testing import Studio


class Picture(Output):
    video: Video


def picture(value: int) -> Any:
    return np.full((8, 8, 3), value, np.uint8)


class Pipeline(ReactorPipeline):
    state: InputState
    output: Picture
    fps = 10

    def inference(self) -> Iterator[Any]:
        for value in range(1, 11):
            yield picture(value)
        self.end("match over")


class Loop(ReactorModel):
    output: Picture
    fps = 10

    async def run(self) -> None:
        while True:
            await self.connected.wait()
            for value in range(1, 11):
                await self.emit(picture(value))
            self.end("match over")


class Blocks(VideoModel):
    fps = 10

    def __init__(self, config: dict[str, Any]) -> None: ...

    def start_session(self) -> None:
        for value in range(1, 11):
            get_ctx().emit_block(picture(value)[None])
        self.end("match over")


class Leaving(Pipeline):
    def inference(self) -> Iterator[Any]:
        while True:
            yield picture(1)

    @event(name="leave")
    def leave(self) -> None:
        self.end("left")


@pytest.mark.parametrize("model", [Pipeline, Loop, Blocks])
def test_the_model_ends_its_session_after_its_frames_were_shown(model: type[Model]) -> None:
    with Studio(model) as studio:
        for _ in range(2):
            studio.clear()
            studio.connect()
            studio.run(3.0)
            values = [int(frame.array.flat[0]) for frame in studio.frames]
            assert values[:10] == list(range(1, 11))
            assert not any(values[10:]), "but for black, nothing is shown after the end"
            with pytest.raises(RuntimeError, match="connect"):
                studio.push_media("camera", picture(1))


def test_a_handler_ends_the_session() -> None:
    with Studio(Leaving) as studio:
        studio.connect()
        studio.send_event("leave")
        studio.run(1.0)
        with pytest.raises(RuntimeError, match="connect"):
            studio.push_media("camera", picture(1))


def test_the_end_of_no_session_has_no_effect() -> None:
    with Studio(Pipeline) as studio:
        studio.model.end("too early")
        studio.connect()
        studio.run(0.5)
        assert int(studio.frames[-1].array.flat[0]) > 1
