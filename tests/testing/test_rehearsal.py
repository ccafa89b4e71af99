"""The first step of a model, as `reactor check --step` makes it."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reactor_runtime import (
    ApplicationError,
    Audio,
    Input,
    InputState,
    Output,
    ReactorModel,
    ReactorPipeline,
    ReadMode,
    Video,
    VideoModel,
    get_ctx,
)
from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.engine import first_step
from reactor_runtime.errors import LoadError, ModelFailed, ReactorError
from reactor_runtime.testing import PipelineExecutor
from reactor_runtime.testing.rehearsal import PATIENCE_S, Rehearsed, rehearse
from tests.testing.pose_app import PoseApp
from tests.timeouts import TIMEOUT_S

HERE = Path(__file__).parent
SLOW_S = first_step.SLOW_S


class Picture(Output):
    main_video: Video


class Pipeline(ReactorPipeline):
    state: InputState
    output: Picture


def gray(level: int = 100) -> Any:
    return np.full((4, 6, 3), level, np.uint8)


class Good(Pipeline):
    def inference(self) -> Iterator[Any]:
        while True:
            yield Picture(main_video=gray())


class Floats(Pipeline):
    def inference(self) -> Iterator[Any]:
        yield Picture(main_video=gray() / 255)  # floats


class Unfinite(Pipeline):
    def inference(self) -> Iterator[Any]:
        yield Picture(main_video=np.full((4, 6, 3), np.nan, np.float32))  # NaN


class ChannelsFirst(Pipeline):
    def inference(self) -> Iterator[Any]:
        yield Picture(main_video=gray().transpose(2, 0, 1))  # CHW


class Returns(Pipeline):
    def inference(self) -> Any:
        return Picture(main_video=gray())  # return


class WrongKeyword(Pipeline):
    def inference(self) -> Iterator[Any]:
        keywords = {"video": gray()}
        yield Picture(**keywords)  # keyword


class Black(Pipeline):
    async def inference(self) -> Any:
        while True:
            yield Picture(main_video=gray(0))  # black


class Slow(Pipeline):
    def inference(self) -> Iterator[Any]:
        time.sleep(1.1)  # what the test is about
        yield Picture(main_video=gray())  # slow


class BlackLoop(ReactorModel):
    output: Picture

    async def run(self) -> None:
        while True:
            await self.connected.wait()
            await self.emit(Picture(main_video=gray(0)))  # loop


class BlackBlocks(VideoModel):
    def start_session(self) -> None:  # blocks
        while not get_ctx().should_stop():
            get_ctx().emit_block(gray(1))


class Waits(Pipeline):
    def inference(self) -> Iterator[Any]:
        while True:
            yield None


class Unloadable(Good):
    def load(self, config: dict[str, Any]) -> None:
        raise ValueError(config["weights"])  # load


class Camera(Input):
    camera: Video
    microphone: Audio


class Echo(Pipeline):
    input: Camera

    async def inference(self) -> Any:
        while True:
            images = await self.input.camera.read(8)
            [sound] = await self.input.microphone.read()
            assert sound.any()
            yield Picture(main_video=images[-1])


class Duet(Output):
    sound: Audio


class Microphone(Input):
    microphone: Audio


class Listens(Pipeline):
    """Read as docs/sound.md teaches: two pieces of 20 ms a step of 40 ms."""

    output: Duet  # type: ignore[assignment]
    input: Microphone
    fps = 25

    async def inference(self) -> Any:
        while True:
            pieces = await self.input.microphone.read(n=2, mode=ReadMode.FIFO)
            yield Duet(sound=np.concatenate(pieces, axis=1))


class Batched(Pipeline):
    def inference(self) -> Iterator[Any]:
        yield Picture(main_video=np.stack([gray()] * 12))


@pytest.fixture(autouse=True)
def no_step_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no busy machine add a warning; tests of slow steps set the limit again."""
    monkeypatch.setattr(first_step, "SLOW_S", TIMEOUT_S)


def rehearsed(model: type[Model]) -> list[ReactorError]:
    return facts_and_warnings(model).warnings


def facts_and_warnings(model: type[Model]) -> Rehearsed:
    return rehearse(Contract.of(model), {"weights": "none"}, HERE, on_step_limit=lambda error: pytest.fail(str(error)))


@pytest.mark.parametrize("model", [Good, Echo, Listens])
def test_a_good_model_has_no_warnings(model: type[Model]) -> None:
    assert rehearsed(model) == []


@pytest.mark.parametrize(
    ("model", "kind", "words", "line"),
    [
        (Floats, ModelFailed, "main_video: got float64", "# floats"),
        (Unfinite, ModelFailed, "every value is NaN", "# NaN"),
        (ChannelsFirst, ModelFailed, 'layout="CHW"', "# CHW"),
        (Returns, ModelFailed, "write `yield` in place of `return`", "# return"),
        (WrongKeyword, ModelFailed, "did you mean main_video?", "# keyword"),
        (Unloadable, LoadError, "load() failed: ValueError: none", "# load"),
    ],
)
def test_output_that_cannot_be_shown_is_an_error_at_its_line(
    model: type[Model], kind: type[ReactorError], words: str, line: str
) -> None:
    with pytest.raises(kind) as caught:
        rehearsed(model)
    assert words in str(caught.value)
    assert caught.value.where is not None
    assert caught.value.where.text.endswith(line)


@pytest.mark.parametrize(
    ("model", "words", "line"),
    [
        (Black, "main_video is black in the first step: every value is 0", "# black"),
        (BlackLoop, "main_video is black in the first step: every value is 0", "# loop"),
        (BlackBlocks, "main_video is black in the first step: every value is 0 or 1 of 255", "# blocks"),
    ],
)
def test_output_that_is_probably_wrong_is_reported_with_its_line(model: type[Model], words: str, line: str) -> None:
    (warning,) = rehearsed(model)
    assert warning.message.startswith(words)
    assert warning.where is not None
    assert warning.where.text.endswith(line)


def test_a_slow_step_is_reported_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_step, "SLOW_S", SLOW_S)
    (warning,) = rehearsed(Slow)
    assert warning.message.startswith("the first step took ")
    assert warning.where is not None
    assert warning.where.text.endswith("# slow")


def test_exactly_one_step_is_made() -> None:
    made: list[int] = []

    class Counted(Pipeline):
        def inference(self) -> Iterator[Any]:
            while True:
                made.append(len(made))
                yield Picture(main_video=gray())

    assert rehearsed(Counted) == []
    assert made == [0]


def test_a_step_over_the_limit_is_an_error_at_the_line_where_it_is() -> None:
    late: list[ReactorError] = []
    reported = threading.Event()

    class Hangs(Pipeline):
        def inference(self) -> Iterator[Any]:
            reported.wait()  # hangs
            yield Picture(main_video=gray())

    def on_step_limit(error: ReactorError) -> None:
        late.append(error)
        reported.set()

    rehearse(Contract.of(Hangs), {}, HERE, on_step_limit=on_step_limit, step_limit_s=1.0)
    (error,) = late
    assert isinstance(error, ModelFailed)
    assert error.message == "the first step has not ended after 1 s"
    assert error.where is not None
    assert error.where.text.endswith("# hangs")


def test_a_model_that_waits_for_an_event_gets_a_warning() -> None:
    (warning,) = rehearsed(Waits)
    assert warning.message == "the model made no frame in 10 s of its time"


class Shown(PoseApp):
    output: Picture


class Blind(PoseApp):
    async def process_input(self) -> Any:
        raise ApplicationError("no camera")


@pytest.mark.parametrize(
    ("model", "warnings"),
    [
        (PoseApp, []),
        (Shown, ["the model made no frame in 10 s of its time"]),
        (Blind, ["the model skips its steps: no camera"]),
    ],
)
def test_only_an_app_that_skips_all_steps_is_said_to_skip_them(model: type[Model], warnings: list[str]) -> None:
    assert [warning.message for warning in rehearsed(model)] == warnings


def test_a_slow_step_after_a_warm_up_gets_no_advice_to_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_step, "SLOW_S", SLOW_S)
    # What the steps of the warm-up take, and the first one after it.
    seconds = iter((0.0, 0.0, 1.1))

    class Slow(Pipeline):
        warmup = 2

        def inference(self) -> Iterator[Any]:
            time.sleep(next(seconds))  # what the test is about
            yield Picture(main_video=gray())

    (warning,) = rehearsed(Slow)
    assert re.match(r"the first step took \d", warning.message)
    assert "warmup" not in warning.hint


@pytest.mark.parametrize(
    ("model", "track"),
    [
        (Good, {"name": "main_video", "kind": "video", "dtype": "uint8", "frames": 1, "width": 6, "height": 4}),
        (Batched, {"name": "main_video", "kind": "video", "dtype": "uint8", "frames": 12, "width": 6, "height": 4}),
        (Listens, {"name": "sound", "kind": "audio", "dtype": "int16", "channels": 1, "seconds": 0.04}),
    ],
)
def test_the_facts_of_a_first_step_are_its_time_and_its_output(model: type[Model], track: dict[str, Any]) -> None:
    facts = facts_and_warnings(model).step
    assert facts is not None
    assert facts["tracks"] == [track]
    assert 0 < facts["seconds"] < PATIENCE_S


def test_a_model_without_a_frame_has_no_facts() -> None:
    facts = facts_and_warnings(Waits).step
    assert facts is None


def test_the_offline_drivers_list_warnings_about_output() -> None:
    with PipelineExecutor(Black) as executor:
        executor.connect()
        next(executor)
        assert ["main_video is black" in each for each in executor.warnings] == [True]
