"""Two models in one process that name everything alike: neither sees anything of the other."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.testing import Studio
from tests.testing import pages

PIPELINE = """
from reactor_runtime.interface import Input, InputField, InputState, ModelMessage, Output, ReactorPipeline, Video, event
import numpy as np

class MyOutput(Output):
    main_video: Video

class MyInput(Input):
    webcam: Video

class MyState(InputState):
    level: int = InputField(default=1, ge=0, le=9)

class Said(ModelMessage):
    by: str

class MyModel(ReactorPipeline):
    state: MyState
    input: MyInput
    fps = 10
    who = "first"

    @event(name="say")
    def say(self):
        return Said(by=self.who)

    def paint(self):
        return self.state.level

    def inference(self):
        while True:
            frames = self.input.webcam.try_read()
            level = self.paint() if frames is None else frames[0].flat[0]
            yield MyOutput(main_video=np.full((2, 2, 3), level, np.uint8))
"""

STRANGER = (
    PIPELINE.replace("ge=0, le=9", "ge=100, le=200")
    .replace("default=1", "default=100")
    .replace('"first"', '"stranger"')
)

CHILD = """
from first import *
from first import MyModel as Parent, MyState as ParentState

class MyState(ParentState):
    level: int = InputField(default=50, ge=50, le=60)
    more: str = "more"

class Extra(Output):
    depth: Video

class MyModel(Parent):
    state: MyState
    who = "child"

    @event(name="add")
    def add(self):
        self.state.level += 1
"""

LOOP = """
from reactor_runtime.interface import Input, ModelMessage, Output, ReactorModel, Video, event
import asyncio
import numpy as np

class MyOutput(Output):
    main_video: Video

class MyInput(Input):
    webcam: Video

class Said(ModelMessage):
    loop: bool

class MyModel(ReactorModel):
    input: MyInput
    fps = 10
    level = 220

    @event(name="set_level")
    def set_level(self, level: int):
        self.level = level

    @event(name="say")
    def say(self):
        return Said(loop=True)

    async def run(self):
        while True:
            await self.connected.wait()
            while self.connected.is_set():
                await self.emit(np.full((2, 2, 3), self.level, np.uint8))
"""


FRESH = {"first": 1, "stranger": 100, "child": 50, "loop": 220}
WANTED = {"first": 5, "stranger": 150, "child": 55, "loop": 230}


def shown(studio: Studio[Any]) -> int:
    """Pass some time; return the value of the last frame."""
    studio.run(0.5)
    studio.run(0.5)
    return int(studio.frames[-1].array.flat[0])


@pytest.fixture
def models() -> Iterator[dict[str, Any]]:
    with contextlib.ExitStack() as stack:
        programs = {"first": PIPELINE, "stranger": STRANGER, "child": CHILD, "loop": LOOP}
        yield {name: stack.enter_context(pages.defined(program, name)) for name, program in programs.items()}


def test_a_contract_has_only_its_own_declarations(models: dict[str, Any]) -> None:
    contracts = {name: Contract.of(model) for name, model in models.items()}
    tracks = {name: {track.name for track in contract.tracks} for name, contract in contracts.items()}
    plain = {"main_video", "webcam"}
    assert tracks == {"first": plain, "stranger": plain, "child": plain | {"depth"}, "loop": plain}
    events = {name: list(contract.events) for name, contract in contracts.items()}
    assert events.pop("child") == ["set_level", "set_more", "say", "add"]
    assert list(events.values()) == [["set_level", "say"]] * 3
    said = {name: contract.messages["said"] for name, contract in contracts.items()}
    assert said["first"] is said["child"]
    assert len({*said.values()}) == 3


@pytest.mark.parametrize("pair", [*itertools.product(FRESH, FRESH)], ids="-".join)
def test_two_at_a_time_do_not_meet(models: dict[str, Any], pair: tuple[str, str]) -> None:
    one, other = pair
    meet(one, models[one], other, models[other])


def meet(one: str, first: type[Any], other: str, second: type[Any]) -> None:
    with Studio(first) as studio, Studio(second) as beside:
        studio.connect()
        beside.connect()
        assert (shown(studio), shown(beside)) == (FRESH[one], FRESH[other])
        studio.send_event("set_level", level=WANTED[one])
        assert (shown(studio), shown(beside)) == (WANTED[one], FRESH[other])
        beside.disconnect()
        assert shown(studio) == WANTED[one]
        said = studio.send_event("say")
        assert said is not None
        assert said.data == ({"loop": True} if one == "loop" else {"by": one})
        assert studio.model.input.webcam is not beside.model.input.webcam
        assert not beside.messages
