"""The base of all models: its runtime, and the checks of class attributes."""

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from reactor_runtime import Audio, InputState, ModelMessage, Output, ReactorPipeline, Video
from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.styles.model import outputs_of
from reactor_runtime.testing import Studio


class State(InputState):
    pass


class Hello(ModelMessage):
    pass


class Model(ReactorPipeline):
    state: State

    def __init__(self) -> None:  # authors needn't call ours
        self.ready = True


class Buffer:
    fps = 30.0

    def set_fps(self, fps: float) -> None:
        self.fps = fps

    def flush(self, *, hold: bool = False) -> None: ...

    def empty(self, shape: Sequence[int]) -> NDArray[np.uint8]:
        raise NotImplementedError

    async def emit(self, output: object, *, compute_time: float | None = None, drop: bool = False) -> None: ...


class Run:
    def __init__(self) -> None:
        self.connected = asyncio.Event()
        self.output_buffer = Buffer()
        self.sent: list[ModelMessage] = []

    def send(self, message: ModelMessage) -> None:
        self.sent.append(message)

    async def emit(self, output: object, *, compute_time: float | None, drop: bool) -> None:
        raise NotImplementedError


async def test_model_reaches_its_runtime() -> None:
    model, run = Model(), Run()
    model._reactor_runtime = run
    await model.send(Hello())
    model.send_nowait(Hello())
    model.output_buffer.set_fps(12.0)
    assert model.connected is run.connected
    assert run.sent == [Hello(), Hello()]
    assert run.output_buffer.fps == 12.0
    assert model.output is model.output_buffer


def test_output_can_be_a_stub_without_a_runtime() -> None:
    model, stub = Model(), object()
    model.output = stub
    assert model.output is stub


class Keeps(Model):
    """Keep attributes under names that the runtime could want too."""

    def load(self, config: dict[str, Any]) -> None:
        self._runtime = self._served = self._engine = self.engine = self._config = self._clients = config
        self._on_progress = self._on_end = self._work = self.model = config

    def _state(self) -> str:
        return "the author's"


def test_names_of_an_author_do_not_meet_those_of_the_runtime() -> None:
    with Studio(Keeps) as studio:
        model = studio.model
        own = {name: value for name, value in vars(model).items() if not name.startswith("_reactor_")}
        model.end("over")
        assert model.output.fps == 30
        assert own.keys() == {
            *("_runtime", "_served", "_engine", "engine", "_config", "_clients"),
            *("_on_progress", "_on_end", "_work", "model", "ready", "state"),
        }
        assert model._state() == "the author's"


@pytest.mark.parametrize("name", ["connected", "output_buffer"])
def test_a_model_that_is_not_run_raises_an_error_with_the_reason(name: str) -> None:
    with pytest.raises(RuntimeError, match="Model is not running"):
        getattr(Model(), name)


def test_model_that_is_not_run_cannot_send() -> None:
    with pytest.raises(RuntimeError, match="Model is not running"):
        Model().send_nowait(Hello())


def test_load_may_be_left_out() -> None:
    model, same = Model(), Model()
    model.load({"width": 8})
    assert vars(model) == vars(same)


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("fps", 0, ValueError),
        ("fps", -1.5, ValueError),
        ("fps", float("inf"), ValueError),
        ("fps", float("nan"), ValueError),
        ("fps", "30", TypeError),
        ("fps", None, TypeError),
        ("fps", True, TypeError),
        pytest.param("fps", property(float), TypeError, id="fps-property"),
        ("max_fps", 0, ValueError),
        ("max_fps", "60", TypeError),
        ("buffer_size", 0, ValueError),
        ("buffer_size", 4.0, TypeError),
        ("buffer_size", True, TypeError),
        ("warmup", -1, ValueError),
        ("warmup", 8.0, TypeError),
        ("warmup", True, TypeError),
    ],
    ids=str,
)
def test_wrong_rate_or_size_names_class_and_attribute(name: str, value: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=rf"Bad\.{name} must be"):
        type("Bad", (Model,), {name: value})


@pytest.mark.parametrize("name", ["connected", "output_buffer", "send", "send_nowait"])
def test_names_of_the_model_cannot_be_taken(name: str) -> None:
    with pytest.raises(TypeError, match=rf"Bad\.{name} would hide the model's own self\.{name}"):
        type("Bad", (Model,), {name: print})


def test_fps_is_adaptive_unless_a_class_declares_it() -> None:
    class Fixed(Model):
        fps = 24

    class Child(Fixed):
        max_fps = 90
        buffer_size = 8

    assert (Contract.of(Model).fps, Contract.of(Model).max_fps, Contract.of(Model).buffer_size) == (None, 60.0, 4)
    assert (Contract.of(Child).fps, Contract.of(Child).max_fps, Contract.of(Child).buffer_size) == (24.0, 90.0, 8)


def test_rates_and_sizes_may_be_numpy_scalars() -> None:
    class Computed(Model):
        fps = np.float32(24)  # type: ignore[assignment]
        max_fps = np.int64(90)  # type: ignore[assignment]
        buffer_size = np.int64(8)  # type: ignore[assignment]

    contract = Contract.of(Computed)
    values = (contract.fps, contract.max_fps, contract.buffer_size)
    assert values == (24.0, 90.0, 8)
    assert [type(value) for value in values] == [float, float, int]


def test_output_annotation_narrows_the_tracks() -> None:
    class One(Output):
        main: Video

    class Two(Output):
        main: Audio

    class Three(Output):
        other: Video

    class Narrow(Model):
        output: One

    class Wider(Narrow):
        output: Two | Three  # type: ignore[assignment]

    class Inherits(Wider):
        pass

    assert outputs_of(Narrow) == (One,)
    assert outputs_of(Wider) == outputs_of(Inherits) == (Two, Three)


def test_output_annotated_with_something_else_narrows_nothing() -> None:
    class One(Output):
        main: Video

    class Free(Model):
        output: list[int]

    assert outputs_of(Free) == (One,)


def test_contradicting_outputs_are_refused_when_the_model_is_defined() -> None:
    class One(Output):
        main: Video

    class Two(Output):
        main: Audio

    with pytest.raises(TypeError, match=r"Torn: track 'main' is video in One and audio at 48000 Hz in Two"):

        class Torn(Model):
            pass
