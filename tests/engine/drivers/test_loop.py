"""The driver of the loop style: run() beside events and sessions."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from reactor_runtime.authoring.styles.reactor_model import ReactorModel
from reactor_runtime.interface import connected, disconnected, event
from reactor_runtime.ipc.messages import Ended, EventApplied, Started
from tests.engine.rig import Picture, Rig, batch, frame
from tests.fakes import settle


def rig_of(model: type[ReactorModel]) -> Rig:
    rig = Rig(model)
    rig.driver.start()
    return rig


class Counting(ReactorModel):
    output: Picture
    fps = 10
    buffer_size = 2

    def load(self, config: dict[str, Any]) -> None:  # noqa: ARG002
        self.level = 0
        self.log: list[str] = []

    @event(name="set_level")
    def set_level(self, level: int) -> None:
        self.level = level

    async def run(self) -> None:
        self.log.append("run")
        while True:
            await self.connected.wait()
            self.log.append("connected")
            while self.connected.is_set():
                await self.emit(Picture(video=frame(self.level)))


async def test_run_begins_before_any_client_and_continues_over_sessions() -> None:
    rig = rig_of(Counting)
    await settle()
    assert rig.model.log == ["run"]
    for _ in range(2):
        async with rig.running():
            await rig.play(0.5)
    assert rig.model.log == ["run", "connected", "connected"]
    await rig.driver.aclose()


async def test_full_queue_holds_up_run_and_no_handler() -> None:
    rig = rig_of(Counting)
    async with rig.running():
        assert len(rig.sink.shown) == 2
        rig.event("set_level", 1, level=7)
        await settle()
        assert rig.sink.of(EventApplied)
        assert len(rig.sink.shown) == 2
        await rig.play(1.0)
        assert 7 in rig.sink.reds
    await rig.driver.aclose()


async def test_connected_finishes_before_the_wait_for_it_does() -> None:
    order: list[str] = []

    class Model(Counting):
        @connected
        async def on_connect(self) -> None:
            order.append(f"connected: {self.connected.is_set()}")
            await asyncio.sleep(0)
            order.append("ready")

        @disconnected
        async def on_disconnect(self) -> None:
            order.append(f"disconnected: {self.connected.is_set()}")

        async def run(self) -> None:
            await self.connected.wait()
            order.append("run")
            await asyncio.Event().wait()

    rig = rig_of(Model)
    async with rig.running():
        await settle()
    assert order == ["connected: True", "ready", "run", "disconnected: False"]
    await rig.driver.aclose()


async def test_emit_without_a_client_raises_nothing_and_leaves_the_loop_free() -> None:
    class Model(Counting):
        async def run(self) -> None:
            while True:
                await self.emit(Picture(video=frame(1)))
                await asyncio.sleep(0)

    rig = rig_of(Model)
    await settle()
    assert not rig.sink.shown
    async with rig.running():
        assert rig.sink.shown
    await rig.driver.aclose()


@pytest.mark.parametrize("frames", [1, 4])
async def test_emit_without_a_client_takes_as_long_as_with_one(frames: int) -> None:
    class Model(Counting):
        async def run(self) -> None:
            while True:
                self.log.append("made")
                await self.emit(Picture(video=batch(*range(frames))))

    rig = rig_of(Model)
    await rig.play(8.0)
    assert len(rig.model.log) == pytest.approx(80 / frames, abs=2)
    await rig.driver.aclose()


async def test_an_emit_without_a_client_ends_when_one_connects() -> None:
    class Model(Counting):
        async def run(self) -> None:
            await self.emit(Picture(video=batch(*range(100))))
            self.log.append("back")
            await asyncio.Event().wait()

    rig = rig_of(Model)
    await rig.play(1.0)
    assert rig.model.log == []
    async with rig.running():
        assert rig.model.log == ["back"]
        assert not rig.sink.shown
    await rig.driver.aclose()


async def test_emit_with_drop_does_not_wait_without_a_client() -> None:
    class Model(Counting):
        async def run(self) -> None:
            await self.emit(Picture(video=batch(1, 2, 3, 4)), drop=True)
            self.log.append("back")
            await asyncio.Event().wait()

    rig = rig_of(Model)
    await settle()
    assert rig.model.log == ["back"]
    await rig.driver.aclose()


async def test_compute_time_moves_the_rate() -> None:
    class Model(Counting):
        async def run(self) -> None:
            await self.connected.wait()
            for _ in range(20):
                await self.emit(Picture(video=batch(1, 2)), compute_time=0.1)
            await asyncio.Event().wait()

    rig = rig_of(Model)
    async with rig.running():
        await rig.play(3.0)
        assert rig.runtime.output_buffer.fps == pytest.approx(20)
    await rig.driver.aclose()


async def test_drop_keeps_the_front_of_a_batch_and_never_waits() -> None:
    class Model(Counting):
        async def run(self) -> None:
            await self.connected.wait()
            await self.emit(Picture(video=batch(1, 2, 3, 4)), drop=True)
            self.log.append("back")
            await asyncio.Event().wait()

    rig = rig_of(Model)
    async with rig.running():
        assert rig.model.log == ["back"]
        await rig.play(1.0)
        assert rig.sink.reds == [1, 2]
    await rig.driver.aclose()


@pytest.mark.parametrize("raises", [True, False], ids=["raises", "returns"])
async def test_run_that_ends_ends_the_session_and_is_started_again(raises: bool) -> None:
    class Model(Counting):
        async def run(self) -> None:
            self.log.append("run")
            await self.connected.wait()
            if raises:
                raise ValueError("broken")

    rig = rig_of(Model)
    for sessions in (1, 2):
        rig.start()
        error = await rig.failure()
        assert isinstance(error, ValueError if raises else RuntimeError)
        assert rig.model.log == ["run"] * sessions
    assert not rig.runtime.connected.is_set()
    await rig.driver.aclose()


async def test_model_without_a_run_serves_events() -> None:
    class Model(ReactorModel):
        output: Picture

        @event(name="flash")
        async def flash(self) -> None:
            await self.emit(np.zeros((2, 2, 3), np.uint8))

    rig = rig_of(Model)
    async with rig.running():
        rig.event("flash", 1)
        await settle()
        assert len(rig.sink.shown) == 1
        assert rig.sink.of(EventApplied)
    assert rig.sink.of(Started)
    assert not rig.sink.of(Ended)
    await rig.driver.aclose()


async def test_the_end_of_run_ends_a_session_whose_handler_waits() -> None:
    class Model(Counting):
        @event(name="wait")
        async def wait(self) -> None:
            self.handling.set()
            await asyncio.Event().wait()

        async def run(self) -> None:
            self.handling = asyncio.Event()
            await self.handling.wait()
            raise ValueError("broken")

    rig = rig_of(Model)
    rig.start()
    rig.event("wait", 1)
    assert isinstance(await rig.failure(), ValueError)
    await rig.driver.aclose()


async def test_run_that_ends_while_connected_waits_ends_the_session() -> None:
    class Model(Counting):
        @connected
        async def greet(self) -> None:
            self.log.append("greeting")
            self.greeting.set()
            await asyncio.Event().wait()

        @disconnected
        def part(self) -> None:
            self.log.append("parting")

        async def run(self) -> None:
            self.greeting = asyncio.Event()
            await self.greeting.wait()
            raise ValueError("broken")

    rig = rig_of(Model)
    rig.start()
    assert isinstance(await rig.failure(), ValueError)
    assert rig.model.log == ["greeting", "parting"]
    await rig.driver.aclose()


async def test_run_that_fails_without_a_client_is_logged_and_started_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Model(Counting):
        async def run(self) -> None:
            self.log.append("run")
            if len(self.log) == 1:
                raise ValueError("too early")
            await asyncio.Event().wait()

    rig = rig_of(Model)
    await settle()
    assert [record.getMessage().split(";")[0] for record in caplog.records] == ["run() failed without a client"]
    async with rig.running():
        assert rig.model.log == ["run", "run"]
    await rig.driver.aclose()
    assert len(caplog.records) == 1
