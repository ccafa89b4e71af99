from __future__ import annotations

import pytest

from reactor_runtime.seam.messages import Moment, Picture
from reactor_runtime.server.encoded import Encoded, EncodedFrame, Work
from reactor_runtime.server.figures import MOST_VALUES, OTHER, Figures, Histogram, Tally
from reactor_runtime.server.outbox import Outbox
from reactor_runtime.wire.messages import View
from tests.fakes import FakeClock


def moment(seq: int, *, session: str = "s", first: bool = True, inputs: tuple[float, ...] = ()) -> Moment:
    pictures = (Picture("video", seq, 0, 2, 2),)
    return Moment(session, seq, 0.0, 0.1, 0.0, 0, 0, 0.02, pictures, first=first, inputs=inputs)


def test_a_value_on_a_bound_is_within_it() -> None:
    histogram = Histogram((1, 2))
    for value in (0.5, 1.0, 1.5, 2.5):
        histogram.observe(value)
    assert histogram.buckets() == [("1.0", 2), ("2.0", 3), ("+Inf", 4)]
    assert histogram.sum == 5.5


def test_a_tally_of_any_number_of_names_stays_small() -> None:
    tally = Tally("known")
    for number in range(1000):
        tally.add(f"made up {number}")
    tally.add("known")
    assert len(tally.counts) == MOST_VALUES + 2
    assert tally.counts["known"] == 1
    assert tally.counts[OTHER] == 1000 - MOST_VALUES


def test_the_names_of_an_author_take_no_place_from_ours_and_are_short() -> None:
    errors = Figures().errors
    for number in range(1000):
        errors.add(f"no_such_file_{number}")
    errors.add("x" * 65)
    errors.add("model_error")
    assert errors.counts["model_error"] == 1
    assert max(map(len, errors.counts)) <= 64


def test_a_gap_in_the_numbers_was_made_and_discarded() -> None:
    figures = Figures()
    for seq in (2, 3, 7):
        figures.arrived(moment(seq))
    assert figures.frames.emitted == {"video": 8}
    assert figures.dropped.counts["discarded"] == 5


def test_another_session_numbers_from_zero() -> None:
    figures = Figures()
    for session in ("s-1", "s-2"):
        figures.arrived(moment(0, session=session))
    assert figures.frames.emitted == {"video": 2}
    assert figures.dropped.counts["discarded"] == 0


def test_sessions_at_the_same_time_number_each_for_themselves() -> None:
    figures = Figures()
    for seq in range(3):
        for session in ("s-1", "s-2"):
            figures.arrived(moment(seq, session=session))
    assert figures.frames.emitted == {"video": 6}
    assert figures.dropped.counts["discarded"] == 0


def test_an_input_is_seen_in_a_frame_of_its_own_session() -> None:
    figures = Figures()
    for session in ("s-1", "s-2"):
        figures.arrived(moment(0, session=session))
    figures.lost(moment(0, session="s-1", inputs=(1.0,)), "flushed")
    figures.shown(moment(1, session="s-2"), now=2.0)
    assert figures.input_s.sum == 0
    figures.shown(moment(1, session="s-1"), now=3.0)
    assert figures.input_s.sum == 2.0


def test_a_session_that_is_over_leaves_nothing() -> None:
    figures = Figures()
    figures.arrived(moment(0))
    figures.forget("s")
    figures.lost(moment(1, inputs=(1.0,)), "flushed")
    figures.arrived(moment(0))
    figures.shown(moment(0), now=2.0)
    assert figures.input_s.sum == 0


def test_a_step_counts_once_however_many_frames_it_made() -> None:
    figures = Figures()
    for seq in range(4):
        figures.shown(moment(seq, first=seq == 0), 0.0)
    assert figures.step_s.buckets()[-1] == ("+Inf", 1)


def test_an_input_takes_until_the_first_frame_that_shows_it() -> None:
    figures = Figures()
    figures.shown(moment(0, inputs=(1.0, 1.5)), now=2.0)
    figures.shown(moment(1), now=3.0)
    assert figures.input_s.buckets()[-1] == ("+Inf", 2)
    assert figures.input_s.sum == 1.5


def test_an_input_whose_frame_was_flushed_waits_for_the_next_one() -> None:
    figures = Figures()
    figures.arrived(moment(0))
    figures.lost(moment(0, inputs=(1.0,)), "flushed")
    figures.arrived(moment(1))
    figures.shown(moment(1, inputs=(1.5,)), now=2.0)
    assert figures.input_s.sum == 1.5


def test_an_input_of_a_session_that_is_over_is_never_seen() -> None:
    figures = Figures()
    figures.lost(moment(0, inputs=(1.0,)), "flushed")
    figures.arrived(moment(0, session="another"))
    figures.shown(moment(0, session="another"), now=2.0)
    assert figures.input_s.sum == 0


def test_what_is_sent_is_counted_by_kind_in_bytes() -> None:
    figures = Figures()
    for item in ("häuser", b"\xff\xd8 picture", b"RIFF"):
        figures.sent(item, 0.001)
    assert figures.traffic.sent_bytes.counts == {"video": 10, "audio": 4, "text": 7}
    assert figures.traffic.sent_messages == 1
    assert figures.send_s.buckets()[-1] == ("+Inf", 2)


def test_what_is_encoded_and_sent_is_counted_by_rung() -> None:
    figures, frame = Figures(), EncodedFrame("video", 0, b"", 0.1, 0, {3: b"", 5: b""})
    whole, smaller = EncodedFrame("video", 0, b"", 0.1), EncodedFrame("video", 0, b"", 0.1, 3, {5: b""})
    figures.encoded([Encoded((whole,), (), (Work(1.0, 1.5, 7),)), Encoded((smaller,), (), (Work(1.25, 2.0, 8),))])
    assert figures.frames.encoded == {("video", rung): 1 for rung in (0, 3, 5)}
    assert (figures.encode_s.buckets()[-1], figures.encode_s.sum) == (("+Inf", 1), 1.0)
    outbox = Outbox(FakeClock(), figures)
    outbox.offer(frame)
    outbox.take()
    assert figures.frames.sent == {("video", 0): 1}


def test_a_copy_stays_as_it_is() -> None:
    figures = Figures()
    figures.arrived(moment(0))
    copied = figures.copied()
    figures.arrived(moment(1))
    assert copied.frames.emitted == {"video": 1}


@pytest.mark.parametrize("reason", ["socket", "window", "rate"])
def test_a_frame_is_skipped_for_a_reason(reason: str) -> None:
    clock, figures = FakeClock(), Figures()
    outbox = Outbox(clock, figures)
    if reason == "rate":
        outbox.set_view(View(max_fps=1.0))
    for seq in range(20):
        outbox.offer(EncodedFrame("video", seq, b"", 0.1))
        if reason != "socket":
            outbox.take()
        if reason == "window" and seq == 0:
            outbox.acknowledge("video", 0)
    assert {name for name, count in figures.skipped.counts.items() if count} == {reason}
