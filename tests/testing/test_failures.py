"""Exceptions of a loop reach the test that drives it, also without a client."""

from __future__ import annotations

import asyncio

import pytest

from reactor_runtime.interface import BufferClosed, Input, Video, disconnected
from reactor_runtime.testing import Studio
from tests.testing.models import Blinker


class Camera(Input):
    camera: Video


def test_run_that_fails_before_any_client_fails_the_making_of_the_studio() -> None:
    class Early(Blinker):
        async def run(self) -> None:
            raise ZeroDivisionError("early")

    with pytest.raises(ZeroDivisionError, match="early"):
        Studio(Early)


def test_run_that_fails_between_two_clients_is_raised_while_time_passes() -> None:
    class Between(Blinker):
        async def run(self) -> None:
            await self.connected.wait()
            await asyncio.sleep(1)
            raise ZeroDivisionError("between")

    with Studio(Between) as studio:
        studio.connect()
        studio.disconnect()
        studio.run(0.5)
        with pytest.raises(ZeroDivisionError, match="between"):
            studio.run(5)
        studio.connect()


def test_forgotten_except_around_a_read_is_raised_by_disconnect() -> None:
    class Forgetful(Blinker):
        camera: Camera

        @disconnected
        def part(self) -> None:
            self.camera.camera.close()

        async def run(self) -> None:
            while True:
                await self.connected.wait()
                await self.camera.camera.read()

    with Studio(Forgetful) as studio:
        studio.connect()
        with pytest.raises(BufferClosed):
            studio.disconnect()


def test_failure_is_raised_once() -> None:
    class Late(Blinker):
        async def run(self) -> None:
            await asyncio.sleep(1)
            raise ZeroDivisionError("late")

    with Studio(Late) as studio:
        with pytest.raises(ZeroDivisionError):
            studio.run(2)
        studio.connect()
        studio.run(0.5)
        with pytest.raises(ZeroDivisionError):
            studio.run(1)
