"""The programs of the two reference pages on pipelines, in each way of writing them."""

import inspect
import itertools
import sys
import types
from typing import Any

import numpy as np
import pytest

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.styles.pipeline import is_idle
from tests.reference import GENERATOR, WALK_THROUGH


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
def test_the_model_that_is_walked_through_runs(way: dict[str, bool], monkeypatch: pytest.MonkeyPatch) -> None:
    cls = run(WALK_THROUGH, monkeypatch, **way)
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

    model._reactor_runtime = Run()
    model.load({})
    model.state = contract.state.fresh()
    generator = model.inference()
    assert inspect.isasyncgen(generator)
    assert is_idle(await anext(generator))
    model.state.prompt = "cat"
    assert is_idle(await anext(generator))
    output: Any = await anext(generator)
    assert output.main_video.shape == (2, 48, 64, 3)
    assert np.all(output.main_video == 30)
    assert [message.step for message in sent] == [0]
    await generator.aclose()
