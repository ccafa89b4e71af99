"""The warm-up: steps in a session without a client, between `load()` and the first client."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reactor_runtime import (
    Audio,
    Idle,
    Input,
    InputState,
    ModelMessage,
    Output,
    ReactorModel,
    ReactorPipeline,
    Video,
    VideoModel,
    connected,
    disconnected,
    get_ctx,
)
from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.engine.host import Host
from reactor_runtime.engine.host_parts import HostParts, Outlet
from reactor_runtime.engine.served import ServedModel, Version
from reactor_runtime.errors import LoadError
from reactor_runtime.testing import PipelineExecutor, Studio
from tests.fakes import CollectingSink, FakeClock


class Picture(Output):
    main_video: Video


class Camera(Input):
    camera: Video
    microphone: Audio


class Strength(InputState):
    value: int = 3


class Hello(ModelMessage):
    pass


def gray(level: int = 100, frames: int = 1) -> Any:
    return np.full((frames, 4, 6, 3), level, np.uint8)


class Generator(ReactorPipeline):
    state: Strength
    output: Picture
    warmup = 3
    fps = 1

    def load(self, config: dict[str, Any]) -> None:  # noqa: ARG002
        self.calls: list[object] = []

    @connected
    def on_connected(self) -> None:
        self.calls.append("connected")

    @disconnected
    def on_disconnected(self) -> None:
        self.calls.append("disconnected")

    def inference(self) -> Iterator[Any]:
        while True:
            self.calls.append(self.state.value)
            self.state.value += 1
            self.send_nowait(Hello())
            yield Picture(main_video=gray(frames=6))


class AsyncGenerator(Generator):
    async def inference(self) -> Any:
        for picture in super().inference():
            await asyncio.sleep(0.01)
            yield picture


class Loop(ReactorModel):
    output: Picture
    warmup = 3

    def load(self, config: dict[str, Any]) -> None:  # noqa: ARG002
        self.calls: list[object] = []
        self.runs = 0

    async def run(self) -> None:
        self.runs += 1
        while True:
            await self.connected.wait()
            self.calls.append(self.runs)
            await self.emit(Picture(main_video=gray()))


class Blocks(VideoModel):
    warmup = 3

    def __init__(self, config: dict[str, Any]) -> None:  # noqa: ARG002
        self.calls: list[object] = []

    def start_session(self) -> None:
        while not get_ctx().should_stop():
            self.calls.append("block")
            get_ctx().emit_block(gray(frames=4))
            get_ctx().send({"made": 4})


@pytest.mark.parametrize(
    ("model", "calls"),
    [
        (Generator, ["connected", 3, 4, 5, "disconnected"]),
        (AsyncGenerator, ["connected", 3, 4, 5, "disconnected"]),
        (Loop, [1, 1, 1]),
    ],
)
def test_a_model_makes_its_steps_in_no_time_and_sends_nothing(model: Any, calls: list[object]) -> None:
    with Studio(model) as studio:
        began = studio.clock.now()
        studio.warm_up()
        assert studio.model.calls[: len(calls)] == calls
        assert studio.clock.now() - began < 0.1
        assert (studio.frames, studio.messages) == ([], [])


def test_blocks_are_steps_and_at_most_those_that_fit_into_the_queue_are_made_in_addition() -> None:
    with Studio(Blocks) as studio:
        studio.warm_up()
        assert 3 <= len(studio.model.calls) <= 6
        assert (studio.frames, studio.messages) == ([], [])


@pytest.mark.parametrize("model", [Generator, AsyncGenerator, Loop, Blocks])
def test_the_first_client_starts_as_without_a_warm_up(model: Any) -> None:
    with Studio(model) as studio:
        studio.warm_up()
        studio.model.calls.clear()
        studio.connect()
        studio.run(0.5)
        assert studio.frames[0].seq == 0
        assert studio.frames[0].due_s < 0.1
        assert studio.model.calls[:2] in (["connected", 3], [1, 1], ["block", "block"])


def test_an_executor_and_a_studio_warm_up_only_when_told() -> None:
    with PipelineExecutor(Generator) as executor:
        assert executor.model.calls == []
        executor.connect()
        with pytest.raises(RuntimeError, match=r"disconnect\(\) it first"):
            executor.warm_up()
        executor.disconnect()
        executor.model.calls.clear()
        executor.warm_up()
        executor.connect()
        assert executor.state.value == 3
        next(executor)
        assert executor.model.calls == ["connected", 3, 4, 5, "disconnected", "connected", 3]


class Failing(Generator):
    def inference(self) -> Iterator[Any]:
        yield gray()
        raise ValueError("no kernel")  # the line


class FailingLoop(Loop):
    async def run(self) -> None:
        await self.connected.wait()
        await self.emit(Picture(main_video=gray()))
        raise ValueError("no kernel")  # the line


class FailingBlocks(Blocks):
    def start_session(self) -> None:
        get_ctx().emit_block(gray())
        raise ValueError("no kernel")  # the line


class Floats(Generator):
    def inference(self) -> Iterator[Any]:
        yield gray()
        yield gray() / 255  # the line


@pytest.mark.parametrize("model", [Failing, FailingLoop, FailingBlocks, Floats])
def test_an_exception_is_a_load_error_at_the_author_s_line(model: Any) -> None:
    with Studio(model, project=Path(__file__).parent) as studio:
        with pytest.raises(
            LoadError, match=r"step \d of the warm-up failed: (ValueError: no kernel|TypeError: )"
        ) as raised:
            studio.warm_up()
        assert raised.value.exit_code == 4
        assert raised.value.where is not None
        assert "# the line" in raised.value.where.text


class Sees(ReactorPipeline):
    state: InputState
    input: Camera
    output: Picture
    warmup = 2

    def load(self, config: dict[str, Any]) -> None:  # noqa: ARG002
        self.seen: list[Any] = []

    async def inference(self) -> Any:
        while True:
            images = await self.input.camera.read(4)
            [sound] = await self.input.microphone.read()
            self.seen += [*images, sound]
            yield images[-1]


class SeesBlocks(VideoModel):
    input: Camera
    warmup = 2

    def __init__(self, config: dict[str, Any]) -> None:  # noqa: ARG002
        self.seen: list[Any] = []

    def start_session(self) -> None:
        while not get_ctx().should_stop():
            image = get_ctx().get_track("camera").latest()
            if image is not None:
                self.seen.append(image)
                get_ctx().emit_block(image)


@pytest.mark.parametrize("model", [Sees, SeesBlocks])
def test_inputs_have_black_frames_and_silence_which_no_client_reads_later(model: Any) -> None:
    with Studio(model) as studio:
        studio.warm_up()
        assert {each.shape for each in studio.model.seen} <= {(480, 640, 3), (1, 1600)}
        assert not any(each.any() for each in studio.model.seen)
        studio.model.seen.clear()
        studio.connect()
        studio.push_media("camera", gray(9)[0])
        studio.run(0.5)
        assert all(each.any() for each in studio.model.seen)


class Prompted(Generator):
    def inference(self) -> Iterator[Any]:
        yield Idle
        while True:
            yield gray() if self.state.value != 3 else None


def test_a_model_that_makes_no_frame_with_the_default_state_is_an_error() -> None:
    with Studio(Prompted) as studio, pytest.raises(LoadError, match="no frame in the 3 steps of the warm-up") as raised:
        studio.warm_up()
    assert "give the state defaults" in raised.value.hint
    assert raised.value.where is not None
    assert "def inference" in raised.value.where.text


class SometimesIdle(Generator):
    def inference(self) -> Iterator[Any]:
        self.calls.append("idle")
        yield Idle
        yield gray()
        self.calls.append("second frame")
        yield gray()
        self.calls.append("third frame")
        yield gray()


def test_a_step_without_a_frame_counts() -> None:
    with Studio(SometimesIdle) as studio:
        studio.warm_up()
        assert studio.model.calls == ["connected", "idle", "second frame", "disconnected"]


class WaitsForEver(ReactorModel):
    output: Picture
    warmup = 1

    async def run(self) -> None:
        await asyncio.Event().wait()


def test_a_step_that_never_ends_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with Studio(WaitsForEver) as studio, pytest.raises(RuntimeError, match="not ended after 60 s"):
        studio.warm_up()
    assert "step 1 of the warm-up has not ended after 30 s; a model that waits for an event" in caplog.text


class Black(Generator):
    def inference(self) -> Iterator[Any]:
        while True:
            yield gray(0)


def test_the_check_of_the_first_step_is_made_for_the_first_client() -> None:
    with Studio(Black) as studio:
        studio.warm_up()
        assert studio.warnings == []
        studio.connect()
        studio.run(0.1)
        assert "is black in the first step" in studio.warnings[0]


class Configured(Generator):
    def load(self, config: dict[str, Any]) -> None:
        super().load(config)
        self.warmup = config["warmup"]


def test_load_may_assign_the_number_of_steps() -> None:
    with Studio(Configured, {"warmup": 1}) as studio:
        studio.warm_up()
        assert studio.model.calls == ["connected", 3, "disconnected"]
    with Studio(Configured, {"warmup": 0}) as studio:
        studio.warm_up()
        assert studio.model.calls == []
    with (
        Studio(Configured, {"warmup": "8"}) as studio,
        pytest.raises(LoadError, match="whole number of steps, not '8'"),
    ):
        studio.warm_up()


@pytest.mark.parametrize("model", [Generator, Loop])
async def test_the_steps_are_announced_before_they_are_made(model: type[Model], tmp_path: Path) -> None:
    clock, made = FakeClock(), model()
    made.load({})
    sink = CollectingSink(clock)
    host = Host(
        ServedModel(Version(made, Contract.of(model), {})),
        [Outlet(sink=sink)],
        HostParts(clock=clock, project=tmp_path),
    )
    announced: list[tuple[int, int]] = []
    await host.warm_up(lambda step, steps: announced.append((step, steps)))
    assert announced == [(1, 3), (2, 3), (3, 3)]
    assert sink.everything == []
