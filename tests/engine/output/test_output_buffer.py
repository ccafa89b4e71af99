"""`self.output`, the part of the emitter that authors use, in a pipeline and in a loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from reactor_runtime import (
    InputState,
    Output,
    ReactorApp,
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


class Nothing(InputState):
    pass


def gray(level: int) -> np.ndarray[Any, Any]:
    return np.full((4, 6, 3), level, np.uint8)


class Pipeline(ReactorPipeline):
    state: Nothing
    fps = 10
    buffer_size = 2

    def load(self, _: dict[str, Any]) -> None:
        self.output.flush(hold=True)
        self.output.flush()

    @event(name="cut")
    def cut(self, hold: bool) -> None:
        self.output.flush(hold=hold)

    @event(name="speed")
    def speed(self, fps: float) -> None:
        self.output.fps = fps

    @event(name="flash")
    async def flash(self) -> None:
        await self.output.emit(Picture(video=gray(255)))

    def inference(self) -> Iterator[Any]:
        yield gray(80)
        while True:
            yield None


@pytest.mark.parametrize(("hold", "levels"), [(False, [80, 0]), (True, [80])], ids=["black", "hold"])
def test_a_flush_with_hold_keeps_the_newest_frame(hold: bool, levels: list[int]) -> None:
    with Studio(Pipeline) as studio:
        studio.connect()
        studio.run(0.5)
        studio.send_event("cut", hold=hold)
        studio.run(0.5)
        assert [frame.array[0, 0, 0] for frame in studio.frames] == levels


def test_a_flush_before_the_first_session_does_nothing() -> None:
    with Studio(Pipeline) as studio:
        studio.connect()
        studio.run(0.5)
        assert len(studio.frames) == 1


def test_the_rate_can_be_assigned() -> None:
    with Studio(Pipeline) as studio:
        studio.connect()
        assert studio.model.output.fps == 10
        studio.send_event("speed", fps=25)
        assert studio.model.output.fps == 25
        with pytest.raises(ValueError, match="above 0"):
            studio.send_event("speed", fps=0)


def test_a_handler_of_a_pipeline_emits_a_frame() -> None:
    with Studio(Pipeline) as studio:
        studio.connect()
        studio.run(0.5)
        studio.send_event("flash")
        studio.run(0.5)
        assert [frame.array[0, 0, 0] for frame in studio.frames] == [80, 255]


def test_an_output_that_is_made_or_set_there_is_an_error() -> None:
    with Studio(Pipeline) as studio:
        output: Any = studio.model.output
        with pytest.raises(TypeError, match="make an output with its class, as in MyOutput"):
            output(video=gray(1))
        with pytest.raises(AttributeError, match="video"):
            output.video = gray(1)


class Pinned(Pipeline):
    def load(self, _: dict[str, Any]) -> None:
        type(self).fps = 24

    def inference(self) -> Iterator[Any]:
        while True:
            yield gray(80)


def test_load_can_assign_the_rate_to_the_class() -> None:
    with Studio(Pinned) as studio:
        for _ in range(2):
            studio.clear()
            studio.connect()
            studio.run(1.0)
            assert [frame.due_s for frame in studio.frames[:4]] == pytest.approx([0, 1 / 24, 2 / 24, 3 / 24])
            studio.disconnect()


class Loop(ReactorModel):
    fps = 10

    async def run(self) -> None:
        await self.connected.wait()
        await self.output.emit(gray(1))
        await self.output.emit(gray(2), compute_time=0.1, drop=True)
        await asyncio.Event().wait()


def test_a_loop_emits_through_its_output() -> None:
    with Studio(Loop) as studio:
        studio.connect()
        studio.run(1.0)
        assert [frame.array[0, 0, 0] for frame in studio.frames] == [1, 2]


def painted(empty: Any, level: int) -> Any:
    frames = empty((2, 4, 6, 3))
    frames[:] = level
    return frames


class EmptyPipeline(Pipeline):
    def inference(self) -> Iterator[Any]:
        yield painted(self.output.empty, 7)
        while True:
            yield None


class EmptyLoop(ReactorModel):
    fps = 10

    async def run(self) -> None:
        await self.connected.wait()
        await self.emit(painted(self.output.empty, 7))
        await asyncio.Event().wait()


class EmptyApp(ReactorApp):
    fps = 10

    async def process_input(self) -> int:
        return 7

    def generate(self, level: int) -> Picture:
        return Picture(video=painted(self.output.empty, level))


class EmptyBlocks(VideoModel):
    def start_session(self) -> None:
        context = get_ctx()
        while not context.should_stop():
            context.emit_block(painted(context.empty, 7))


@pytest.mark.parametrize("model", [EmptyPipeline, EmptyLoop, EmptyApp, EmptyBlocks])
def test_frames_are_painted_in_memory_that_the_output_gives(model: Any) -> None:
    with Studio(model) as studio:
        studio.connect()
        studio.run(0.5)
        assert (studio.frames[1].array == 7).all()


@pytest.mark.parametrize("shape", [(4, 6), (4, 6, 4), (0, 6, 3), (-4, -6, 3), (4, 70_000, 3), ()])
def test_a_shape_that_no_frame_has_is_refused(shape: Any) -> None:
    with Studio(Pipeline) as studio, pytest.raises(ValueError, match=r"\(height, width, 3\) or a batch"):
        studio.model.output.empty(shape)
