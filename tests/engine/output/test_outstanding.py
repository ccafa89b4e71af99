from __future__ import annotations

from reactor_runtime.engine.output.outstanding import ENCODING, Handed, Outstanding

INTERVAL_S = 0.1


def outstanding(*dues: float) -> Outstanding:
    made = Outstanding(2)
    for number, due in enumerate(dues):
        made.add(number, Handed(due, 0.0, None))
    return made


def test_it_is_full_when_buffer_size_moments_wait() -> None:
    assert not outstanding(1.0).full(0.9, INTERVAL_S)
    assert outstanding(1.0, 1.1).full(0.9, INTERVAL_S)


def test_late_moments_leave_room_for_as_many_as_are_encoded_at_once() -> None:
    late = [1.0] * 2
    assert not outstanding(*late).full(2.0, INTERVAL_S)
    assert not outstanding(*late, 1.0).full(2.0, INTERVAL_S)
    assert outstanding(*late, *[1.0] * ENCODING).full(2.0, INTERVAL_S)


def test_what_is_taken_makes_room_and_is_given_once() -> None:
    made = outstanding(1.0, 1.1)
    assert made.take(0) == Handed(1.0, 0.0, None)
    assert made.take(0) is None
    assert not made.full(0.9, INTERVAL_S)


def test_room_is_made_for_two_batches_of_frames_and_not_for_sound() -> None:
    made = outstanding(*[1.0] * 5)
    made.make_room(3)
    made.make_room(1)
    assert not made.full(0.9, INTERVAL_S)
    made.add(5, Handed(1.0, 0.0, None))
    assert made.full(0.9, INTERVAL_S)
    for number in (6, 7):
        made.add(number, Handed(1.0, 0.0, None, alone=True))
    assert made.full(0.9, INTERVAL_S, alone=True)


def test_another_session_begins_with_nothing() -> None:
    made = outstanding(1.0, 1.1)
    made.make_room(3)
    made.clear()
    assert len(made) == 0
    made.add(2, Handed(1.0, 0.0, None))
    made.add(3, Handed(1.1, 0.0, None))
    assert made.full(0.9, INTERVAL_S)
