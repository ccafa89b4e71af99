"""What was made for one client is not shown to the next, however long it took."""

from __future__ import annotations

import asyncio
from typing import Any

from reactor_runtime.testing import Studio
from tests.testing.models import Blinker, frame


class Slow(Blinker):
    """Take a second for each frame, of what its client wanted when that began."""

    async def run(self) -> None:
        while True:
            await self.connected.wait()
            while self.connected.is_set():
                red = self.red
                await asyncio.sleep(1)
                await self.emit(frame(red))


def reds(studio: Studio[Any]) -> list[int]:
    return [int(shown.array.flat[0]) for shown in studio.frames if shown.array.any()]


def test_what_was_made_for_one_client_is_not_shown_to_the_next() -> None:
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


def test_handlers_of_the_next_client_show_what_they_want() -> None:
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
