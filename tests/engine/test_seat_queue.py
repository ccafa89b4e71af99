from __future__ import annotations

from typing import NamedTuple

from reactor_runtime.engine.seat_queue import MOST_WAITING, MOST_WAITING_BYTES, SeatQueue


class Item(NamedTuple):
    seat: int | None
    number: int
    size_bytes: int = 1


def filled(*items: Item) -> SeatQueue[Item]:
    queue: SeatQueue[Item] = SeatQueue()
    for item in items:
        queue.append(item)
    return queue


def taken(queue: SeatQueue[Item]) -> list[tuple[int | None, int]]:
    found = []
    while (first := queue.first) is not None:
        assert queue.popleft() is first
        found.append((first.seat, first.number))
    return found


def test_the_items_of_one_seat_keep_their_order() -> None:
    queue = filled(*(Item(0, number) for number in range(3)))
    assert len(queue) == 3
    assert taken(queue) == [(0, 0), (0, 1), (0, 2)]
    assert len(queue) == 0


def test_the_seats_take_turns() -> None:
    queue = filled(*(Item(1, number) for number in range(3)), Item(0, 0), Item(0, 1), Item(2, 0))
    assert taken(queue) == [(1, 0), (0, 0), (2, 0), (1, 1), (0, 1), (1, 2)]


def test_what_belongs_to_no_seat_takes_turns_with_the_seats() -> None:
    queue = filled(Item(0, 0), Item(None, 0), Item(None, 1), Item(1, 0))
    assert taken(queue) == [(0, 0), (None, 0), (1, 0), (None, 1)]


def test_items_are_replaced_in_their_places_and_dropped() -> None:
    queue = filled(Item(0, 1, 10), Item(1, 2, MOST_WAITING_BYTES), Item(0, 3, 10))
    queue.replace(lambda item: None if item.number == 2 else item._replace(number=-item.number))
    assert taken(queue) == [(0, -1), (0, -3)]
    assert queue.has_room(1, MOST_WAITING_BYTES)


def test_a_seat_may_fill_the_queue_alone() -> None:
    queue = filled(*(Item(0, number) for number in range(MOST_WAITING - 1)))
    assert queue.has_room(0, 1)
    queue.append(Item(0, 0))
    assert not queue.has_room(0, 1)


def test_a_full_queue_has_room_for_a_seat_with_less_than_its_part() -> None:
    queue = filled(*(Item(1, number) for number in range(MOST_WAITING)))
    for number in range(MOST_WAITING // 2):
        assert queue.has_room(0, 1)
        queue.append(Item(0, number))
    assert not queue.has_room(0, 1)
    assert queue.has_room(2, 1)


def test_bytes_are_divided_as_items_are() -> None:
    queue = filled(Item(1, 0, MOST_WAITING_BYTES))
    assert not queue.has_room(1, 1)
    assert queue.has_room(0, MOST_WAITING_BYTES // 2)
    assert not queue.has_room(0, MOST_WAITING_BYTES // 2 + 1)
