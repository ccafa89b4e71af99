"""Tensors on their way from `yield` and `emit` to the sink."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from reactor_runtime.frames import to_frames
from reactor_runtime.interface import Audio, Output, ReactorModel, ReactorPipeline, Video
from tests.engine.rig import Bright, Picture, Plain, Rig, log, rig_of
from tests.fakes import FakeClock
from tests.torched import DEVICES, torch


class Clip(Output):
    video: Video
    audio: Audio


def pictures(*reds: int, device: str = "cpu") -> Any:
    """Make a batch as models do, the channels first."""
    return torch.tensor(reds, dtype=torch.uint8, device=device).reshape(-1, 1, 1, 1).expand(-1, 3, 2, 2)


@pytest.mark.parametrize("device", DEVICES)
async def test_a_tensor_is_split_into_frames_and_sound(device: str) -> None:
    class Playing(ReactorPipeline):
        state: Bright
        output: Clip

        def inference(self) -> Iterator[Any]:
            yield Clip(
                video=pictures(1, 2, device=device).permute(0, 2, 3, 1),
                audio=torch.arange(10, dtype=torch.int16, device=device),
            )

    rig = Rig(Playing)
    async with rig.running():
        await rig.play(0.01)
        first, second = (shown.bundle.pieces for shown in rig.sink.shown[:2])
    assert [np.unique(np.asarray(video.payload)).tolist() for video, _ in (first, second)] == [[1], [2]]
    assert [np.asarray(sound.payload).tolist() for _, sound in (first, second)] == [
        [[0, 1, 2, 3, 4]],
        [[5, 6, 7, 8, 9]],
    ]


@pytest.mark.parametrize("device", DEVICES)
async def test_one_tensor_may_be_used_for_every_frame(device: str) -> None:
    class Refilling(Plain):
        def inference(self) -> Iterator[Any]:
            canvas = torch.zeros(2, 2, 3, dtype=torch.uint8, device=device)
            while True:
                yield canvas
                canvas += 1

    rig = rig_of(Refilling)
    async with rig.running():
        await rig.play(0.5)
        assert rig.sink.reds[:5] == [0, 1, 2, 3, 4]


async def test_a_loop_emits_tensors() -> None:
    class Emitting(ReactorModel):
        output: Picture

        async def run(self) -> None:
            await self.connected.wait()
            await self.emit(Picture(video=pictures(5, 6).permute(0, 2, 3, 1)))
            await self.emit(to_frames(torch.ones(3, 2, 2), "CHW"))
            await asyncio.Event().wait()

    rig = Rig(Emitting)
    rig.driver.start()
    async with rig.running():
        await rig.play(0.5)
        assert rig.sink.reds[:3] == [5, 6, 255]
    await rig.driver.aclose()


async def test_floats_are_refused_at_the_yield_with_the_call_to_make() -> None:
    class Wrong(Plain):
        def inference(self) -> Iterator[Any]:
            x = torch.ones(1, 3, 2, 4, 4) * 0.2
            try:
                yield x
            except TypeError as error:
                self.log.append(str(error))
                _, _, call = str(error).partition("use reactor_runtime.frames.")
                yield eval(call, {"x": x, "to_frames": to_frames})

    rig = rig_of(Wrong)
    async with rig.running():
        await rig.play(0.1)
        assert rig.sink.reds[:2] == [51, 51]
    assert log(rig)[0] == (
        "video: got torch.float32 (1, 3, 2, 4, 4) from 0.2 to 0.2; frames are uint8 0..255: "
        'use reactor_runtime.frames.to_frames(x, layout="BCTHW", value_range=(0, 1))'
    )


async def test_work_still_running_on_a_device_belongs_to_the_step() -> None:
    class Late(Output):
        """Its picture is there some time after it was asked for, as a GPU's is."""

        video: Video

        def __getattribute__(self, name: str) -> Any:
            if name == "video":
                clock.spend(0.05)
            return super().__getattribute__(name)

    class Computing(ReactorPipeline):
        state: Bright
        output: Late

        def inference(self) -> Iterator[Any]:
            while True:
                clock.spend(0.01)
                yield Late(video=np.zeros((2, 2, 3), np.uint8))

    rig = Rig(Computing)
    clock: FakeClock = rig.clock
    async with rig.running():
        await rig.play(3)
        last = rig.sink.shown[-1].bundle
    assert last.step_s == pytest.approx(0.06)
    assert 1 / last.interval_s == pytest.approx(1 / 0.06, rel=0.05)
