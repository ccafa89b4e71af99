from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactor_runtime.server.encoding.encoded import EncodedFrame, EncodedSound
from reactor_runtime.wire.messages import View
from tests.server.fanout_fixture import FanoutFixture


@pytest.fixture
def assignment() -> FanoutFixture:
    return FanoutFixture()


def test_a_small_crowd_has_everything_at_once(assignment: FanoutFixture) -> None:
    limiter = [assignment.start_session() for _ in range(3)]
    assignment.show()
    assert assignment.served(limiter) == [1, 1, 1]
    assert (assignment.turns, assignment.fanout.kept_items) == ([], 0)


def test_who_is_first_has_a_frame_before_all_others(assignment: FanoutFixture) -> None:
    limiter = [assignment.start_session() for _ in range(10)]
    first = assignment.start_session(first=True)
    came_at: list[float] = []
    first.outbox.notify_queued(lambda: came_at.append(assignment.clock.now()))
    began = assignment.clock.now()
    assignment.show()
    assert came_at == [began]
    assert sum(assignment.served(limiter)) > 0


def test_the_crowd_has_a_slice_of_time_a_turn(assignment: FanoutFixture) -> None:
    limiter = [assignment.start_session() for _ in range(10)]
    assignment.show()
    assert assignment.served(limiter) == [1, 1, 1, 1, 0, 0, 0, 0, 0, 0]
    assignment.turn()
    assert assignment.served(limiter) == [1, 1, 1, 1, 1, 1, 1, 1, 0, 0]
    assignment.turn()
    assert assignment.served(limiter) == [1] * 10
    assert (assignment.turns, assignment.fanout.kept_items) == ([], 0)


def test_there_is_one_slice_a_turn_however_much_comes(assignment: FanoutFixture) -> None:
    limiter = [assignment.start_session() for _ in range(50)]
    for _ in range(5):
        assignment.show()
        assignment.say("text")
    assert len(assignment.turns) == 1
    assert sum(assignment.served(limiter)) == 4


def test_the_next_frame_of_who_is_first_does_not_wait_for_the_crowd(assignment: FanoutFixture) -> None:
    limiter = [assignment.start_session() for _ in range(10)]
    first = assignment.start_session(first=True)
    for _ in range(3):
        assignment.show()
    assert assignment.taken[first] == ["0", "1", "2"]
    assignment.finish()
    assert all(taken[-1] == "2" for taken in map(assignment.taken.__getitem__, limiter))


def test_who_missed_a_frame_is_next(assignment: FanoutFixture) -> None:
    limiter = [assignment.start_session() for _ in range(10)]
    assignment.show()
    assignment.show()
    assignment.finish()
    assert [assignment.taken[client] for client in limiter] == [["0", "1"]] * 4 + [["1"]] * 6
    assert assignment.metrics.skipped.counts["crowd"] == 6


@given(limiter=st.integers(1, 60), turns=st.lists(st.integers(0, 6), min_size=1, max_size=60))
def test_nobody_skips_more_than_others(limiter: int, turns: list[int]) -> None:
    assignment = FanoutFixture()
    first, members = assignment.start_session(first=True), [assignment.start_session() for _ in range(limiter)]
    for count in turns:
        assignment.show()
        for _ in range(count):
            assignment.turn()
        served = assignment.served(members)
        assert max(served) - min(served) <= 1
    assignment.finish()
    for client in [first, *members]:
        counters = client.outbox.counters
        assert counters.offered == len(turns)
        assert counters.sent + counters.skipped == len(turns)
        assert assignment.taken[client][-1] == str(len(turns) - 1)
    assert len(assignment.taken[first]) == len(turns)
    assert assignment.fanout.kept_items == 0


def test_nothing_but_frames_is_skipped_and_all_comes_in_order(assignment: FanoutFixture) -> None:
    limiter = [assignment.start_session() for _ in range(9)]
    for number in range(3):
        assignment.show()
        assignment.say(f"after {number}")
        assignment.play()
    assignment.finish()
    whole = ["0", "after 0", "sound", "1", "after 1", "sound", "2", "after 2", "sound"]
    for client in limiter:
        assert [item for item in assignment.taken[client] if item not in "01"] == [
            item for item in whole if item not in "01"
        ]
        assert assignment.taken[client] == [item for item in whole if item in assignment.taken[client]]


def test_frames_of_another_track_replace_nothing(assignment: FanoutFixture) -> None:
    limiter = [assignment.start_session() for _ in range(9)]
    assignment.show("left")
    assignment.show("right")
    assignment.finish()
    assert [assignment.taken[client] for client in limiter] == [["0", "1"]] * 9


def test_who_does_not_want_a_frame_has_not_missed_it(assignment: FanoutFixture) -> None:
    limiter = [assignment.start_session(view=View(paused=True)) for _ in range(2)] + [
        assignment.start_session() for _ in range(9)
    ]
    assignment.show()
    assignment.show()
    assignment.finish()
    assert [client.outbox.counters.offered for client in limiter] == [0, 0] + [2] * 9


def test_what_is_said_to_one_alone_comes_after_what_all_were_told(assignment: FanoutFixture) -> None:
    limiter = [assignment.start_session() for _ in range(9)]
    assignment.show()
    assignment.say("to all")
    limiter[-1].send_message("alone", {})
    assert assignment.taken[limiter[-1]] == ["0", "to all", '{"type":"alone","data":{}}']
    assignment.finish()
    assert assignment.taken[limiter[-2]] == ["0", "to all"]


def test_a_few_are_not_told(assignment: FanoutFixture) -> None:
    told, spared = assignment.start_session(), assignment.start_session()
    assignment.say("to all others", spared)
    assert (assignment.taken[told], assignment.taken[spared]) == (["to all others"], [])


def test_everyone_is_visited_in_order_with_what_is_shown(assignment: FanoutFixture) -> None:
    limiter = [assignment.start_session() for _ in range(9)]
    assignment.show()
    assignment.fanout.publish(lambda each: each.send_message("visit", {"offered": each.outbox.counters.offered}))
    assignment.show()
    assignment.finish()
    assert {taken[-2] for taken in assignment.taken.values()} == {'{"type":"visit","data":{"offered":1}}'}
    assert [assignment.taken[client][-1] for client in limiter] == ["1"] * 9


def test_a_newcomer_is_given_nothing_of_what_was_before_it(assignment: FanoutFixture) -> None:
    for _ in range(9):
        assignment.start_session()
    assignment.show()
    newcomer = assignment.start_session()
    assignment.finish()
    assert assignment.taken[newcomer] == []


def test_who_leaves_holds_up_nothing(assignment: FanoutFixture) -> None:
    limiter = [assignment.start_session() for _ in range(9)]
    assignment.show()
    for client in limiter[4:]:
        assignment.fanout.leave(client)
        assignment.fanout.leave(client)
    assert assignment.fanout.kept_items == 0
    assignment.finish()
    assignment.show()
    assert assignment.served(limiter) == [2] * 4 + [1] * 5
    limiter[-1].send_message("alone", {})
    assert len(assignment.taken[limiter[-1]]) == 2


def test_who_leaves_has_first_what_everybody_was_told_before(assignment: FanoutFixture) -> None:
    limiter = [assignment.start_session() for _ in range(9)]
    assignment.show()
    assignment.say("it is over")
    assignment.fanout.leave(limiter[-1])
    assert assignment.taken[limiter[-1]] == ["0", "it is over"]


def test_what_is_dropped_is_given_to_nobody_any_more(assignment: FanoutFixture) -> None:
    limiter = [assignment.start_session() for _ in range(9)]
    assignment.show()
    assignment.play()
    assignment.say("stays")
    assignment.fanout.drop_items(EncodedFrame, EncodedSound)
    assignment.finish()
    assert assignment.taken[limiter[-1]] == ["stays"]
    assignment.show()
    assignment.finish()
    assert assignment.taken[limiter[-1]] == ["stays", "1"]
    assert assignment.metrics.skipped.counts["crowd"] == 0


def test_who_is_given_too_much_to_read_is_given_up_and_the_others_go_on(assignment: FanoutFixture) -> None:
    silent, other = assignment.start_session(), assignment.start_session()
    silent.outbox.notify_queued(None)
    for number in range(1001):
        assignment.say(str(number))
        assignment.finish()
    assert silent.given_up.is_set()
    assert len(assignment.taken[other]) == 1001
    assert assignment.fanout.kept_items == 0
