"""The input buffer: what it gives, what it decodes and what it counts, as a list and from many threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactor_runtime import BufferClosed, ReadMode
from reactor_runtime.authoring.backlog import Item
from reactor_runtime.authoring.buffer import InputBuffer, Waits
from tests.authoring.bench import Bench, outcome
from tests.fakes import FakeClock, settle
from tests.timeouts import TIMEOUT_S

LATEST, FIFO = ReadMode.LATEST, ReadMode.FIFO


@pytest.mark.parametrize(
    ("mode", "n", "got", "left"),
    [(LATEST, 1, [4], 0), (LATEST, 3, [2, 3, 4], 0), (FIFO, 1, [0], 4), (FIFO, 3, [0, 1, 2], 2)],
)
@pytest.mark.parametrize("how", ["read", "try_read"])
async def test_mode_decides_which_items_come(mode: ReadMode, n: int, got: list[int], left: int, how: str) -> None:
    bench = Bench()
    bench.push(*range(5))
    read = bench.buffer.try_read(n, mode) if how == "try_read" else await bench.buffer.read(n, mode=mode)
    assert (read, bench.buffer.available) == (got, left)


def test_mode_may_be_given_as_text() -> None:
    bench = Bench()
    bench.push(1, 2)
    assert bench.buffer.try_read(mode="fifo") == [1]  # type: ignore[arg-type]  # what authors may write


@pytest.mark.parametrize(
    ("n", "mode", "kind"),
    [
        (0, LATEST, ValueError),
        (-1, FIFO, ValueError),
        (129, LATEST, ValueError),
        (1.0, LATEST, TypeError),
        (1, "last", ValueError),
    ],
)
@pytest.mark.parametrize("how", ["read", "try_read"])
async def test_wrong_arguments_are_refused(n: int, mode: ReadMode, kind: type[Exception], how: str) -> None:
    buffer = Bench().buffer
    with pytest.raises(kind):
        _ = buffer.try_read(n, mode) if how == "try_read" else await buffer.read(n, mode=mode)


async def test_timeout_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="timeout"):
        await Bench().buffer.read(timeout=float("nan"))


def test_full_buffer_drops_the_oldest_item() -> None:
    bench = Bench()
    bench.push(*range(130))
    assert (bench.buffer.available, bench.buffer.total_received) == (128, 130)
    assert bench.buffer.try_read(mode=FIFO) == [2]


def test_try_read_of_too_many_leaves_the_buffer_untouched() -> None:
    bench = Bench()
    bench.push(1, 2)
    assert bench.buffer.try_read(3) is None
    assert bench.buffer.available == 2


async def test_timeout_leaves_the_buffer_untouched() -> None:
    bench = Bench()
    bench.push(1)
    task = await bench.waiting(2, timeout=1.5)
    await bench.clock.advance(1.4)
    assert not task.done()
    await bench.clock.advance(0.2)
    assert await outcome(task) == "TimeoutError"
    assert bench.buffer.try_read(1) == [1]


async def test_timeout_of_zero_takes_what_is_there_and_waits_for_nothing() -> None:
    bench = Bench()
    with pytest.raises(TimeoutError, match="0 of 1"):
        await bench.buffer.read(timeout=0)
    bench.push(1)
    assert await bench.buffer.read(timeout=0) == [1]


async def test_timeout_does_not_cut_decoding_short() -> None:
    bench = Bench()
    bench.push_encoded(1)
    task = await bench.waiting(timeout=0)
    await bench.clock.advance(1.0)
    bench.work_once()
    assert await outcome(task) == [1]


def test_clear_leaves_a_closed_buffer_closed_and_reset_opens_it() -> None:
    bench = Bench()
    bench.push(1)
    bench.buffer.close()
    bench.buffer.clear()
    assert (bench.buffer.closed, bench.buffer.available) == (True, 0)
    bench.buffer.reset()
    bench.push(2)
    assert (bench.buffer.closed, bench.buffer.try_read()) == (False, [2])


@pytest.mark.parametrize("closed", [True, False], ids=["closed before", "open before"])
def test_reset_keeps_what_came_early_and_later_ones_empty_it(closed: bool) -> None:
    bench = Bench()
    if closed:
        bench.buffer.close()
    bench.buffer.early.begin()
    bench.push(1, 2)
    bench.buffer.reset()
    bench.push(3)
    bench.buffer.early.end()
    assert bench.buffer.try_read(3) == [1, 2, 3]
    bench.push(4)
    bench.buffer.reset()
    assert bench.buffer.try_read() is None


async def test_only_what_is_returned_is_decoded() -> None:
    bench = Bench()
    bench.push_encoded(*range(20))
    task = await bench.waiting(2)
    bench.work_once()
    assert await outcome(task) == [18, 19]
    assert bench.decoded == [18, 19]


def test_try_read_leaves_out_what_cannot_be_decoded() -> None:
    bench = Bench()
    bench.push_encoded(1, -2)
    assert bench.buffer.try_read(2) is None
    assert (bench.bad, bench.buffer.try_read(1)) == (["bad -2"], [1])


def test_arrivals_are_announced_unless_dropped() -> None:
    bench = Bench()
    bench.push(1, 2)
    bench.buffer.close()
    bench.push(3)
    assert bench.shown == 2


async def test_items_of_several_threads_all_arrive_in_the_order_of_each() -> None:
    bench = Bench(capacity=4000)
    start = threading.Barrier(4)

    def push(numbers: Iterable[int]) -> None:
        start.wait(TIMEOUT_S)
        bench.push(*numbers)

    threads = [threading.Thread(target=push, args=[range(base, base + 1000)]) for base in (0, 1000, 2000, 3000)]
    for thread in threads:
        thread.start()
    async with asyncio.timeout(TIMEOUT_S):
        got = [(await bench.buffer.read(mode=FIFO))[0] for _ in range(4000)]
    for thread in threads:
        await asyncio.to_thread(thread.join, TIMEOUT_S)
    assert sorted(got) == list(range(4000))
    assert all(
        [n for n in got if n // 1000 == part] == list(range(part * 1000, part * 1000 + 1000)) for part in range(4)
    )


async def test_decoding_happens_off_the_loops_thread() -> None:
    threads: list[int] = []
    clock = FakeClock()
    loop = asyncio.get_running_loop()

    def decode(data: bytes) -> bytes:
        threads.append(threading.get_ident())
        return data

    buffer: InputBuffer[bytes] = InputBuffer(
        clock,
        lambda work: loop.run_in_executor(None, work),
        waits=Waits(clock),
        on_bad=lambda *_: None,
        on_available=lambda: None,
    )
    buffer.push(Item.encoded(b"x", decode))
    async with asyncio.timeout(TIMEOUT_S):
        assert await buffer.read() == [b"x"]
    assert threads != [threading.get_ident()]


Step = tuple[str, int, ReadMode]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["push", "push_bad", "read", "try_read", "cancelled_read", "close", "reset", "clear"]),
        st.integers(1, 5),
        st.sampled_from(ReadMode),
    ),
    max_size=40,
)


@dataclass
class Model:
    """What a buffer of 5 is, written as a list."""

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
        """Take n good items; bad ones among those that would be taken go one read at a time, as they are found."""
        while len(self.items) >= n:
            wanted = self.items[-n:] if mode is LATEST else self.items[:n]
            if all(number > 0 for number in wanted):
                self.items = [] if mode is LATEST else self.items[n:]
                return wanted
            self.items = [number for number in self.items if number > 0 or number not in wanted]
        return None


@given(STEPS)
def test_any_sequence_of_calls_does_what_a_list_does(steps: list[Step]) -> None:
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
    """Let a polled buffer find bad items as they come."""
    while bench.work:
        bench.work_once()
        model.items = [number for number in model.items if number > 0 or f"bad {number}" not in bench.bad]


@pytest.mark.parametrize("how", ["read", "try_read"])
async def test_each_item_that_was_read_counts_once_and_those_dropped_do_not(how: str) -> None:
    bench = Bench()
    for n in (1, 2):
        bench.push(*range(5))
        _ = bench.buffer.try_read(n) if how == "try_read" else await bench.buffer.read(n)
    assert (bench.buffer.reads.taken, bench.buffer.reads.missed) == (3, 0)


async def test_what_was_asked_for_too_early_is_counted_as_missed_once() -> None:
    bench = Bench()
    assert bench.buffer.try_read() is None
    bench.push(1)
    reading = await bench.waiting(2)
    bench.push_encoded(-1, 2)
    await settle()
    bench.work_once()
    assert await outcome(reading) == [1, 2]
    assert (bench.buffer.reads.taken, bench.buffer.reads.missed) == (2, 3)
