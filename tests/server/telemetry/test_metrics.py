from __future__ import annotations

import pytest

from reactor_runtime.ipc.messages import Bundle, BundleFrame
from reactor_runtime.server.delivery.options import ClientOptions
from reactor_runtime.server.delivery.outbox import Outbox
from reactor_runtime.server.encoding.encoded import Encoded, MediaFile
from reactor_runtime.server.telemetry.metrics import MOST_VALUES, OTHER, Histogram, LabelledCounter, Metrics
from reactor_runtime.wire.media_header import MediaHeader
from reactor_runtime.wire.messages import View
from tests.fakes import FakeClock, frame_of


def bundle(seq: int, *, session: str = "s", first: bool = True, inputs: tuple[float, ...] = ()) -> Bundle:
    pictures = (BundleFrame("video", seq, 0, 2, 2),)
    return Bundle(session, seq, 0.0, 0.1, 0.0, 0, 0, 0.02, pictures, first=first, inputs=inputs)


def test_numbers_are_counted_in_each_seat() -> None:
    metrics = Metrics()
    pictures = [
        (BundleFrame("video", 0, 0, 2, 2, others_seqs=(0,)),),
        (BundleFrame("video", 1, 0, 2, 2, seat=1),),
        (BundleFrame("video", 1, 0, 2, 2, seat=0), BundleFrame("video", 2, 0, 2, 2, seat=1)),
        # The engine has discarded one for all.
        (BundleFrame("video", 3, 0, 2, 2, others_seqs=(4,)),),
    ]
    for number, frames in enumerate(pictures):
        metrics.arrived(bundle(number)._replace(frames=frames))
    assert dict(metrics.frames.emitted) == {"video": 6}
    assert metrics.dropped.counts["discarded"] == 1


def test_a_value_on_a_bound_is_counted_below_it() -> None:
    histogram = Histogram((1, 2))
    for value in (0.5, 1.0, 1.5, 2.5):
        histogram.observe(value)
    assert histogram.buckets() == [("1.0", 2), ("2.0", 3), ("+Inf", 4)]
    assert histogram.sum == 5.5


def test_a_counter_of_any_number_of_labels_stays_small() -> None:
    tally = LabelledCounter("known")
    for number in range(1000):
        tally.add(f"made up {number}")
    tally.add("known")
    assert len(tally.counts) == MOST_VALUES + 2
    assert tally.counts["known"] == 1
    assert tally.counts[OTHER] == 1000 - MOST_VALUES


def test_labels_of_authors_take_no_place_of_given_ones_and_are_short() -> None:
    errors = Metrics().errors
    for number in range(1000):
        errors.add(f"no_such_file_{number}")
    errors.add("x" * 65)
    errors.add("model_error")
    assert errors.counts["model_error"] == 1
    assert max(map(len, errors.counts)) <= 64


def test_a_gap_in_the_sequence_numbers_counts_as_discarded() -> None:
    metrics = Metrics()
    for seq in (2, 3, 7):
        metrics.arrived(bundle(seq))
    assert metrics.frames.emitted == {"video": 8}
    assert metrics.dropped.counts["discarded"] == 5


def test_a_new_session_is_numbered_from_zero() -> None:
    metrics = Metrics()
    for session in ("s-1", "s-2"):
        metrics.arrived(bundle(0, session=session))
    assert metrics.frames.emitted == {"video": 2}
    assert metrics.dropped.counts["discarded"] == 0


def test_sessions_at_the_same_time_are_numbered_separately() -> None:
    metrics = Metrics()
    for seq in range(3):
        for session in ("s-1", "s-2"):
            metrics.arrived(bundle(seq, session=session))
    assert metrics.frames.emitted == {"video": 6}
    assert metrics.dropped.counts["discarded"] == 0


def test_an_input_is_shown_by_a_frame_of_its_own_session() -> None:
    metrics = Metrics()
    for session in ("s-1", "s-2"):
        metrics.arrived(bundle(0, session=session))
    metrics.lost(bundle(0, session="s-1", inputs=(1.0,)), "flushed")
    metrics.shown(bundle(1, session="s-2"), now=2.0)
    assert metrics.input_s.sum == 0
    metrics.shown(bundle(1, session="s-1"), now=3.0)
    assert metrics.input_s.sum == 2.0


def test_nothing_is_kept_of_a_session_that_is_over() -> None:
    metrics = Metrics()
    metrics.arrived(bundle(0))
    metrics.forget("s")
    metrics.lost(bundle(1, inputs=(1.0,)), "flushed")
    metrics.arrived(bundle(0))
    metrics.shown(bundle(0), now=2.0)
    assert metrics.input_s.sum == 0


def test_a_step_counts_once_however_many_frames_it_made() -> None:
    metrics = Metrics()
    for seq in range(4):
        metrics.shown(bundle(seq, first=seq == 0), 0.0)
    assert metrics.step_s.buckets()[-1] == ("+Inf", 1)


def test_the_time_of_an_input_ends_with_the_first_frame_that_shows_it() -> None:
    metrics = Metrics()
    metrics.shown(bundle(0, inputs=(1.0, 1.5)), now=2.0)
    metrics.shown(bundle(1), now=3.0)
    assert metrics.input_s.buckets()[-1] == ("+Inf", 2)
    assert metrics.input_s.sum == 1.5


def test_an_input_whose_frame_was_flushed_waits_for_the_next_one() -> None:
    metrics = Metrics()
    metrics.arrived(bundle(0))
    metrics.lost(bundle(0, inputs=(1.0,)), "flushed")
    metrics.arrived(bundle(1))
    metrics.shown(bundle(1, inputs=(1.5,)), now=2.0)
    assert metrics.input_s.sum == 1.5


def test_an_input_of_a_session_that_is_over_is_not_counted() -> None:
    metrics = Metrics()
    metrics.lost(bundle(0, inputs=(1.0,)), "flushed")
    metrics.arrived(bundle(0, session="another"))
    metrics.shown(bundle(0, session="another"), now=2.0)
    assert metrics.input_s.sum == 0


def test_sent_bytes_are_counted_by_kind() -> None:
    metrics = Metrics()
    header = MediaHeader("main", 0, 0, 0)
    for item in ("häuser", MediaFile("video", header, bytes(10)), MediaFile("audio", header, bytes(4)), b"?"):
        metrics.sent(item, 0.001)
    assert metrics.traffic.sent_bytes.counts == {"video": 10, "audio": 4, "text": 7, "other": 1}
    assert metrics.traffic.sent_messages == 1
    assert metrics.send_s.buckets()[-1] == ("+Inf", 2)


def test_encoded_and_sent_frames_are_counted_by_rung() -> None:
    metrics, frame = Metrics(), frame_of(0, {0: b"", 3: b"", 5: b""})
    whole, smaller = frame_of(0), frame_of(0, {3: b"", 5: b""})
    metrics.encoded([Encoded((whole,), (), 1.0, 1.5, thread=7), Encoded((smaller,), (), 1.25, 2.0, thread=8)])
    assert metrics.frames.encoded == {("video", "jpeg", rung): 1 for rung in (0, 3, 5)}
    assert (metrics.encode_s.buckets()[-1], metrics.encode_s.sum) == (("+Inf", 1), 1.0)
    outbox = Outbox(ClientOptions(FakeClock(), metrics))
    outbox.offer_frame(frame)
    outbox.take_next()
    assert metrics.frames.sent == {("video", "jpeg", 0): 1}


def test_a_copy_does_not_change() -> None:
    metrics = Metrics()
    metrics.arrived(bundle(0))
    copied = metrics.copied()
    metrics.arrived(bundle(1))
    assert copied.frames.emitted == {"video": 1}


@pytest.mark.parametrize("reason", ["socket", "window", "rate"])
def test_a_frame_is_skipped_for_a_reason(reason: str) -> None:
    clock, metrics = FakeClock(), Metrics()
    outbox = Outbox(ClientOptions(clock, metrics))
    if reason == "rate":
        outbox.set_view(View(max_fps=1.0))
    for seq in range(20):
        outbox.offer_frame(frame_of(seq))
        if reason != "socket":
            outbox.take_next()
        if reason == "window" and seq == 0:
            outbox.acknowledge("video", 0)
    assert {name for name, count in metrics.skipped.counts.items() if count} == {reason}
