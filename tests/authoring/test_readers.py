"""Who waits: in which order they are served, what wakes them, and that nobody loses an item or sees another's."""

from __future__ import annotations

import asyncio

import pytest

from reactor_runtime import BufferClosed, ReadMode
from tests.authoring.bench import Bench, outcome
from tests.fakes import settle


async def test_reader_waits_until_enough_items_are_there() -> None:
    bench = Bench()
    task = await bench.waiting(3)
    bench.push(1, 2)
    await settle()
    assert not task.done()
    bench.push(3)
    assert await outcome(task) == [1, 2, 3]


async def test_readers_are_served_in_the_order_they_came() -> None:
    bench = Bench()
    tasks = [await bench.waiting(n, mode=ReadMode.FIFO) for n in (2, 1, 1)]
    bench.push(1)
    await settle()
    assert not any(task.done() for task in tasks)
    bench.push(2, 3, 4)
    assert [await outcome(task) for task in tasks] == [[1, 2], [3], [4]]


async def test_next_reader_moves_up_when_the_first_is_cancelled() -> None:
    bench = Bench()
    first, second = await bench.waiting(3), await bench.waiting(1)
    bench.push(1)
    await settle()
    first.cancel()
    assert (await outcome(first), await outcome(second)) == ("cancelled", [1])


async def test_reader_that_is_cancelled_as_its_item_comes_leaves_it_to_the_next() -> None:
    bench = Bench()
    first, second = await bench.waiting(), await bench.waiting()
    bench.push(1)
    first.cancel()
    assert (await outcome(first), await outcome(second)) == ("cancelled", [1])


@pytest.mark.parametrize("mode", ReadMode)
async def test_reader_that_is_cancelled_while_decoding_leaves_everything(mode: ReadMode) -> None:
    bench = Bench()
    bench.push_encoded(1, 2)
    task = await bench.waiting(1, mode=mode)
    bench.push_encoded(3)
    task.cancel()
    assert await outcome(task) == "cancelled"
    bench.work_once()
    assert bench.buffer.try_read(3) == [1, 2, 3]


async def test_timeout_of_the_first_lets_the_next_come() -> None:
    bench = Bench()
    first, second = await bench.waiting(2, timeout=1.0), await bench.waiting(1)
    bench.push(1)
    await bench.clock.advance(1.0)
    assert (await outcome(first), await outcome(second)) == ("TimeoutError", [1])


@pytest.mark.parametrize("n", [1, 3])
async def test_close_wakes_a_reader_that_waits_for_more_than_is_left(n: int) -> None:
    bench = Bench()
    bench.push(*range(n - 1))
    task = await bench.waiting(n)
    bench.buffer.close()
    assert await outcome(task) == "BufferClosed"


async def test_closed_buffer_gives_what_is_left_to_read_and_nothing_to_try_read() -> None:
    bench = Bench()
    bench.push(1, 2, 3)
    bench.buffer.close()
    bench.push(4)
    with pytest.raises(BufferClosed):
        bench.buffer.try_read()
    assert await bench.buffer.read(2, mode=ReadMode.FIFO) == [1, 2]
    with pytest.raises(BufferClosed, match="1 of 2"):
        await bench.buffer.read(2)
    assert (await bench.buffer.read(), bench.buffer.total_received) == ([3], 3)


async def test_close_ends_everybody_in_line() -> None:
    bench = Bench()
    tasks = [await bench.waiting(n) for n in (4, 1, 2)]
    bench.push(1)
    bench.buffer.close()
    assert [await outcome(task) for task in tasks] == ["BufferClosed", [1], "BufferClosed"]


async def test_reader_from_before_a_close_and_a_reset_never_sees_what_comes_after() -> None:
    bench = Bench()
    tasks = [await bench.waiting(n) for n in (1, 2)]
    bench.buffer.close()
    bench.buffer.reset()
    bench.push(1, 2)
    assert [await outcome(task) for task in tasks] == ["BufferClosed", "BufferClosed"]
    assert bench.buffer.available == 2


async def test_reader_that_decodes_during_a_close_and_a_reset_gets_nothing() -> None:
    bench = Bench()
    bench.push_encoded(1)
    task = await bench.waiting()
    bench.buffer.close()
    bench.buffer.reset()
    bench.push(2)
    bench.work_once()
    assert await outcome(task) == "BufferClosed"
    assert bench.buffer.try_read() == [2]


async def test_reader_that_decodes_during_a_close_gets_its_item() -> None:
    bench = Bench()
    bench.push_encoded(1)
    task = await bench.waiting()
    bench.buffer.close()
    bench.work_once()
    assert await outcome(task) == [1]


@pytest.mark.parametrize("emptied", ["clear", "reset"])
async def test_emptied_open_buffer_keeps_its_readers(emptied: str) -> None:
    bench = Bench()
    bench.push_encoded(1)
    decoding, waiting = await bench.waiting(), await bench.waiting()
    {"clear": bench.buffer.clear, "reset": bench.buffer.reset}[emptied]()
    bench.work_once()
    await settle()
    bench.push(2)
    await settle()
    bench.push(3)
    assert (await outcome(decoding), await outcome(waiting)) == ([2], [3])


@pytest.mark.parametrize("before", ["fresh", "closed", "reset", "cleared"])
def test_close_may_come_again_and_in_any_state(before: str) -> None:
    buffer = Bench().buffer
    for call in {"fresh": [], "closed": [buffer.close], "reset": [buffer.reset], "cleared": [buffer.clear]}[before]:
        call()
    buffer.close()
    assert buffer.closed


async def test_interrupt_ends_readers_without_closing() -> None:
    bench = Bench()
    bench.push_encoded(1)
    decoding, waiting = await bench.waiting(), await bench.waiting()
    bench.buffer.interrupt()
    assert (await outcome(decoding), await outcome(waiting)) == ("BufferClosed", "BufferClosed")
    assert not bench.buffer.closed
    bench.work_once()
    assert await bench.buffer.read() == [1]


@pytest.mark.parametrize("mode", ReadMode)
async def test_item_that_cannot_be_decoded_is_reported_and_the_reader_waits_on(mode: ReadMode) -> None:
    bench = Bench()
    bench.push_encoded(1, -2)
    task = await bench.waiting(2, mode=mode)
    bench.work_once()
    await settle()
    assert (bench.bad, task.done(), bench.buffer.available) == (["bad -2"], False, 1)
    bench.push(3)
    assert await outcome(task) == [1, 3]


async def test_waiting_is_counted_once_for_all_who_wait() -> None:
    bench = Bench()
    first, second = await bench.waiting(mode=ReadMode.FIFO), await bench.waiting(mode=ReadMode.FIFO)
    await bench.clock.advance(1.0)
    bench.push(1)
    await outcome(first)
    await bench.clock.advance(0.5)
    assert bench.waits.waited_s == pytest.approx(1.5)
    bench.push(2)
    await outcome(second)
    await bench.clock.advance(4.0)
    assert bench.waits.waited_s == pytest.approx(1.5)


def test_push_survives_a_reader_whose_loop_is_gone() -> None:
    bench = Bench()
    loop = asyncio.new_event_loop()
    reading = bench.buffer.read()

    async def begin() -> None:
        reading.send(None)

    loop.run_until_complete(begin())
    loop.close()
    bench.push(1)
    assert bench.buffer.try_read() == [1]
    reading.close()
