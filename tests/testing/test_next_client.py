"""Output made for one client is not shown to the next, even if it took long to make."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from reactor_runtime.interface import connected, event
from reactor_runtime.testing import Studio
from tests.testing.models import Blinker, frame


class Slow(Blinker):
    """Take a second for each frame, with the values of its begin."""

    async def run(self) -> None:
        while True:
            await self.connected.wait()
            while self.connected.is_set():
                red = self.red
                await asyncio.sleep(1)
                await self.emit(frame(red))


def reds(studio: Studio[Any]) -> list[int]:
    return [int(shown.array.flat[0]) for shown in studio.frames if shown.array.any()]


def test_output_made_for_one_client_is_not_shown_to_the_next() -> None:
    with Studio(Slow) as studio:
        studio.connect()
        studio.send_event("set_red", red=7)
        studio.run(2.5)
        assert 7 in reds(studio)
        studio.disconnect()
        studio.clear()
        studio.connect()
        studio.send_event("set_red", red=3)
        studio.run(4)
        assert set(reds(studio)) == {3}
        assert (studio.frames[0].seq, studio.frames[0].applied) == (0, 1)


def test_loop_that_looks_for_its_client_once_loses_no_frame_of_the_next() -> None:
    class Worker(Blinker):
        async def run(self) -> None:
            self.jobs: asyncio.Queue[int] = asyncio.Queue()
            await self.connected.wait()
            while True:
                await self.emit(frame(await self.jobs.get()))

    with Studio(Worker) as studio:
        for red in (3, 4, 5):
            studio.connect()
            studio.model.jobs.put_nowait(red)
            studio.run(1)
            assert reds(studio)[-1] == red
            studio.disconnect()


def test_output_of_the_next_client_s_handlers_is_shown() -> None:
    class Eager(Blinker):
        async def run(self) -> None:
            await asyncio.Event().wait()

    class Showing(Eager):
        async def set_red(self, red: int) -> None:  # type: ignore[override]
            assert self.connected.is_set()
            await self.emit(frame(red))

    with Studio(Showing) as studio:
        for red in (3, 4, 5):
            studio.connect()
            studio.send_event("set_red", red=red)
            assert reds(studio)[-1] == red
            studio.disconnect()


class Telling(Blinker):
    """Count what is emitted since somebody came, as a loop with a memory of its own does."""

    async def run(self) -> None:
        while True:
            await self.connected.wait()
            red = 0
            while self.connected.is_set():
                red += 1
                await self.emit(frame(red))
                await self.rest()

    async def rest(self) -> None:
        await asyncio.sleep(0.5)


class TellingInTwoLoops(Telling):
    async def rest(self) -> None:
        for _ in range(5):
            if self.connected.is_set():
                await asyncio.sleep(0.1)


@pytest.mark.parametrize("model", [Telling, TellingInTwoLoops])
def test_a_loop_starts_again_for_a_client_that_came_before_it_saw_the_change(model: type[Telling]) -> None:
    with Studio(model) as studio:
        for _ in range(3):
            studio.connect()
            studio.run(2)
            assert reds(studio)[:3] == [1, 2, 3]
            studio.disconnect()
            studio.clear()


def test_loop_that_only_looks_and_never_waits_serves_every_client() -> None:
    class Polling(Blinker):
        async def run(self) -> None:
            while True:
                if self.connected.is_set():
                    await self.emit(frame(7))
                await asyncio.sleep(0.1)

    with Studio(Polling) as studio:
        for _ in range(3):
            studio.connect()
            studio.clear()
            studio.run(1)
            assert len(reds(studio)) >= 7
            studio.disconnect()


def test_connected_and_handlers_and_threads_see_their_client() -> None:
    class Looking(Blinker):
        @connected
        def greet(self) -> None:  # type: ignore[override]
            self.log.append(f"connected {self.connected.is_set()}")

        @event(name="look")
        def look(self) -> None:
            self.log.append(f"handler {self.connected.is_set()}")

        @event(name="look_there")
        async def look_there(self) -> None:
            self.log.append(f"thread {await asyncio.to_thread(self.connected.is_set)}")

    with Studio(Looking) as studio:
        for _ in range(3):
            studio.connect()
            studio.send_event("look")
            studio.send_event("look_there")
            studio.disconnect()
        assert studio.model.log == ["connected True", "handler True", "thread True", "disconnected"] * 3
