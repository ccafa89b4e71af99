"""Input buffers and the styles that read them, where the author forgot or overdid something."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest

from reactor_runtime.authoring.tracks.backlog import CAPACITY
from reactor_runtime.engine.served import Version
from reactor_runtime.interface import (
    Audio,
    BufferClosed,
    Input,
    InputState,
    Output,
    ReactorModel,
    ReactorPipeline,
    ReadMode,
    Video,
    connected,
    disconnected,
)
from reactor_runtime.ipc.messages import InputLost
from reactor_runtime.media import wav
from tests.engine.rig import Picture, Plain, Rig, frame
from tests.fakes import settle
from tests.timeouts import TIMEOUT_S


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


class Microphone(Input):
    microphone: Audio


class Voice(Output):
    voice: Audio


class Listening(ReactorPipeline):
    """Read one piece a step, as sound comes twice as fast."""

    state: InputState
    input: Microphone
    output: Voice
    mode = ReadMode.FIFO

    async def inference(self) -> AsyncIterator[Any]:
        while True:
            pieces = await self.input.microphone.read(mode=self.mode)
            yield Voice(voice=pieces[0])


async def test_an_object_in_place_of_an_input_stays_on_its_model_and_a_copy_gets_an_input() -> None:
    rig, other = Rig(Polling), object()
    rig.model.input = other
    copied = Version(rig.model, rig.contract, {}).copied()
    for _ in range(2):
        rig.inputs.attach(rig.model, rig.contract)
        assert rig.model.input is other
    copy: Any = copied.model
    rig.inputs.attach(copy, rig.contract)
    assert isinstance(copy.input, Camera)


PIECE = wav.encode(np.zeros((1, 960), np.int16), 48_000)


async def test_a_model_that_reads_sound_too_slowly_is_warned_at_its_line_and_the_loss_is_counted() -> None:
    for mode, fix in ((ReadMode.FIFO, "ReadMode.ALL"), (ReadMode.ALL, "read more often")):
        rig = Rig(type("Listening", (Listening,), {"mode": mode}))
        async with rig.running():
            await rig.play(0.1)
            for _ in range(CAPACITY + 6):
                rig.inputs.push(rig.session.id, "microphone", PIECE)
            async with asyncio.timeout(TIMEOUT_S):
                while not rig.warnings:
                    await rig.play(0.02)
        assert sum(lost.count for lost in rig.sink.of(InputLost)) == 6
        (warning,) = rig.warnings
        assert warning.where is not None
        assert "await self.input.microphone.read(mode=self.mode)" in warning.where.text
        assert "pieces of sound were dropped before the model read them" in warning.message
        assert fix in warning.hint


async def test_sound_that_is_dropped_before_the_first_read_of_a_model_that_reads_in_order_is_counted() -> None:
    begin = asyncio.Event()

    class SlowStart(Listening):
        async def inference(self) -> AsyncIterator[Any]:
            await begin.wait()
            async for output in super().inference():
                yield output

    rig = Rig(SlowStart)
    async with rig.running():
        for _ in range(CAPACITY + 6):
            rig.inputs.push(rig.session.id, "microphone", PIECE)
        assert not rig.sink.of(InputLost)
        begin.set()
        await rig.play(0.1)
    assert sum(lost.count for lost in rig.sink.of(InputLost)) == 6
    assert len(rig.warnings) == 1


async def test_a_model_that_reads_the_newest_sound_loses_nothing() -> None:
    rig = Rig(type("Listening", (Listening,), {"mode": ReadMode.LATEST}))
    async with rig.running():
        for _ in range(CAPACITY + 6):
            rig.inputs.push(rig.session.id, "microphone", PIECE)
        await rig.play(0.1)
    assert (rig.sink.of(InputLost), rig.warnings) == ([], [])


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


class Brief(Audio):
    buffer_seconds = 0.05


class BriefInput(Input):
    voice: Brief


async def test_a_sound_track_bounds_its_buffer_in_seconds() -> None:
    class Deaf(Filter):
        input: BriefInput  # type: ignore[assignment]  # another input than the parent's

        async def run(self) -> None:
            await asyncio.Event().wait()

    rig = Rig(Deaf)
    buffer = rig.model.input.voice
    async with rig.running():
        for level in range(5):
            rig.inputs.push_array("voice", np.full((1, 960), level, np.int16))
        assert (buffer.capacity, [piece[0, 0] for piece in buffer.try_read(3)]) == (3, [2, 3, 4])
