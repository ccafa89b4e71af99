from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactor_runtime.server.encoded import EncodedFrame, EncodedSound
from reactor_runtime.wire.messages import View
from tests.server.gallery import Gallery


@pytest.fixture
def gallery() -> Gallery:
    return Gallery()


def test_a_small_crowd_has_everything_at_once(gallery: Gallery) -> None:
    crowd = [gallery.seat() for _ in range(3)]
    gallery.show()
    assert gallery.served(crowd) == [1, 1, 1]
    assert (gallery.turns, gallery.fanout.kept) == ([], 0)


def test_who_is_first_has_a_frame_before_all_others(gallery: Gallery) -> None:
    crowd = [gallery.seat() for _ in range(10)]
    first = gallery.seat(first=True)
    came_at: list[float] = []
    first.outbox.news = lambda: came_at.append(gallery.clock.now())
    began = gallery.clock.now()
    gallery.show()
    assert came_at == [began]
    assert sum(gallery.served(crowd)) > 0


def test_the_crowd_has_a_slice_of_time_a_turn(gallery: Gallery) -> None:
    crowd = [gallery.seat() for _ in range(10)]
    gallery.show()
    assert gallery.served(crowd) == [1, 1, 1, 1, 0, 0, 0, 0, 0, 0]
    gallery.turn()
    assert gallery.served(crowd) == [1, 1, 1, 1, 1, 1, 1, 1, 0, 0]
    gallery.turn()
    assert gallery.served(crowd) == [1] * 10
    assert (gallery.turns, gallery.fanout.kept) == ([], 0)


def test_there_is_one_slice_a_turn_however_much_comes(gallery: Gallery) -> None:
    crowd = [gallery.seat() for _ in range(50)]
    for _ in range(5):
        gallery.show()
        gallery.say("text")
    assert len(gallery.turns) == 1
    assert sum(gallery.served(crowd)) == 4


def test_the_next_frame_of_who_is_first_does_not_wait_for_the_crowd(gallery: Gallery) -> None:
    crowd = [gallery.seat() for _ in range(10)]
    first = gallery.seat(first=True)
    for _ in range(3):
        gallery.show()
    assert gallery.taken[first] == ["0", "1", "2"]
    gallery.finish()
    assert all(taken[-1] == "2" for taken in map(gallery.taken.__getitem__, crowd))


def test_who_missed_a_frame_is_next(gallery: Gallery) -> None:
    crowd = [gallery.seat() for _ in range(10)]
    gallery.show()
    gallery.show()
    gallery.finish()
    assert [gallery.taken[client] for client in crowd] == [["0", "1"]] * 4 + [["1"]] * 6
    assert gallery.figures.skipped.counts["crowd"] == 6


@given(crowd=st.integers(1, 60), turns=st.lists(st.integers(0, 6), min_size=1, max_size=60))
def test_nobody_skips_more_than_others(crowd: int, turns: list[int]) -> None:
    gallery = Gallery()
    first, members = gallery.seat(first=True), [gallery.seat() for _ in range(crowd)]
    for count in turns:
        gallery.show()
        for _ in range(count):
            gallery.turn()
        served = gallery.served(members)
        assert max(served) - min(served) <= 1
    gallery.finish()
    for client in [first, *members]:
        counters = client.outbox.counters
        assert counters.offered == len(turns)
        assert counters.sent + counters.skipped == len(turns)
        assert gallery.taken[client][-1] == str(len(turns) - 1)
    assert len(gallery.taken[first]) == len(turns)
    assert gallery.fanout.kept == 0


def test_nothing_but_frames_is_skipped_and_all_comes_in_order(gallery: Gallery) -> None:
    crowd = [gallery.seat() for _ in range(9)]
    for number in range(3):
        gallery.show()
        gallery.say(f"after {number}")
        gallery.play()
    gallery.finish()
    whole = ["0", "after 0", "sound", "1", "after 1", "sound", "2", "after 2", "sound"]
    for client in crowd:
        assert [item for item in gallery.taken[client] if item not in "01"] == [
            item for item in whole if item not in "01"
        ]
        assert gallery.taken[client] == [item for item in whole if item in gallery.taken[client]]


def test_frames_of_another_track_replace_nothing(gallery: Gallery) -> None:
    crowd = [gallery.seat() for _ in range(9)]
    gallery.show("left")
    gallery.show("right")
    gallery.finish()
    assert [gallery.taken[client] for client in crowd] == [["0", "1"]] * 9


def test_who_does_not_want_a_frame_has_not_missed_it(gallery: Gallery) -> None:
    crowd = [gallery.seat(view=View(paused=True)) for _ in range(2)] + [gallery.seat() for _ in range(9)]
    gallery.show()
    gallery.show()
    gallery.finish()
    assert [client.outbox.counters.offered for client in crowd] == [0, 0] + [2] * 9


def test_what_is_said_to_one_alone_comes_after_what_all_were_told(gallery: Gallery) -> None:
    crowd = [gallery.seat() for _ in range(9)]
    gallery.show()
    gallery.say("to all")
    crowd[-1].tell("alone", {})
    assert gallery.taken[crowd[-1]] == ["0", "to all", '{"type":"alone","data":{}}']
    gallery.finish()
    assert gallery.taken[crowd[-2]] == ["0", "to all"]


def test_a_few_are_not_told(gallery: Gallery) -> None:
    told, spared = gallery.seat(), gallery.seat()
    gallery.say("to all others", spared)
    assert (gallery.taken[told], gallery.taken[spared]) == (["to all others"], [])


def test_everyone_is_visited_in_order_with_what_is_shown(gallery: Gallery) -> None:
    crowd = [gallery.seat() for _ in range(9)]
    gallery.show()
    gallery.fanout.put(lambda each: each.tell("visit", {"offered": each.outbox.counters.offered}))
    gallery.show()
    gallery.finish()
    assert {taken[-2] for taken in gallery.taken.values()} == {'{"type":"visit","data":{"offered":1}}'}
    assert [gallery.taken[client][-1] for client in crowd] == ["1"] * 9


def test_a_newcomer_is_given_nothing_of_what_was_before_it(gallery: Gallery) -> None:
    for _ in range(9):
        gallery.seat()
    gallery.show()
    newcomer = gallery.seat()
    gallery.finish()
    assert gallery.taken[newcomer] == []


def test_who_leaves_holds_up_nothing(gallery: Gallery) -> None:
    crowd = [gallery.seat() for _ in range(9)]
    gallery.show()
    for client in crowd[4:]:
        gallery.fanout.leave(client)
        gallery.fanout.leave(client)
    assert gallery.fanout.kept == 0
    gallery.finish()
    gallery.show()
    assert gallery.served(crowd) == [2] * 4 + [1] * 5
    crowd[-1].tell("alone", {})
    assert len(gallery.taken[crowd[-1]]) == 2


def test_who_leaves_has_first_what_everybody_was_told_before(gallery: Gallery) -> None:
    crowd = [gallery.seat() for _ in range(9)]
    gallery.show()
    gallery.say("it is over")
    gallery.fanout.leave(crowd[-1])
    assert gallery.taken[crowd[-1]] == ["0", "it is over"]


def test_what_is_dropped_is_given_to_nobody_any_more(gallery: Gallery) -> None:
    crowd = [gallery.seat() for _ in range(9)]
    gallery.show()
    gallery.play()
    gallery.say("stays")
    gallery.fanout.drop(EncodedFrame, EncodedSound)
    gallery.finish()
    assert gallery.taken[crowd[-1]] == ["stays"]
    gallery.show()
    gallery.finish()
    assert gallery.taken[crowd[-1]] == ["stays", "1"]
    assert gallery.figures.skipped.counts["crowd"] == 0


def test_who_is_given_too_much_to_read_is_given_up_and_the_others_go_on(gallery: Gallery) -> None:
    silent, other = gallery.seat(), gallery.seat()
    silent.outbox.news = lambda: None
    for number in range(1001):
        gallery.say(str(number))
        gallery.finish()
    assert silent.given_up.is_set()
    assert len(gallery.taken[other]) == 1001
    assert gallery.fanout.kept == 0
