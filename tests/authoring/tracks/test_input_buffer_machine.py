"""Properties of the input buffer: any order of calls, with any number of waiting readers, behaves as a list."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from reactor_runtime import BufferClosed, ReadMode
from tests.authoring.tracks.bench import Bench, outcome
from tests.fakes import settle

Step = tuple[str, int, ReadMode]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["push", "push_bad", "read", "try_read", "cancelled_read", "close", "reset", "clear"]),
        st.integers(1, 5),
        st.sampled_from(ReadMode),
    ),
    max_size=40,
)


def split(items: list[int], n: int, mode: ReadMode) -> tuple[list[int], list[int]]:
    """Return what a read of n takes of the items, and what it leaves."""
    match mode:
        case ReadMode.LATEST:
            return items[-n:], []
        case ReadMode.FIFO:
            return items[:n], items[n:]
        case ReadMode.ALL:
            return items, []


@dataclass
class Model:
    """Model a buffer of capacity 5 as a list."""

    items: list[int] = field(default_factory=list)
    closed: bool = False
    received: int = 0
    next_number: int = 1

    def push(self, bad: bool) -> int:
        number = -self.next_number if bad else self.next_number
        self.next_number += 1
        if not self.closed:
            self.received += 1
            self.items = [*self.items, number][-5:]
        return number

    def read(self, n: int, mode: ReadMode) -> list[int] | None:
        """Remove n good items; drop bad ones among those that would be taken."""
        while len(self.items) >= n:
            wanted, rest = split(self.items, n, mode)
            if all(number > 0 for number in wanted):
                self.items = rest
                return wanted
            self.items = [number for number in self.items if number > 0 or number not in wanted]
        return None


@given(STEPS)
def test_any_sequence_of_calls_behaves_like_a_list(steps: list[Step]) -> None:
    async def play() -> None:
        bench, model = Bench(capacity=5), Model()
        for action, n, mode in steps:
            await play_step(bench, model, action, n, mode)
            while bench.work:
                bench.work_once()
            assert (bench.buffer.available, bench.buffer.closed) == (len(model.items), model.closed)
            assert bench.buffer.total_received == model.received

    asyncio.run(play())


async def play_step(bench: Bench, model: Model, action: str, n: int, mode: ReadMode) -> None:
    match action:
        case "push" | "push_bad":
            number = model.push(action == "push_bad")
            if number % 3 and number > 0:
                bench.push(number)
            else:
                bench.push_encoded(number)
                forget_bad_ahead(bench, model)
        case "close" | "reset" | "clear":
            {"close": bench.buffer.close, "reset": bench.buffer.reset, "clear": bench.buffer.clear}[action]()
            model.items = model.items if action == "close" else []
            model.closed = action == "close" or (action == "clear" and model.closed)
            model.received = 0 if action == "reset" else model.received
        case "try_read":
            if model.closed:
                with pytest.raises(BufferClosed):
                    bench.buffer.try_read(n, mode)
            else:
                assert bench.buffer.try_read(n, mode) == model.read(n, mode)
        case "cancelled_read":
            task = await bench.waiting(n, mode=mode)
            done = task.done()
            task.cancel()
            got = await outcome(task)
            assert not done or got == "BufferClosed" or got == model.read(n, mode)
        case "read":
            await play_read(bench, model, n, mode)


async def play_read(bench: Bench, model: Model, n: int, mode: ReadMode) -> None:
    task = await bench.waiting(n, timeout=0, mode=mode)
    while bench.work:
        bench.work_once()
        await settle()
    expected = model.read(n, mode)
    if expected is None:
        assert await outcome(task) == ("BufferClosed" if model.closed else "TimeoutError")
    else:
        assert await outcome(task) == expected


def forget_bad_ahead(bench: Bench, model: Model) -> None:
    """Decode ahead, as a polled buffer does, and drop bad items from the model."""
    while bench.work:
        bench.work_once()
        model.items = [number for number in model.items if number > 0 or f"bad {number}" not in bench.bad]


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
        self.received = self.numbers = 0

    def teardown(self) -> None:
        self.runner.close()

    @rule(count=counts_st, encoded=st.booleans())
    def push(self, count: int, encoded: bool) -> None:
        for _ in range(count):
            self.numbers = number = self.numbers + 1
            (self.bench.push_encoded if encoded else self.bench.push)(number)
            if not self.closed:
                self.received += 1
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
            raise AssertionError("a closed buffer returned items")
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
        self.closed, self.items, self.received = False, [], 0
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
            assert self.runner.run(outcome(waiting.task)) == "ReadInterrupted"
        self.waiting.clear()

    @invariant()
    def it_is_the_list(self) -> None:
        buffer = self.bench.buffer
        assert (buffer.available, buffer.closed, buffer.total_received) == (len(self.items), self.closed, self.received)
        assert not any(waiting.task.done() for waiting in self.waiting)

    def turn(self) -> None:
        """Run all work and check that the first waiting readers got their items or BufferClosed."""
        self.runner.run(self._work())
        while self.waiting and (self.closed or len(self.items) >= self.waiting[0].n):
            first = self.waiting.pop(0)
            expected = self.taken(first.n, first.mode) if len(self.items) >= first.n else "BufferClosed"
            assert first.task.done(), f"not woken: {expected}"
            assert self.runner.run(outcome(first.task)) == expected

    def taken(self, n: int, mode: ReadMode) -> list[int]:
        taken, self.items = split(self.items, n, mode)
        return taken

    async def _work(self) -> None:
        await settle()
        while self.bench.work:
            self.bench.work_once()
            await settle()


TestBuffers = Buffers.TestCase
