"""The backlog: capacity, order, claims and items on hold."""

from __future__ import annotations

from functools import partial
from weakref import WeakSet

import pytest

from reactor_runtime.authoring.tracks.backlog import MOST_BYTES, Backlog, Item, ReadMode

ITEMS = [Item(number) for number in range(6)]


def backlog_of(count: int, capacity: int = 4) -> Backlog[int]:
    backlog: Backlog[int] = Backlog(capacity)
    for item in ITEMS[:count]:
        backlog.push(item)
    return backlog


def taken(backlog: Backlog[int], n: int, mode: ReadMode = ReadMode.FIFO) -> list[int] | None:
    claim = backlog.take(n, mode)
    return None if claim is None else [item.array() for item in claim.wanted]


@pytest.mark.parametrize(
    ("mode", "first", "left"),
    [(ReadMode.LATEST, [1, 2], 0), (ReadMode.FIFO, [0, 1], 1), (ReadMode.ALL, [0, 1, 2], 0)],
    ids=["latest", "fifo", "all"],
)
def test_mode_decides_which_items_are_taken_and_which_stay(mode: ReadMode, first: list[int], left: int) -> None:
    backlog = backlog_of(3)
    assert taken(backlog, 2, mode) == first
    assert len(backlog) == left


def test_full_backlog_drops_the_oldest() -> None:
    backlog = backlog_of(6)
    assert (taken(backlog, 4), backlog.received, backlog.dropped) == ([2, 3, 4, 5], 6, 2)


def test_retained_items_are_limited_in_bytes_like_all_others() -> None:
    backlog: Backlog[bytes] = Backlog()
    backlog.close()
    backlog.start_retaining()
    for number in range(10):
        backlog.push(Item.encoded(bytes([number]) * (MOST_BYTES // 4), bytes))
    backlog.reset()
    claim = backlog.take(4, ReadMode.FIFO)
    assert claim is not None
    assert ([item.file[0] for item in claim.items], len(backlog)) == ([6, 7, 8, 9], 0)
    assert backlog.dropped == 6
    backlog.reset()
    assert backlog.dropped == 6, "they are counted once"


def test_items_above_the_limit_of_retained_ones_are_freed_while_the_backlog_is_closed() -> None:
    backlog: Backlog[bytes] = Backlog(capacity=2)
    backlog.close()
    backlog.start_retaining()
    decoders = WeakSet[object]()
    for _ in range(5):
        decode = partial(bytes)
        decoders.add(decode)
        backlog.push(Item.encoded(b"x", decode))
    del decode
    assert len(decoders) == 2


def test_retained_items_are_limited_in_number() -> None:
    backlog = backlog_of(0)
    backlog.start_retaining()
    for item in ITEMS:
        backlog.push(item)
    backlog.reset()
    assert (backlog.received_before, backlog.received, backlog.dropped) == (6, 10, 2)
    assert (taken(backlog, 4), backlog.take(1, ReadMode.FIFO)) == ([2, 3, 4, 5], None)


def test_take_of_more_items_than_there_are_changes_nothing() -> None:
    backlog = backlog_of(2)
    assert backlog.take(3, ReadMode.LATEST) is None
    assert len(backlog) == 2


@pytest.mark.parametrize("mode", ReadMode)
def test_put_back_restores_the_order(mode: ReadMode) -> None:
    backlog = backlog_of(3)
    claim = backlog.take(2, mode)
    assert claim is not None
    backlog.push(ITEMS[3])
    backlog.put_back(claim)
    assert taken(backlog, 4) == [0, 1, 2, 3]


def test_claim_put_back_into_a_full_backlog_loses_its_oldest() -> None:
    backlog = backlog_of(2)
    claim = backlog.take(2, ReadMode.FIFO)
    assert claim is not None
    for item in ITEMS[2:5]:
        backlog.push(item)
    backlog.put_back(claim)
    assert taken(backlog, 4) == [1, 2, 3, 4]


@pytest.mark.parametrize("emptied", ["clear", "reset"])
def test_claim_from_before_a_clear_is_void(emptied: str) -> None:
    backlog = backlog_of(2)
    claim = backlog.take(2, ReadMode.FIFO)
    assert claim is not None
    {"clear": backlog.clear, "reset": backlog.reset}[emptied]()
    backlog.put_back(claim)
    assert (len(backlog), backlog.is_valid(claim)) == (0, False)


def test_bad_items_are_not_put_back() -> None:
    backlog = backlog_of(3)
    claim = backlog.take(2, ReadMode.LATEST)
    assert claim is not None
    backlog.put_back(claim, without=[ITEMS[1]])
    assert taken(backlog, 2) == [0, 2]


def test_closed_backlog_keeps_its_items_and_accepts_no_more() -> None:
    backlog = backlog_of(2)
    backlog.close()
    assert not backlog.push(ITEMS[2])
    assert (backlog.received, taken(backlog, 2)) == (2, [0, 1])


def test_reset_counts_as_an_opening_only_after_a_close() -> None:
    backlog = backlog_of(1)
    backlog.reset()
    assert (backlog.openings, len(backlog)) == (0, 0)
    backlog.close()
    backlog.close()
    backlog.reset()
    assert (backlog.openings, backlog.closed) == (1, False)


def test_item_on_hold_blocks_later_items_until_it_is_released() -> None:
    backlog = backlog_of(1)
    backlog.push(ITEMS[1], hold=True)
    backlog.push(ITEMS[2])
    assert (len(backlog), backlog.newest_on_hold()) == (1, ITEMS[2])
    backlog.release(ITEMS[1])
    assert (len(backlog), backlog.newest_on_hold()) == (2, ITEMS[2])
    backlog.release(ITEMS[2])
    assert (len(backlog), backlog.newest_on_hold()) == (3, None)


def test_releasing_an_item_holds_no_later_one_back() -> None:
    backlog = backlog_of(3)
    backlog.release(ITEMS[0])
    assert len(backlog) == 3


def test_dropping_a_bad_item_on_hold_releases_those_before_it() -> None:
    backlog = backlog_of(1)
    backlog.push(ITEMS[1], hold=True)
    backlog.push(ITEMS[2], hold=True)
    backlog.drop(ITEMS[2])
    assert len(backlog) == 2
    assert taken(backlog, 2) == [0, 1]


def test_release_and_drop_ignore_a_removed_item() -> None:
    backlog = backlog_of(1)
    backlog.release(ITEMS[5])
    backlog.drop(ITEMS[5])
    assert len(backlog) == 1


def test_close_releases_items_on_hold() -> None:
    backlog = backlog_of(1)
    backlog.push(ITEMS[1], hold=True)
    backlog.close()
    assert taken(backlog, 2) == [0, 1]


def test_eviction_keeps_the_count_of_released_items() -> None:
    backlog = backlog_of(1, capacity=2)
    for item in ITEMS[1:4]:
        backlog.push(item, hold=True)
    assert len(backlog) == 0
    backlog.release(ITEMS[3])
    assert taken(backlog, 2) == [2, 3]


def test_item_is_decoded_once_and_frees_its_bytes() -> None:
    calls: list[bytes] = []

    def decode(data: bytes) -> str:
        calls.append(data)
        return data.decode()

    item = Item.encoded(b"x", decode)
    assert not item.decoded
    assert (item.array(), item.array(), item.decoded, calls) == ("x", "x", True, [b"x"])
    assert item._decode is None


def test_files_above_the_byte_limit_drop_the_oldest() -> None:
    backlog: Backlog[bytes] = Backlog()
    files = [Item.encoded(bytes(MOST_BYTES // 3), bytes) for _ in range(5)]
    for file in files:
        backlog.push(file)
    claim = backlog.take(len(backlog), ReadMode.FIFO)
    assert claim is not None
    assert claim.items == files[2:]


def test_file_above_the_byte_limit_is_kept_alone() -> None:
    backlog: Backlog[bytes] = Backlog()
    for _ in range(2):
        backlog.push(Item.encoded(bytes(MOST_BYTES + 1), bytes))
    assert len(backlog) == 1
