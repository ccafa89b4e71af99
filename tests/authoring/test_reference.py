"""The programs of the two reference pages about pipelines, as text, so that each way of writing them can be tried."""

import inspect
import itertools
import sys
import types
from typing import Any

import numpy as np
import pytest

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.pipeline import is_idle

GENERATED = """
from dataclasses import dataclass
from typing import Any
import numpy as np
from reactor_runtime.interface import InputField, InputState, Output, ReactorPipeline, Video

@dataclass
class MyOutput(Output):
    main_video: Video


@dataclass
class MyState(InputState):
    brightness: float = InputField(default=1.0, ge=0.0, le=2.0, description="Brightness multiplier")


class MyModel(ReactorPipeline):
    state: MyState
    buffer_size = 8

    def load(self, config: dict[str, Any]) -> None:
        self.width = config.get("width", 640)
        self.height = config.get("height", 480)
        self.chunk_size = config.get("chunk_size", 4)

    def inference(self):
        frame_idx = 0
        while True:
            batch, frame_idx = render_batch(
                self.width, self.height, self.chunk_size,
                frame_idx, self.state.brightness,
            )
            yield MyOutput(main_video=batch)

def render_batch(width, height, chunk_size, start_idx, brightness):
    return np.full((chunk_size, height, width, 3), int(100 * brightness), np.uint8), start_idx + chunk_size
"""

GENERATOR = """
from dataclasses import dataclass
from reactor_runtime.interface import Idle, InputState, ModelMessage, Output, ReactorPipeline, Video

@dataclass
class MyOutput(Output):
    main_video: Video

@dataclass
class MyState(InputState):
    prompt: str = ""

@dataclass
class Progress(ModelMessage):
    step: int

class MyModel(ReactorPipeline):
    state: MyState
    _step = 0

    async def inference(self):
        while not self.state.prompt:
            yield Idle
        while True:
            await self.send(Progress(step=self._step))
            self._step += 1
            yield MyOutput(main_video=self.state.prompt)
"""


def run(program: str, monkeypatch: pytest.MonkeyPatch, *, decorated: bool, postponed: bool, inside: bool) -> Any:
    """Execute a program as a module, in the way of writing that is asked for, and return its model class."""
    text = program if decorated else program.replace("@dataclass\n", "")
    if inside:
        indented = "\n".join(f"    {line}" for line in text.splitlines())
        text = f"def define():\n{indented}\n    return MyModel\nMyModel = define()\n"
    if postponed:
        text = f"from __future__ import annotations\n{text}"
    module = types.ModuleType("reference_page")
    monkeypatch.setitem(sys.modules, "reference_page", module)
    exec(compile(text, "reference_page.py", "exec", dont_inherit=True), vars(module))
    return vars(module)["MyModel"]


WAYS = [
    pytest.param(
        dict(zip(("decorated", "postponed", "inside"), way, strict=True)),
        id=" ".join(name for name, on in zip(("decorated", "postponed", "inside"), way, strict=True) if on) or "plain",
    )
    for way in itertools.product((False, True), repeat=3)
]


@pytest.mark.parametrize("way", WAYS)
def test_generated_model_runs(way: dict[str, bool], monkeypatch: pytest.MonkeyPatch) -> None:
    cls = run(GENERATED, monkeypatch, **way)
    contract = Contract.of(cls)
    assert [track.name for track in contract.tracks] == ["main_video"]
    assert contract.buffer_size == 8
    assert contract.state is not None
    model = cls()
    model.load({"width": 8, "height": 6})
    model.state = contract.state.fresh()
    generator = model.inference()
    assert next(generator).main_video.shape == (4, 6, 8, 3)
    model.state.brightness = contract.events["set_brightness"].validate('{"brightness": 2}')["brightness"]
    assert np.all(next(generator).main_video == 200)


@pytest.mark.parametrize("way", WAYS)
async def test_async_model_with_messages_runs(way: dict[str, bool], monkeypatch: pytest.MonkeyPatch) -> None:
    cls = run(GENERATOR, monkeypatch, **way)
    contract = Contract.of(cls)
    assert list(contract.messages) == ["progress"]
    assert contract.state is not None
    model = cls()
    sent: list[Any] = []

    class Run:
        send = staticmethod(sent.append)

    model._runtime = Run()
    model.state = contract.state.fresh()
    generator = model.inference()
    assert inspect.isasyncgen(generator)
    assert is_idle(await anext(generator))
    model.state.prompt = "cat"
    output: Any = await anext(generator)
    assert output.main_video == "cat"
    assert [message.step for message in sent] == [0]
    await generator.aclose()
