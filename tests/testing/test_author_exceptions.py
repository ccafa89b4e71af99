"""Any exception of the author's code, anywhere: it is reported, and the next session is served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import pytest

from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.interface import (
    InputState,
    Output,
    ReactorModel,
    ReactorPipeline,
    Video,
    connected,
    disconnected,
    event,
)
from reactor_runtime.testing import Studio

KINDS = [
    Exception,
    BaseException,
    GeneratorExit,
    StopAsyncIteration,
    StopIteration,
    KeyboardInterrupt,
    SystemExit,
    asyncio.CancelledError,
]
# In the error that such an exception becomes.
NAMED = {SystemExit: "xit", asyncio.CancelledError: "ancelled"}
PLACES = ["step", "connected", "disconnected", "handler"]


class Picture(Output):
    video: Video


FRAME = np.full((4, 4, 3), 9, np.uint8)


class Failing:
    """Raise an exception in one place."""

    kind: type[BaseException] | None = None
    place = ""

    def pass_through(self, place: str) -> None:
        if self.kind is not None and place == self.place:
            raise self.kind("x")


class Pipeline(Failing, ReactorPipeline):
    state: InputState
    output: Picture
    fps = 10

    @connected
    def connect(self) -> None:
        self.pass_through("connected")

    @disconnected
    def disconnect(self) -> None:
        self.pass_through("disconnected")

    @event(name="touch")
    def touch(self) -> None:
        self.pass_through("handler")

    def inference(self) -> Iterator[Any]:
        while True:
            self.pass_through("step")
            yield FRAME


class AsyncPipeline(Failing, ReactorPipeline):
    state: InputState
    output: Picture
    fps = 10

    @connected
    async def connect(self) -> None:
        self.pass_through("connected")

    @disconnected
    async def disconnect(self) -> None:
        self.pass_through("disconnected")

    @event(name="touch")
    async def touch(self) -> None:
        self.pass_through("handler")

    async def inference(self) -> AsyncIterator[Any]:
        while True:
            self.pass_through("step")
            yield FRAME


class Loop(Failing, ReactorModel):
    output: Picture
    fps = 10

    @connected
    async def connect(self) -> None:
        self.pass_through("connected")

    @disconnected
    async def disconnect(self) -> None:
        self.pass_through("disconnected")

    @event(name="touch")
    async def touch(self) -> None:
        self.pass_through("handler")

    async def run(self) -> None:
        while True:
            await self.connected.wait()
            self.pass_through("step")
            await self.emit(FRAME)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("style", [Pipeline, AsyncPipeline, Loop])
def test_an_exception_is_reported_and_the_next_session_is_served(
    style: type[Model], place: str, kind: type[BaseException]
) -> None:
    raised: list[BaseException] = []

    def attempt(action: Any) -> None:
        try:
            action()
        # An author may raise any.
        except BaseException as error:  # noqa: BLE001
            raised.append(error)

    with Studio(style) as studio:
        model: Any = studio.model
        model.kind, model.place = kind, place
        for action in (
            studio.connect,
            lambda: studio.run(0.3),
            lambda: studio.send_event("touch"),
            studio.disconnect,
        ):
            attempt(action)
        assert NAMED.get(kind, kind.__name__) in repr(raised[0])
        model.kind = None
        studio.connect()
        studio.clear()
        studio.run(0.5)
        studio.send_event("touch")
        assert studio.frames
        studio.disconnect()
