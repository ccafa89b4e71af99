"""What an author keeps on `self`, and what tests of an author do with an instance that nothing runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from reactor_runtime import (
    InputState,
    ModelMessage,
    Output,
    PipelineExecutor,
    ReactorModel,
    ReactorPipeline,
    Video,
    VideoModel,
    event,
)

NAMES = (
    "_config",
    "_engine",
    "engine",
    "_clients",
    "_work",
    "model",
    "_runtime",
    "_served",
    "_on_end",
    "log",
    "session",
)


class Picture(Output):
    video: Video


class Level(InputState):
    level: int = 1


class Told(ModelMessage):
    level: int


class Keeper(ReactorPipeline):
    state: Level
    output: Picture

    def __init__(self) -> None:
        super().__init__()
        for name in NAMES:
            setattr(self, name, name)

    def load(self, _: dict[str, Any]) -> None:
        assert all(getattr(self, name) == name for name in NAMES)

    def _state(self) -> int:
        return self.state.level

    @event(name="double")
    async def double(self) -> None:
        self.state.level *= 2
        await self.send(Told(level=self.state.level))

    def inference(self) -> Iterator[Picture]:
        while True:
            yield Picture(video=np.full((2, 2, 3), self._state(), np.uint8))


@pytest.mark.parametrize("base", [ReactorPipeline, ReactorModel, VideoModel])
def test_our_classes_keep_nothing_private_under_a_name_that_an_author_may_use(base: type) -> None:
    private = [name for name in dir(base) if name.startswith("_") and not name.startswith(("__", "_reactor_"))]
    assert not private


@pytest.mark.parametrize("base", [ReactorPipeline, ReactorModel, VideoModel])
def test_an_init_of_ours_takes_no_arguments(base: type) -> None:
    class Quiet(base):  # type: ignore[misc]  # the bases are values here
        state: Level

        def __init__(self, _: object = None) -> None:
            super().__init__()

    Quiet()


def test_a_model_keeps_anything_on_itself() -> None:
    with PipelineExecutor(Keeper) as executor:
        executor.connect()
        executor.send_event("double")
        step = next(executor)
        assert step.output.video.flat[0] == 2
        assert [getattr(executor.model, name) for name in NAMES] == list(NAMES)


async def test_an_instance_works_without_a_runtime() -> None:
    model, sent = Keeper(), list[ModelMessage]()

    async def send(message: ModelMessage) -> None:
        sent.append(message)

    model.state = Level(level=3)
    model.send = send  # type: ignore[method-assign]  # as a test of an author does
    await model.double()
    assert sent == [Told(level=6)]
    assert next(model.inference()).video.flat[0] == 6
