"""Input buffers and the styles that read them, where the author forgot or overdid something."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from reactor_runtime.interface import BufferClosed, Input, ReactorModel, Video, connected, disconnected
from tests.engine.rig import Picture, Plain, Rig, frame
from tests.fakes import settle


class Camera(Input):
    camera: Video


class Filter(ReactorModel):
    """The loop of the page on input tracks; each test adds hooks."""

    input: Camera
    output: Picture
    fps = 10

    async def run(self) -> None:
        while True:
            await self.connected.wait()
            try:
                while self.connected.is_set():
                    [frame] = await self.input.camera.read(1)
                    await self.emit(Picture(video=frame))
            except BufferClosed:
                pass


class Polling(Filter):
    async def run(self) -> None:
        while True:
            await self.connected.wait()
            try:
                while self.connected.is_set():
                    frames = self.input.camera.try_read()
                    if frames is None:
                        await asyncio.sleep(0.01)
                    else:
                        await self.emit(Picture(video=frames[0]))
            except BufferClosed:
                pass


@pytest.mark.parametrize("base", [Filter, Polling], ids=["read", "try_read"])
async def test_a_forgotten_reset_gives_a_warning_and_blocks_nothing(
    base: type[Filter], caplog: pytest.LogCaptureFixture
) -> None:
    class Closing(base):  # type: ignore[valid-type, misc]  # a class all the same
        @disconnected
        async def part(self) -> None:
            self.input.camera.close()

    rig = Rig(Closing)
    rig.driver.start()
    async with rig.running():
        pass
    assert not caplog.records
    async with rig.running():
        await settle()
    assert [record.getMessage() for record in caplog.records] == [
        "inputs are closed; reset() them in @connected tracks=camera"
    ]
    await rig.driver.aclose()


async def test_reset_in_connected_is_no_reason_to_warn(caplog: pytest.LogCaptureFixture) -> None:
    class Resetting(Filter):
        @connected
        async def greet(self) -> None:
            self.input.camera.reset()

        @disconnected
        async def part(self) -> None:
            self.input.camera.close()

    rig = Rig(Resetting)
    rig.driver.start()
    for _ in range(3):
        async with rig.running():
            pass
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    await rig.driver.aclose()


@pytest.mark.parametrize("sessions_before", [0, 1])
async def test_a_frame_sent_while_connected_runs_survives_the_reset_in_it(sessions_before: int) -> None:
    came = asyncio.Event()

    class Greeting(Filter):
        @connected
        async def greet(self) -> None:
            await came.wait()
            self.input.camera.reset()

        @disconnected
        async def part(self) -> None:
            self.input.camera.close()

    rig = Rig(Greeting)
    rig.driver.start()
    for _ in range(sessions_before):
        came.set()
        async with rig.running():
            came.clear()
    async with rig.running():
        rig.inputs.push_array("camera", frame(7))
        came.set()
        await settle()
        assert [shown.red for shown in rig.sink.shown] == [7]
    await rig.driver.aclose()


async def test_pipeline_that_reads_on_after_its_client_left_is_ended() -> None:
    class Stubborn(Plain):
        camera: Camera

        async def inference(self) -> AsyncIterator[Any]:
            while True:
                try:
                    yield (await self.camera.camera.read())[0]
                except BufferClosed:
                    self.log.append("again")

    rig = Rig(Stubborn)
    rig.start()
    await settle()
    stopping = asyncio.create_task(rig.stop())
    await rig.play(0.6)
    await stopping
    assert rig.model.log
