"""An input buffer with a worker that runs one job per call, and records of its callbacks."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType

from reactor_runtime import ReadMode
from reactor_runtime.authoring.tracks.backlog import Item
from reactor_runtime.authoring.tracks.input_buffer import InputBuffer, WaitTimer
from tests.fakes import FakeClock, settle
from tests.timeouts import TIMEOUT_S


@dataclass
class Bench:
    """Hold a buffer of numbers on a fake clock."""

    capacity: int = 128
    clock: FakeClock = field(default_factory=FakeClock)
    work: deque[Callable[[], None]] = field(default_factory=deque)
    decoded: list[int] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)
    announced: int = 0
    # The mode of each late read, and the function that made it.
    late: list[tuple[ReadMode, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.waits = WaitTimer(self.clock)
        self.buffer: InputBuffer[int] = InputBuffer(
            self.clock,
            self.work.append,
            waits=self.waits,
            on_bad=lambda _, error: self.bad.append(str(error)),
            on_available=self._announce,
            on_late_read=lambda mode, frame: self.late.append((mode, _caller(frame))),
            capacity=self.capacity,
        )

    def push(self, *numbers: int) -> None:
        for number in numbers:
            self.buffer.push(Item(number))

    def push_encoded(self, *numbers: int) -> None:
        """Push bytes; a negative number can't be decoded."""
        for number in numbers:
            self.buffer.push(Item.encoded(str(number).encode(), self._decode))

    def work_once(self) -> None:
        self.work.popleft()()

    async def waiting(
        self, n: int = 1, timeout: float | None = None, mode: ReadMode = ReadMode.LATEST
    ) -> asyncio.Task[list[int]]:
        task = asyncio.create_task(self.buffer.read(n, timeout, mode))
        await settle()
        return task

    def _decode(self, data: bytes) -> int:
        number = int(data)
        self.decoded.append(number)
        if number < 0:
            raise ValueError(f"bad {number}")
        return number

    def _announce(self) -> None:
        self.announced += 1


def _caller(frame: FrameType) -> str:
    assert frame.f_back is not None
    return frame.f_back.f_code.co_name


async def outcome(task: asyncio.Task[list[int]]) -> list[int] | str:
    """Wait for a read and return its items or the name of its exception."""
    await asyncio.wait([task], timeout=TIMEOUT_S)
    assert task.done()
    error = None if task.cancelled() else task.exception()
    return "cancelled" if task.cancelled() else task.result() if error is None else type(error).__name__
