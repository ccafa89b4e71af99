from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactor_runtime.server.encoding.encoded import EncodedFrame, EncodedSound
from reactor_runtime.wire.messages import View
from tests.server.fanout_fixture import FanoutFixture


@pytest.fixture
def fixture() -> FanoutFixture:
    return FanoutFixture()


def test_few_viewers_get_every_item_at_once(fixture: FanoutFixture) -> None:
    viewers = [fixture.add_client() for _ in range(3)]
    fixture.show_frame()
    assert fixture.counts(viewers) == [1, 1, 1]
    assert (fixture.turns, fixture.fanout.kept_items) == ([], 0)


def test_the_first_member_gets_a_frame_before_all_others(fixture: FanoutFixture) -> None:
    viewers = [fixture.add_client() for _ in range(10)]
    first = fixture.add_client(first=True)
    came_at: list[float] = []
    first.outbox.notify_queued(lambda: came_at.append(fixture.clock.now()))
    began = fixture.clock.now()
    fixture.show_frame()
    assert came_at == [began]
    assert sum(fixture.counts(viewers)) > 0


def test_viewers_share_one_slice_of_time_a_turn(fixture: FanoutFixture) -> None:
    viewers = [fixture.add_client() for _ in range(10)]
    fixture.show_frame()
    assert fixture.counts(viewers) == [1, 1, 1, 1, 0, 0, 0, 0, 0, 0]
    fixture.run_turn()
    assert fixture.counts(viewers) == [1, 1, 1, 1, 1, 1, 1, 1, 0, 0]
    fixture.run_turn()
    assert fixture.counts(viewers) == [1] * 10
    assert (fixture.turns, fixture.fanout.kept_items) == ([], 0)


def test_many_items_in_one_turn_get_one_slice(fixture: FanoutFixture) -> None:
    viewers = [fixture.add_client() for _ in range(50)]
    for _ in range(5):
        fixture.show_frame()
        fixture.broadcast("text")
    assert len(fixture.turns) == 1
    assert sum(fixture.counts(viewers)) == 4


def test_the_first_member_gets_the_next_frame_before_viewers_have_the_last(fixture: FanoutFixture) -> None:
    viewers = [fixture.add_client() for _ in range(10)]
    first = fixture.add_client(first=True)
    for _ in range(3):
        fixture.show_frame()
    assert fixture.taken[first] == ["0", "1", "2"]
    fixture.run_all_turns()
    assert all(taken[-1] == "2" for taken in map(fixture.taken.__getitem__, viewers))


def test_a_viewer_that_skipped_a_frame_is_served_next(fixture: FanoutFixture) -> None:
    viewers = [fixture.add_client() for _ in range(10)]
    fixture.show_frame()
    fixture.show_frame()
    fixture.run_all_turns()
    assert [fixture.taken[client] for client in viewers] == [["0", "1"]] * 4 + [["1"]] * 6
    assert fixture.metrics.skipped.counts["viewers"] == 6


@given(viewers=st.integers(1, 60), turns=st.lists(st.integers(0, 6), min_size=1, max_size=60))
def test_all_viewers_skip_equally_often(viewers: int, turns: list[int]) -> None:
    fixture = FanoutFixture()
    first, members = fixture.add_client(first=True), [fixture.add_client() for _ in range(viewers)]
    for count in turns:
        fixture.show_frame()
        for _ in range(count):
            fixture.run_turn()
        served = fixture.counts(members)
        assert max(served) - min(served) <= 1
    fixture.run_all_turns()
    for client in [first, *members]:
        counters = client.outbox.counters
        assert counters.offered == len(turns)
        assert counters.sent + counters.skipped == len(turns)
        assert fixture.taken[client][-1] == str(len(turns) - 1)
    assert len(fixture.taken[first]) == len(turns)
    assert fixture.fanout.kept_items == 0


def test_only_frames_are_skipped_and_order_is_kept(fixture: FanoutFixture) -> None:
    viewers = [fixture.add_client() for _ in range(9)]
    for number in range(3):
        fixture.show_frame()
        fixture.broadcast(f"after {number}")
        fixture.play_sound()
    fixture.run_all_turns()
    whole = ["0", "after 0", "sound", "1", "after 1", "sound", "2", "after 2", "sound"]
    for client in viewers:
        assert [item for item in fixture.taken[client] if item not in "01"] == [
            item for item in whole if item not in "01"
        ]
        assert fixture.taken[client] == [item for item in whole if item in fixture.taken[client]]


def test_a_frame_does_not_replace_one_of_another_track(fixture: FanoutFixture) -> None:
    viewers = [fixture.add_client() for _ in range(9)]
    fixture.show_frame("left")
    fixture.show_frame("right")
    fixture.run_all_turns()
    assert [fixture.taken[client] for client in viewers] == [["0", "1"]] * 9


def test_a_frame_outside_the_view_is_not_counted_as_skipped(fixture: FanoutFixture) -> None:
    viewers = [fixture.add_client(view=View(paused=True)) for _ in range(2)] + [fixture.add_client() for _ in range(9)]
    fixture.show_frame()
    fixture.show_frame()
    fixture.run_all_turns()
    assert [client.outbox.counters.offered for client in viewers] == [0, 0] + [2] * 9


def test_a_message_to_one_client_follows_earlier_broadcasts(fixture: FanoutFixture) -> None:
    viewers = [fixture.add_client() for _ in range(9)]
    fixture.show_frame()
    fixture.broadcast("to all")
    viewers[-1].send_message("alone", {})
    assert fixture.taken[viewers[-1]] == ["0", "to all", '{"type":"alone","data":{}}']
    fixture.run_all_turns()
    assert fixture.taken[viewers[-2]] == ["0", "to all"]


def test_a_broadcast_leaves_out_the_excepted_clients(fixture: FanoutFixture) -> None:
    included, excepted = fixture.add_client(), fixture.add_client()
    fixture.broadcast("to all others", excepted)
    assert (fixture.taken[included], fixture.taken[excepted]) == (["to all others"], [])


def test_a_callback_runs_for_each_member_in_the_order_of_items(fixture: FanoutFixture) -> None:
    viewers = [fixture.add_client() for _ in range(9)]
    fixture.show_frame()
    fixture.fanout.publish(lambda each: each.send_message("counted", {"offered": each.outbox.counters.offered}))
    fixture.show_frame()
    fixture.run_all_turns()
    assert {taken[-2] for taken in fixture.taken.values()} == {'{"type":"counted","data":{"offered":1}}'}
    assert [fixture.taken[client][-1] for client in viewers] == ["1"] * 9


def test_a_new_member_gets_no_earlier_item(fixture: FanoutFixture) -> None:
    for _ in range(9):
        fixture.add_client()
    fixture.show_frame()
    newcomer = fixture.add_client()
    fixture.run_all_turns()
    assert fixture.taken[newcomer] == []


def test_items_are_released_when_a_member_leaves(fixture: FanoutFixture) -> None:
    viewers = [fixture.add_client() for _ in range(9)]
    fixture.show_frame()
    for client in viewers[4:]:
        fixture.fanout.leave(client)
    assert fixture.fanout.kept_items == 0
    fixture.fanout.leave(viewers[-1])
    fixture.run_all_turns()
    fixture.show_frame()
    assert fixture.counts(viewers) == [2] * 4 + [1] * 5
    viewers[-1].send_message("alone", {})
    assert len(fixture.taken[viewers[-1]]) == 2


def test_a_member_that_leaves_gets_earlier_broadcasts_first(fixture: FanoutFixture) -> None:
    viewers = [fixture.add_client() for _ in range(9)]
    fixture.show_frame()
    fixture.broadcast("it is over")
    fixture.fanout.leave(viewers[-1])
    assert fixture.taken[viewers[-1]] == ["0", "it is over"]


def test_dropped_items_reach_no_member(fixture: FanoutFixture) -> None:
    viewers = [fixture.add_client() for _ in range(9)]
    fixture.show_frame()
    fixture.play_sound()
    fixture.broadcast("stays")
    fixture.fanout.drop_items(EncodedFrame, EncodedSound)
    fixture.run_all_turns()
    assert fixture.taken[viewers[-1]] == ["stays"]
    fixture.show_frame()
    fixture.run_all_turns()
    assert fixture.taken[viewers[-1]] == ["stays", "1"]
    assert fixture.metrics.skipped.counts["viewers"] == 0


def test_a_client_that_reads_nothing_is_given_up_and_others_continue(fixture: FanoutFixture) -> None:
    silent, other = fixture.add_client(), fixture.add_client()
    silent.outbox.notify_queued(None)
    for number in range(1001):
        fixture.broadcast(str(number))
        fixture.run_all_turns()
    assert silent.given_up.is_set()
    assert len(fixture.taken[other]) == 1001
    assert fixture.fanout.kept_items == 0
