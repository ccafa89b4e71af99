from __future__ import annotations

from reactor_runtime.engine.output.outstanding import MOST_LATE, Outstanding, OutstandingBundle


def outstanding(*dues: float) -> Outstanding:
    made = Outstanding(2)
    for number, due in enumerate(dues):
        made.add(number, OutstandingBundle(due, 0.0, None))
    return made


def test_buffer_size_bundles_that_wait_for_their_due_time_fill_it() -> None:
    assert not outstanding(1.0).full(0.9)
    assert outstanding(1.0, 1.1).full(0.9)


def test_three_late_bundles_fill_it_whatever_the_buffer_size() -> None:
    assert not outstanding(*[1.0] * (MOST_LATE - 1)).full(2.0)
    assert outstanding(*[1.0] * MOST_LATE).full(2.0)


def test_late_bundles_take_no_room_of_those_that_wait() -> None:
    assert not outstanding(1.0, 1.0, 3.0).full(2.0)
    assert outstanding(1.0, 1.0, 3.0, 3.1).full(2.0)


def test_what_is_taken_makes_room_and_is_given_once() -> None:
    made = outstanding(1.0, 1.1)
    assert made.take(0) == OutstandingBundle(1.0, 0.0, None)
    assert made.take(0) is None
    assert not made.full(0.9)


def test_room_is_made_for_two_batches_of_frames_and_not_for_sound() -> None:
    made = outstanding(*[1.0] * 5)
    made.make_room(3)
    made.make_room(1)
    assert not made.full(0.9)
    made.add(5, OutstandingBundle(1.0, 0.0, None))
    assert made.full(0.9)
    for number in (6, 7):
        made.add(number, OutstandingBundle(1.0, 0.0, None, alone=True))
    assert made.full(0.9, alone=True)


def test_room_grows_to_fifty_frames_at_most() -> None:
    made = outstanding(*[1.0] * 49)
    made.make_room(40)
    assert not made.full(0.9)
    made.add(49, OutstandingBundle(1.0, 0.0, None))
    assert made.full(0.9)


def test_one_batch_has_room_whatever_its_size() -> None:
    made = outstanding(*[1.0] * 59)
    made.make_room(60, batches=1)
    assert not made.full(0.9)
    made.add(59, OutstandingBundle(1.0, 0.0, None))
    assert made.full(0.9)


def test_frames_and_sound_alone_take_no_room_of_each_other() -> None:
    made = outstanding(1.0, 1.0)
    assert (made.full(0.9), made.full(0.9, alone=True)) == (True, False)
    made.add(2, OutstandingBundle(1.0, 0.0, None, alone=True))
    made.add(3, OutstandingBundle(1.0, 0.0, None, alone=True))
    made.take(0)
    assert (made.full(0.9), made.full(0.9, alone=True)) == (False, True)


def test_more_bundles_may_wait_when_the_caller_allows_them() -> None:
    made = outstanding(1.0, 1.1)
    assert not made.full(0.9, more=1)
    made.add(2, OutstandingBundle(1.2, 0.0, None))
    assert made.full(0.9, more=1)


def test_another_buffer_size_counts_at_once() -> None:
    made = outstanding(1.0, 1.1)
    made.set_most(3)
    assert not made.full(0.9)
    made.set_most(1)
    assert made.full(0.9)


def test_another_session_begins_with_nothing() -> None:
    made = outstanding(1.0, 1.1)
    made.make_room(3)
    made.clear()
    assert len(made) == 0
    made.add(2, OutstandingBundle(1.0, 0.0, None))
    made.add(3, OutstandingBundle(1.1, 0.0, None))
    assert made.full(0.9)
