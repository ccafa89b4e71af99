"""The step style: which classes are of it, what `check` refuses, and the values of a step."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from reactor_runtime import (
    ApplicationError,
    InputState,
    Output,
    ReactorApp,
    ReactorModel,
    StepCompleted,
    StepOutcome,
    Video,
    event,
)
from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.authoring.styles.styles import STYLES
from reactor_runtime.errors import ClassError, LoadError, Location
from reactor_runtime.interface import ReactorPipeline


class Picture(Output):
    main_video: Video


FRAME = np.zeros((4, 6, 3), np.uint8)


def check(model: type[Model]) -> Contract:
    contract = Contract.of(model)
    contract.style.check_finished(model)
    return contract


def line_of(where: Location | None) -> str:
    assert where is not None
    return where.text.strip()


# A result, or an error


def test_an_outcome_with_an_output_has_it() -> None:
    output = Picture(main_video=FRAME)
    assert StepOutcome(result=output, elapsed=0.1).to_output() is output
    assert StepOutcome().to_output() is None


def test_an_outcome_with_an_error_raises_it() -> None:
    error = RuntimeError("out of memory")
    with pytest.raises(RuntimeError, match="out of memory") as caught:
        StepOutcome(error=error).to_output()
    assert caught.value is error


def test_an_outcome_with_another_result_has_no_output() -> None:
    with pytest.raises(NotImplementedError, match=r"generate\(\) returned ndarray: return an Output, or make one"):
        StepOutcome(result=FRAME).to_output()


def test_an_outcome_has_a_result_or_an_error() -> None:
    with pytest.raises(ValueError, match="not both"):
        StepOutcome(result=0, error=RuntimeError())


def test_outcomes_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        StepOutcome().elapsed = 1.0  # type: ignore[misc]  # the test
    with pytest.raises(dataclasses.FrozenInstanceError):
        StepCompleted().elapsed = 1.0  # type: ignore[misc]  # the test


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/a", "a\\b", "result.json", "output.mp4"])
def test_a_file_of_a_step_has_a_name_of_one_segment(name: str) -> None:
    with pytest.raises(ValueError, match="one segment"):
        StepCompleted(files={name: b""})


@pytest.mark.parametrize("files", [{"a": "text"}, {"a": bytearray()}, {1: b""}], ids=["text", "bytearray", "number"])
def test_the_content_of_a_file_of_a_step_is_bytes(files: Any) -> None:
    with pytest.raises(TypeError, match="maps names to bytes"):
        StepCompleted(files=files)


def test_a_completed_step_has_its_own_files() -> None:
    files = {"depth.npy": b"1"}
    step = StepCompleted(files=files)
    files.clear()
    assert step.files == {"depth.npy": b"1"}


def test_an_application_error_can_be_derived_with_another_constructor() -> None:
    class Paused(ApplicationError):
        def __init__(self) -> None:
            self.since = 1

    assert str(ApplicationError("no image yet")) == ApplicationError("no image yet").reason == "no image yet"
    assert (Paused().since, Paused().reason) == (1, "")


# The style of a class


class App(ReactorApp):
    def generate(self, input: Any) -> Picture:  # noqa: ARG002
        return Picture(main_video=FRAME)


class RunningApp(ReactorApp):
    async def run(self) -> None: ...

    def generate(self, input: Any) -> Picture:  # noqa: ARG002
        return Picture(main_video=FRAME)


class StepModel(ReactorModel):
    def generate(self, input: Any) -> Picture:  # noqa: ARG002
        return Picture(main_video=FRAME)


class HandlersWithHelper(ReactorModel):
    @event(name="paint")
    async def paint(self) -> None:
        async for frame in self.generate("a fox"):
            await self.emit(frame)

    async def generate(self, prompt: str) -> Any:  # noqa: ARG002
        yield FRAME


class EventRun(ReactorApp):
    @event(name="run")
    def run(self) -> None: ...

    def generate(self, input: Any) -> Picture:  # noqa: ARG002
        return Picture(main_video=FRAME)


class EventGenerate(ReactorModel):
    @event(name="generate")
    def generate(self, input: str) -> None: ...


@pytest.mark.parametrize(
    ("model", "method"),
    [
        (App, "generate"),
        (RunningApp, "run"),
        (StepModel, "generate"),
        (HandlersWithHelper, "run"),
        (EventGenerate, "run"),
        (EventRun, "generate"),
    ],
)
def test_the_methods_decide_the_style(model: type[Model], method: str) -> None:
    assert Contract.of(model).style.frames_method == method


def test_an_app_with_run_is_checked_as_a_loop() -> None:
    class Sync(ReactorApp):
        def run(self) -> None: ...

    with pytest.raises(ClassError, match=r"Sync\.run is not async"):
        check(Sync)


class Fixed(App):
    fps = 12.5
    buffer_size = 1


class NoSize(ReactorPipeline):
    state: InputState
    buffer_size = None

    def inference(self) -> Iterator[Any]:
        yield FRAME


@pytest.mark.parametrize(
    ("model", "fps", "buffer_size", "batches"),
    [
        (App, None, 10, 1),
        (StepModel, None, 10, 1),
        (Fixed, 12.5, 1, 1),
        (RunningApp, 30, 10, 1),
        (EventGenerate, 30, 4, 0),
        (NoSize, None, 4, 2),
    ],
)
def test_the_base_class_fixes_no_rate_and_has_room_for_a_batch(
    model: type[Model], fps: float | None, buffer_size: int, batches: int
) -> None:
    contract = Contract.of(model)
    assert (contract.fps, contract.buffer_size, contract.batches) == (fps, buffer_size, batches)


def test_a_base_class_shows_the_size_that_its_style_uses() -> None:
    for style in STYLES:
        if style.fits is None and style.base is not ReactorApp:
            assert style.base.buffer_size == style.buffer_size
    assert ReactorModel.buffer_size == 4
    assert ReactorApp.buffer_size is None


# What `reactor check` refuses


class Empty(ReactorApp):
    output: Picture


class Misspelt(ReactorApp):
    output: Picture

    def genrate(self, input: Any) -> Any: ...


class Calling(ReactorApp):
    output: Picture
    pipe: Any

    def gen(self, input: Any) -> Any:
        return self.pipe.generate(input)


class Async(ReactorApp):
    async def generate(self, input: Any) -> Any: ...


class Yields(ReactorApp):
    def generate(self, input: Any) -> Any:  # noqa: ARG002
        yield FRAME


class NoInput(ReactorApp):
    def generate(self) -> Any: ...  # type: ignore[override]  # the test


class TwoInputs(ReactorApp):
    def generate(self, input: Any, noise: Any) -> Any: ...  # type: ignore[override]  # the test


class SyncInput(App):
    def process_input(self) -> Any: ...


class NoOutcome(App):
    async def process_output(self) -> Any: ...  # type: ignore[override]  # the test


@pytest.mark.parametrize(
    ("model", "message", "hint", "line"),
    [
        (Empty, "Empty has no generate()", "define `def generate(self, input)`", "class Empty(ReactorApp):"),
        (Misspelt, "Misspelt has no generate()", "did you mean generate() by genrate()?", "def genrate("),
        (Calling, "Calling has no generate()", "define `def generate(self, input)`", "class Calling(ReactorApp):"),
        (Async, "Async.generate is async", "write `def generate(self, input)`", "async def generate("),
        (Yields, "Yields.generate yields", "write `def generate(self, input)`", "def generate("),
        (NoInput, "NoInput.generate is called with one argument: too many", "(self, input)`", "def generate(self)"),
        (TwoInputs, "TwoInputs.generate is called with one argument: missing", "(self, input)`", "def generate("),
        (SyncInput, "SyncInput.process_input is not async", "`async def process_input(self)`", "def process_input("),
        (NoOutcome, "NoOutcome.process_output is called with one", "(self, outcome)`", "async def process_output("),
    ],
)
def test_a_class_of_another_shape_is_refused(model: type[Model], message: str, hint: str, line: str) -> None:
    with pytest.raises(ClassError) as caught:
        check(model)
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert line in line_of(caught.value.where)


class Assigning(ReactorApp):
    output: Picture

    def load(self, config: dict[str, Any]) -> None:
        self.generate = config["generate"]  # type: ignore[method-assign]


class Derived(App):
    pass


def test_load_has_to_assign_what_it_names() -> None:
    class Forgets(Assigning):
        def load(self, config: dict[str, Any]) -> None: ...

    model = Forgets()
    with pytest.raises(LoadError, match=r"Forgets has no generate\(\) after load\(\)"):
        check(Forgets).style.check_loaded(model)


@pytest.mark.parametrize("model", [App, StepModel, Assigning, Derived])
def test_a_class_that_may_be_right_is_accepted(model: type[Model]) -> None:
    check(model)
