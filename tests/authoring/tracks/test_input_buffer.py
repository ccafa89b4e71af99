"""The input buffer: reads, waiting readers, decoding, decoding ahead and counting."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable

import pytest

from reactor_runtime import BufferClosed, ReadMode
from reactor_runtime.authoring.tracks.backlog import Item
from reactor_runtime.authoring.tracks.input_buffer import InputBuffer, WaitTimer
from tests.authoring.tracks.bench import Bench, outcome
from tests.fakes import FakeClock, settle
from tests.timeouts import TIMEOUT_S

LATEST, FIFO, ALL = ReadMode


@pytest.mark.parametrize(
    ("mode", "n", "got", "left"),
    [
        (LATEST, 1, [4], 0),
        (LATEST, 3, [2, 3, 4], 0),
        (FIFO, 1, [0], 4),
        (FIFO, 3, [0, 1, 2], 2),
        (ALL, 1, [0, 1, 2, 3, 4], 0),
    ],
)
@pytest.mark.parametrize("how", ["read", "try_read"])
async def test_mode_decides_which_items_are_read(mode: ReadMode, n: int, got: list[int], left: int, how: str) -> None:
    bench = Bench()
    bench.push(*range(5))
    read = bench.buffer.try_read(n, mode) if how == "try_read" else await bench.buffer.read(n, mode=mode)
    assert (read, bench.buffer.available) == (got, left)


async def test_a_read_of_all_waits_for_n_items_and_counts_those_it_took() -> None:
    bench = Bench()
    reading = await bench.waiting(2, mode=ALL)
    bench.push(1)
    await settle()
    assert not reading.done()
    bench.push(2, 3)
    assert await outcome(reading) == [1, 2, 3]
    assert bench.buffer.reads.taken == 3


@pytest.mark.parametrize(("mode", "lost"), [(LATEST, 0), (FIFO, 3), (ALL, 3)])
@pytest.mark.parametrize("how", ["read", "try_read"])
async def test_items_that_are_dropped_before_a_reader_in_order_are_lost_and_its_next_read_reports_them_once(
    mode: ReadMode, lost: int, how: str
) -> None:
    bench = Bench(capacity=4)

    async def read() -> None:
        _ = bench.buffer.try_read(mode=mode) if how == "try_read" else await bench.buffer.read(mode=mode)

    bench.push(*range(4))
    await read()
    bench.push(*range(4 + 3 - bench.buffer.available))
    assert (bench.buffer.reads.lost, bench.late) == (lost, [])
    await read()
    bench.push(1)
    await read()
    assert bench.late == ([(mode, "read")] if lost else [])


@pytest.mark.parametrize(("mode", "lost"), [(LATEST, 0), (FIFO, 3), (ALL, 3)])
@pytest.mark.parametrize("how", ["read", "try_read"])
async def test_items_that_are_dropped_before_the_first_read_are_lost_if_it_reads_in_order(
    mode: ReadMode, lost: int, how: str
) -> None:
    bench = Bench(capacity=4)
    # Of a session before; a new session decides again.
    bench.push(*range(9))
    assert bench.buffer.try_read(mode=FIFO) == [5]
    bench.buffer.begin_counting()
    bench.buffer.reset()
    bench.late.clear()
    bench.push(*range(4 + 3))
    assert bench.buffer.reads.lost == 0
    _ = bench.buffer.try_read(mode=mode) if how == "try_read" else await bench.buffer.read(mode=mode)
    assert (bench.buffer.reads.lost, len(bench.late)) == (lost, bool(lost))
    bench.buffer.try_read(mode=FIFO)
    assert (bench.buffer.reads.lost, len(bench.late)) == (lost, bool(lost))


@pytest.mark.parametrize("closed", [True, False], ids=["closed before", "open before"])
@pytest.mark.parametrize("resets", [1, 2])
@pytest.mark.parametrize(("mode", "lost"), [(LATEST, 0), (FIFO, 3), (ALL, 3)])
def test_items_that_are_dropped_before_a_reset_keeps_the_rest_are_lost_once(
    closed: bool, resets: int, mode: ReadMode, lost: int
) -> None:
    bench = Bench(capacity=4)
    if closed:
        bench.buffer.close()
    bench.buffer.start_retaining()
    bench.push(*range(4 + 3))
    for _ in range(resets):
        bench.buffer.reset()
    bench.buffer.stop_retaining()
    assert bench.buffer.try_read(4, mode) == [3, 4, 5, 6]
    assert (bench.buffer.reads.lost, len(bench.late)) == (lost, bool(lost))


def test_items_that_a_closed_buffer_drops_are_not_lost() -> None:
    bench = Bench(capacity=4)
    bench.buffer.close()
    bench.buffer.start_retaining()
    bench.push(*range(9))
    bench.buffer.stop_retaining()
    bench.buffer.reset()
    bench.push(1)
    assert (bench.buffer.try_read(mode=FIFO), bench.buffer.reads.lost) == ([1], 0)


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


async def test_timeout_of_zero_returns_available_items_without_waiting() -> None:
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
def test_reset_keeps_retained_items_and_a_later_reset_drops_them(closed: bool) -> None:
    bench = Bench()
    if closed:
        bench.buffer.close()
    bench.buffer.start_retaining()
    bench.push(1, 2)
    bench.buffer.reset()
    bench.push(3)
    bench.buffer.stop_retaining()
    assert bench.buffer.try_read(3) == [1, 2, 3]
    bench.push(4)
    bench.buffer.reset()
    assert bench.buffer.try_read() is None


async def test_only_returned_items_are_decoded() -> None:
    bench = Bench()
    bench.push_encoded(*range(20))
    task = await bench.waiting(2)
    bench.work_once()
    assert await outcome(task) == [18, 19]
    assert bench.decoded == [18, 19]


def test_try_read_skips_items_that_cannot_be_decoded() -> None:
    bench = Bench()
    bench.push_encoded(1, -2)
    assert bench.buffer.try_read(2) is None
    assert (bench.bad, bench.buffer.try_read(1)) == (["bad -2"], [1])


def test_accepted_item_calls_on_available() -> None:
    bench = Bench()
    bench.push(1, 2)
    bench.buffer.close()
    bench.push(3)
    assert bench.announced == 2


async def test_items_pushed_by_several_threads_keep_the_order_of_each_thread() -> None:
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


async def test_items_are_decoded_outside_the_loops_thread() -> None:
    threads: list[int] = []
    clock = FakeClock()
    loop = asyncio.get_running_loop()

    def decode(data: bytes) -> bytes:
        threads.append(threading.get_ident())
        return data

    buffer: InputBuffer[bytes] = InputBuffer(
        clock,
        lambda work: loop.run_in_executor(None, work),
        waits=WaitTimer(clock),
        on_bad=lambda *_: None,
        on_available=lambda: None,
    )
    buffer.push(Item.encoded(b"x", decode))
    async with asyncio.timeout(TIMEOUT_S):
        assert await buffer.read() == [b"x"]
    assert threads != [threading.get_ident()]


@pytest.mark.parametrize("how", ["read", "try_read"])
async def test_read_items_are_counted_once_and_dropped_items_are_not(how: str) -> None:
    bench = Bench()
    for n in (1, 2):
        bench.push(*range(5))
        _ = bench.buffer.try_read(n) if how == "try_read" else await bench.buffer.read(n)
    assert (bench.buffer.reads.taken, bench.buffer.reads.missed) == (3, 0)


async def test_items_requested_before_they_arrive_count_as_missed_once() -> None:
    bench = Bench()
    assert bench.buffer.try_read() is None
    bench.push(1)
    reading = await bench.waiting(2)
    bench.push_encoded(-1, 2)
    await settle()
    bench.work_once()
    assert await outcome(reading) == [1, 2]
    assert (bench.buffer.reads.taken, bench.buffer.reads.missed) == (2, 3)


async def test_reader_waits_until_enough_items_are_there() -> None:
    bench = Bench()
    task = await bench.waiting(3)
    bench.push(1, 2)
    await settle()
    assert not task.done()
    bench.push(3)
    assert await outcome(task) == [1, 2, 3]


async def test_readers_are_served_in_order_of_arrival() -> None:
    bench = Bench()
    tasks = [await bench.waiting(n, mode=FIFO) for n in (2, 1, 1)]
    bench.push(1)
    await settle()
    assert not any(task.done() for task in tasks)
    bench.push(2, 3, 4)
    assert [await outcome(task) for task in tasks] == [[1, 2], [3], [4]]


async def test_second_reader_is_served_when_the_first_is_cancelled() -> None:
    bench = Bench()
    first, second = await bench.waiting(3), await bench.waiting(1)
    bench.push(1)
    await settle()
    first.cancel()
    assert (await outcome(first), await outcome(second)) == ("cancelled", [1])


async def test_reader_cancelled_as_its_item_arrives_leaves_it_to_the_next() -> None:
    bench = Bench()
    first, second = await bench.waiting(), await bench.waiting()
    bench.push(1)
    first.cancel()
    assert (await outcome(first), await outcome(second)) == ("cancelled", [1])


@pytest.mark.parametrize("mode", ReadMode)
async def test_reader_cancelled_while_decoding_takes_nothing(mode: ReadMode) -> None:
    bench = Bench()
    bench.push_encoded(1, 2)
    task = await bench.waiting(1, mode=mode)
    bench.push_encoded(3)
    task.cancel()
    assert await outcome(task) == "cancelled"
    bench.work_once()
    assert bench.buffer.try_read(3) == [1, 2, 3]


async def test_timeout_of_the_first_reader_serves_the_next() -> None:
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


async def test_closed_buffer_serves_remaining_items_to_read_and_none_to_try_read() -> None:
    bench = Bench()
    bench.push(1, 2, 3)
    bench.buffer.close()
    bench.push(4)
    with pytest.raises(BufferClosed):
        bench.buffer.try_read()
    assert await bench.buffer.read(2, mode=FIFO) == [1, 2]
    with pytest.raises(BufferClosed, match="1 of 2"):
        await bench.buffer.read(2)
    assert (await bench.buffer.read(), bench.buffer.total_received) == ([3], 3)


async def test_close_ends_all_waiting_readers() -> None:
    bench = Bench()
    tasks = [await bench.waiting(n) for n in (4, 1, 2)]
    bench.push(1)
    bench.buffer.close()
    assert [await outcome(task) for task in tasks] == ["BufferClosed", [1], "BufferClosed"]


async def test_reader_from_before_a_close_and_a_reset_gets_no_later_item() -> None:
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
def test_close_works_in_any_state(before: str) -> None:
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
    assert (await outcome(decoding), await outcome(waiting)) == ("ReadInterrupted", "ReadInterrupted")
    assert not bench.buffer.closed
    bench.work_once()
    assert await bench.buffer.read() == [1]


@pytest.mark.parametrize("mode", ReadMode)
async def test_item_that_cannot_be_decoded_is_reported_and_the_reader_keeps_waiting(mode: ReadMode) -> None:
    bench = Bench()
    bench.push_encoded(1, -2)
    task = await bench.waiting(2, mode=mode)
    bench.work_once()
    await settle()
    assert (bench.bad, task.done(), bench.buffer.available) == (["bad -2"], False, 1)
    bench.push(3)
    assert await outcome(task) == [1, 3]


async def test_waiting_time_of_concurrent_readers_is_counted_once() -> None:
    bench = Bench()
    first, second = await bench.waiting(mode=FIFO), await bench.waiting(mode=FIFO)
    await bench.clock.advance(1.0)
    bench.push(1)
    await outcome(first)
    await bench.clock.advance(0.5)
    assert bench.waits.waited_s == pytest.approx(1.5)
    bench.push(2)
    await outcome(second)
    await bench.clock.advance(4.0)
    assert bench.waits.waited_s == pytest.approx(1.5)


def test_push_ignores_a_reader_with_a_closed_loop() -> None:
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


def test_polled_buffer_releases_an_item_when_it_is_decoded() -> None:
    bench = Bench()
    assert bench.buffer.try_read() is None
    bench.push_encoded(1)
    assert (bench.buffer.try_read(), bench.buffer.available, bench.announced) == (None, 0, 0)
    bench.work_once()
    assert (bench.buffer.available, bench.announced, bench.buffer.try_read(), bench.decoded) == (1, 1, [1], [1])


def test_a_polled_buffer_decodes_only_the_newest_item_that_arrived_during_decoding() -> None:
    bench = Bench()
    bench.buffer.try_read()
    bench.push_encoded(1, 2, 3)
    bench.work_once()
    assert (bench.decoded, len(bench.work), bench.buffer.available) == ([1, 3], 0, 3)


def test_bad_item_decoded_ahead_is_dropped() -> None:
    bench = Bench()
    bench.buffer.try_read()
    bench.push_encoded(-1, 2)
    bench.work_once()
    assert (bench.bad, bench.buffer.try_read(2), bench.buffer.try_read(1)) == (["bad -1"], None, [2])


def test_decoding_ahead_stops_eight_items_after_the_last_poll() -> None:
    bench = Bench()
    bench.buffer.try_read()
    for number in range(30):
        bench.push_encoded(number)
        while bench.work:
            bench.work_once()
    assert (bench.decoded, bench.buffer.available) == (list(range(8)), 30)


async def test_waiting_reads_do_not_start_decoding_ahead() -> None:
    bench = Bench()
    bench.buffer.try_read()
    bench.push(1)
    await bench.buffer.read()
    bench.push_encoded(2, 3)
    assert (len(bench.work), bench.buffer.available) == (0, 2)


@pytest.mark.parametrize("ended", ["clear", "reset"])
def test_an_item_cleared_while_it_is_decoded_ahead_is_not_released(ended: str) -> None:
    bench = Bench()
    bench.buffer.try_read()
    bench.push_encoded(1)
    {"clear": bench.buffer.clear, "reset": bench.buffer.reset}[ended]()
    bench.push_encoded(2)
    bench.work_once()
    assert bench.buffer.available == 0
    bench.work_once()
    assert bench.buffer.try_read() == [2]


async def test_item_being_decoded_ahead_at_a_close_can_be_read() -> None:
    bench = Bench()
    bench.buffer.try_read()
    bench.push_encoded(1)
    bench.buffer.close()
    bench.work_once()
    assert await outcome(await bench.waiting()) == [1]


async def test_items_are_counted_since_the_last_reset_also_those_that_it_keeps() -> None:
    bench = Bench()
    bench.push(1, 2, 3)
    bench.buffer.start_retaining()
    bench.push(4)
    bench.buffer.clear()
    bench.buffer.close()
    assert bench.buffer.total_received == 4
    bench.buffer.reset()
    bench.buffer.stop_retaining()
    bench.push(5)
    assert (bench.buffer.total_received, bench.buffer.received_in_all) == (2, 6)
    assert await bench.buffer.read(2) == [4, 5]
