"""What a session writes into objects of `load()`, which the sessions of a shared model have in common."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reactor_runtime import Input, InputState, Output, ReactorPipeline, Video
from reactor_runtime.authoring.contract import Contract
from reactor_runtime.testing.loaded_objects import HINT, LoadedObjects
from reactor_runtime.testing.rehearsal import rehearse


class Net:
    def __init__(self) -> None:
        self.weights = np.zeros(9)
        self.cache: object = None


class Loaded:
    """Has one object of each kind that an author keeps."""

    def __init__(self) -> None:
        self.count = 0
        self.history: list[object] = [[1, 2]]
        self.by_name = {"a": {"b": 1}}
        self.seen = {1, 2}
        self.queue = deque([1], maxlen=3)
        self.bytes = bytearray(4)
        self.array = np.zeros((4, 4))
        self.net = Net()
        self.rng = np.random.default_rng(0)
        self.random = random.Random(0)
        self.itself = self
        self.call = self.read

    def read(self) -> object:
        return list(self.history), self.by_name["a"]["b"], self.array.sum(), 1 in self.seen


WRITES: dict[str, Callable[[Any], object]] = {
    "self.history": lambda each: each.history.append(1),
    "self.history[0]": lambda each: each.history[0].__setitem__(0, 7),
    "self.by_name['a']": lambda each: each.by_name["a"].update(b=2),
    "self.seen": lambda each: each.seen.add(3),
    "self.queue": lambda each: each.queue.append(2),
    "self.bytes": lambda each: each.bytes.__setitem__(0, 1),
    "self.array": lambda each: each.array.__iadd__(1),
    "self.net": lambda each: setattr(each.net, "cache", 1),
    "self.net.weights": lambda each: each.net.weights.__setitem__(3, 1),
    "self.rng": lambda each: each.rng.random(),
    "self.random": lambda each: each.random.random(),
}


@pytest.mark.parametrize("path", WRITES)
def test_a_write_into_an_object_is_found_and_named(path: str) -> None:
    model: Any = Loaded()
    loaded = LoadedObjects(model)
    WRITES[path](model)
    assert [found for found, _ in loaded.changed()] == [path]


def test_reading_and_assigning_attributes_changes_no_object() -> None:
    model: Any = Loaded()
    loaded = LoadedObjects(model)
    model.call()
    model.count += 1
    model.history = [*model.history, 3]
    model.array = model.array + 1
    model.new = []
    assert loaded.changed() == []


def test_tensors_and_modules_of_torch_are_compared() -> None:
    torch = pytest.importorskip("torch")
    model: Any = Loaded()
    model.net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)).eval()
    loaded = LoadedObjects(model)
    model.net(torch.zeros(3, 2))
    assert loaded.changed() == []
    # In training it keeps the means of what it was given.
    model.net[1].training = True
    model.net(torch.zeros(3, 2))
    assert any("running_mean" in path for path, _ in loaded.changed())


class Picture(Output):
    main_video: Video


class Keeping(ReactorPipeline):
    state: InputState
    output: Picture
    sessions_per_model = 2

    def load(self, config: dict[str, Any]) -> None:  # noqa: ARG002
        self.history: list[int] = []

    def inference(self) -> Iterator[Any]:
        while True:
            self.history.append(1)
            yield np.full((4, 6, 3), 100, np.uint8)


class Camera(Input):
    camera: Video


class Watching(Keeping):
    """Changes only what the runtime has given it."""

    input: Camera

    def inference(self) -> Iterator[Any]:
        while True:
            frames = self.input.camera.try_read()
            yield np.full((4, 6, 3), 100 if frames else 50, np.uint8)


class Alone(Keeping):
    sessions_per_model = 1


def test_check_names_the_attribute_of_a_model_that_sessions_share() -> None:
    contract = Contract.of(Keeping)
    _, (warning,), _ = rehearse(contract, {}, Path(__file__).parent, on_step_limit=print)
    assert warning.message == "self.history: a session has changed this list of load(), which all sessions share"
    assert warning.hint == HINT
    assert warning.where is not None
    assert rehearse(Contract.of(Watching), {}, Path(__file__).parent, on_step_limit=print)[1] == []
    assert rehearse(Contract.of(Alone), {}, Path(__file__).parent, on_step_limit=print)[1] == []
