"""What is decoded before it is read: only while somebody polls, and only the newest."""

from __future__ import annotations

import pytest

from tests.authoring.bench import Bench, outcome


def test_polled_buffer_shows_an_item_when_it_is_decoded() -> None:
    bench = Bench()
    assert bench.buffer.try_read() is None
    bench.push_encoded(1)
    assert (bench.buffer.try_read(), bench.buffer.available, bench.shown) == (None, 0, 0)
    bench.work_once()
    assert (bench.buffer.available, bench.shown, bench.buffer.try_read(), bench.decoded) == (1, 1, [1], [1])


def test_polled_buffer_decodes_the_newest_of_those_that_came_meanwhile() -> None:
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


def test_nothing_is_decoded_ahead_for_long_once_nobody_polls() -> None:
    bench = Bench()
    bench.buffer.try_read()
    for number in range(30):
        bench.push_encoded(number)
        while bench.work:
            bench.work_once()
    assert (bench.decoded, bench.buffer.available) == (list(range(8)), 30)


async def test_nothing_is_decoded_ahead_for_those_who_wait() -> None:
    bench = Bench()
    bench.buffer.try_read()
    bench.push(1)
    await bench.buffer.read()
    bench.push_encoded(2, 3)
    assert (len(bench.work), bench.buffer.available) == (0, 2)


@pytest.mark.parametrize("ended", ["clear", "reset"])
def test_item_decoded_ahead_of_a_clear_is_not_shown(ended: str) -> None:
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
