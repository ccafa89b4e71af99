"""The input buffer under any order of calls with any number of readers waiting: each gets what a list would give it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from reactor_runtime import BufferClosed, ReadMode
from tests.authoring.bench import Bench, outcome
from tests.fakes import settle

CAPACITY = 5
counts_st = st.integers(1, CAPACITY)
modes_st = st.sampled_from(ReadMode)


@dataclass
class Waiting:
    task: asyncio.Task[list[int]]
    n: int
    mode: ReadMode


class Buffers(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.bench = Bench(capacity=CAPACITY)
        self.items: list[int] = []
        self.waiting: list[Waiting] = []
        self.closed = False
        self.received = 0

    def teardown(self) -> None:
        self.runner.close()

    @rule(count=counts_st, encoded=st.booleans())
    def push(self, count: int, encoded: bool) -> None:
        for _ in range(count):
            number = self.received + 1
            (self.bench.push_encoded if encoded else self.bench.push)(number)
            if not self.closed:
                self.received = number
                self.items = [*self.items, number][-CAPACITY:]
            self.turn()

    @rule(n=counts_st, mode=modes_st)
    def read(self, n: int, mode: ReadMode) -> None:
        self.waiting.append(Waiting(self.runner.run(self.bench.waiting(n, mode=mode)), n, mode))
        self.turn()

    @rule(n=counts_st, mode=modes_st)
    def try_read(self, n: int, mode: ReadMode) -> None:
        if self.closed:
            try:
                self.bench.buffer.try_read(n, mode)
            except BufferClosed:
                return
            raise AssertionError("a closed buffer gave something")
        expected = self.taken(n, mode) if len(self.items) >= n else None
        assert self.bench.buffer.try_read(n, mode) == expected

    @rule(pick=st.integers(0))
    def cancel(self, pick: int) -> None:
        if self.waiting:
            waiting = self.waiting.pop(pick % len(self.waiting))
            waiting.task.cancel()
            assert self.runner.run(outcome(waiting.task)) == "cancelled"
            self.turn()

    @rule()
    def close(self) -> None:
        self.bench.buffer.close()
        self.closed = True
        self.turn()

    @rule()
    def reset(self) -> None:
        self.bench.buffer.reset()
        self.closed, self.items = False, []
        self.turn()

    @rule()
    def clear(self) -> None:
        self.bench.buffer.clear()
        self.items = []
        self.turn()

    @rule()
    def interrupt(self) -> None:
        self.bench.buffer.interrupt()
        for waiting in self.waiting:
            assert self.runner.run(outcome(waiting.task)) == "BufferClosed"
        self.waiting.clear()

    @invariant()
    def it_is_the_list(self) -> None:
        buffer = self.bench.buffer
        assert (buffer.available, buffer.closed, buffer.total_received) == (len(self.items), self.closed, self.received)
        assert not any(waiting.task.done() for waiting in self.waiting)

    def turn(self) -> None:
        """Let everybody go on who can, and see that the first in line got what was there, or the end."""
        self.runner.run(self._work())
        while self.waiting and (self.closed or len(self.items) >= self.waiting[0].n):
            first = self.waiting.pop(0)
            expected = self.taken(first.n, first.mode) if len(self.items) >= first.n else "BufferClosed"
            assert first.task.done(), f"not told: {expected}"
            assert self.runner.run(outcome(first.task)) == expected

    def taken(self, n: int, mode: ReadMode) -> list[int]:
        taken = self.items[-n:] if mode is ReadMode.LATEST else self.items[:n]
        self.items = [] if mode is ReadMode.LATEST else self.items[n:]
        return taken

    async def _work(self) -> None:
        await settle()
        while self.bench.work:
            self.bench.work_once()
            await settle()


TestBuffers = Buffers.TestCase
TestBuffers.settings = settings(max_examples=300)
