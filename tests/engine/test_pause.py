"""A session whose controller is away: nothing more is made, events go on, and it goes on where it was."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.authoring.styles.reactor_model import ReactorModel
from reactor_runtime.interface import event
from reactor_runtime.ipc.messages import EventApplied
from tests.engine.blocks import Scripted, paint, until
from tests.engine.rig import Picture, Plain, Rig, batch, frame
from tests.fakes import settle


class Stepped(Plain):
    def inference(self) -> Iterator[Any]:
        while True:
            self.log.append("step")
            yield batch(1, 2)


class Looped(ReactorModel):
    output: Picture
    fps = 10

    @event(name="set_prompt")
    def set_prompt(self, prompt: str) -> None:
        self.prompt = prompt

    async def run(self) -> None:
        while True:
            await self.connected.wait()
            await self.emit(Picture(video=frame(1)))


@pytest.mark.parametrize("model", [Stepped, Looped])
async def test_nothing_is_made_while_the_session_is_paused(model: type[Model]) -> None:
    rig = Rig(model)
    rig.driver.start()
    async with rig.running():
        await rig.play(1.0)
        rig.session.pause(True)
        await rig.play(1.0)
        shown = len(rig.sink.shown)
        rig.event("set_prompt", 1, prompt="still heard")
        await rig.play(60.0, grain_s=1.0)
        assert len(rig.sink.shown) == shown
        assert rig.sink.of(EventApplied) == [EventApplied(rig.session.id, "c-1", 1, 1)]
        rig.session.pause(False)
        await rig.play(1.0)
        assert 10 <= len(rig.sink.shown) - shown <= 10 + 2 * rig.contract.buffer_size
        dues = [each.bundle.due for each in rig.sink.shown[shown:]]
        assert all(later - earlier > 0.09 for earlier, later in itertools.pairwise(dues)), "no burst"
    await rig.driver.aclose()


async def test_a_step_that_runs_is_finished_and_its_output_waits() -> None:
    rig = Rig(Stepped)
    async with rig.running():
        rig.session.pause(True)
        steps = len(rig.model.log)
        await rig.play(5.0)
        assert len(rig.model.log) == steps
        rig.session.pause(False)
        await rig.play(1.0)
        assert [shown.red for shown in rig.sink.shown[:6]] == [1, 2, 1, 2, 1, 2]


async def test_blocks_wait_while_the_session_is_paused() -> None:
    rig = Rig(Scripted, config={"script": paint})
    rig.start()
    await until(lambda: rig.sink.shown)
    rig.session.pause(True)
    shown = len(rig.sink.shown)
    for _ in range(shown):
        await rig.credit()
    await rig.play(5.0)
    assert len(rig.sink.shown) == shown
    rig.session.pause(False)
    await settle()
    await until(lambda: len(rig.sink.shown) > shown)
    await rig.stop()


@pytest.mark.parametrize("model", [Stepped, Looped])
async def test_a_paused_session_can_be_stopped_and_the_next_is_free(model: type[Model]) -> None:
    rig = Rig(model)
    rig.driver.start()
    async with rig.running():
        rig.session.pause(True)
        await rig.play(1.0)
    async with rig.running():
        shown = len(rig.sink.shown)
        await rig.play(1.0)
        assert len(rig.sink.shown) > shown + 5
    await rig.driver.aclose()
