from __future__ import annotations

import statistics
from collections import deque
from dataclasses import dataclass, field
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactor_runtime.server.delivery.send_window import STALLED_S, TRUSTED_BYTES, UNKNOWN_S, SendWindow

MS = 0.001


@dataclass
class Path:
    """A source, a link with a delay and an optional rate, and a client that acknowledges the newest painted frame."""

    source_fps: float
    delay_s: float = 0.0
    link_fps: float | None = None
    paint_fps: float | None = None
    window: SendWindow = field(default_factory=SendWindow)
    ages: list[float] = field(default_factory=list)
    painted: list[int] = field(default_factory=list)
    most_in_flight: int = 0

    def run(self, seconds: float) -> None:
        """Advance time in steps of a millisecond."""
        slot: tuple[int, float] | None = None
        link: deque[tuple[float, int, float]] = deque()
        acks: deque[tuple[float, int]] = deque()
        newest: tuple[int, float] | None = None
        produced, last_painted, acknowledged, link_free, next_paint = 0, -1, -1, 0.0, 0.0
        for tick in range(int(seconds / MS)):
            now = 1.0 + tick * MS
            while acks and acks[0][0] <= now:
                acknowledged = acks.popleft()[1]
                self.window.frames_acknowledged(acknowledged, now)
            if tick * MS >= produced / self.source_fps:
                if slot is not None:
                    self.window.frame_skipped()
                slot, produced = (produced, now), produced + 1
            if slot is not None and self.window.is_open(now):
                link_free = max(link_free, now) + (1 / self.link_fps if self.link_fps else 0)
                self.window.frame_sent(slot[0], now, 1 / self.source_fps)
                link.append((link_free + self.delay_s, *slot))
                slot = None
                self.most_in_flight = max(self.most_in_flight, len(link))
            while link and link[0][0] <= now:
                newest = link.popleft()[1:]
            if newest is not None and newest[0] > last_painted and now >= next_paint:
                last_painted = newest[0]
                next_paint = now + (1 / self.paint_fps if self.paint_fps else 0)
                self.painted.append(last_painted)
                self.ages.append(now - newest[1])
                acks.append((now + self.delay_s, last_painted))


def late(ages: list[float]) -> float:
    """Return the age that one frame in a hundred exceeds, after the window has settled."""
    settled = sorted(ages[len(ages) // 4 :])
    return settled[int(len(settled) * 0.99)]


def test_the_window_is_open_for_a_client_that_never_acknowledges() -> None:
    window = SendWindow()
    for seq in range(1000):
        assert window.is_open(float(seq))
        window.frame_sent(seq, float(seq), 1 / 30)
    assert not window.acknowledging


def test_an_unknown_client_is_sent_what_it_can_be_trusted_with() -> None:
    window, size_bytes = SendWindow(), TRUSTED_BYTES // 2
    for seq in range(2):
        assert window.is_open(1.0)
        window.frame_sent(seq, 1.0, 1 / 60, size_bytes)
    assert not window.is_open(1.0)
    window.frames_acknowledged(0, 1.01)
    assert window.is_open(1.01)


def test_a_client_that_acknowledges_nothing_for_a_while_is_sent_all_frames() -> None:
    window = SendWindow()
    window.frame_sent(0, 1.0, 1 / 60, TRUSTED_BYTES)
    assert not window.is_open(1.0 + UNKNOWN_S - MS)
    assert window.reopens_at() == 1.0 + UNKNOWN_S
    for seq in range(1, 100):
        now = 1.0 + UNKNOWN_S + seq / 60
        assert window.is_open(now)
        window.frame_sent(seq, now, 1 / 60, TRUSTED_BYTES)


def test_a_client_that_cannot_acknowledge_is_trusted_from_the_start() -> None:
    window = SendWindow(may_acknowledge=False)
    for seq in range(9):
        assert window.is_open(1.0)
        window.frame_sent(seq, 1.0, 1 / 60, TRUSTED_BYTES)


def test_smaller_frames_begin_with_as_many_in_flight_as_the_larger_ones() -> None:
    path = Path(source_fps=60, delay_s=0.002, paint_fps=15)
    path.run(3)
    before = path.window.frames
    path.window.resize(0.1)
    assert path.window.frames <= before


@pytest.mark.parametrize("delay_s", [0.0, 0.01, 0.05, 0.15])
def test_a_fast_path_gets_every_frame_at_any_delay(delay_s: float) -> None:
    path = Path(source_fps=30, delay_s=delay_s)
    path.run(12)
    assert len(path.painted) >= 12 * 30 - 12
    assert late(path.ages) <= delay_s + 0.005


@pytest.mark.parametrize("source_fps", [30, 60])
def test_a_client_that_paints_15_fps_paints_fresh_frames(source_fps: float) -> None:
    path = Path(source_fps=source_fps, delay_s=0.002, paint_fps=15)
    path.run(30)
    assert len(path.painted) >= 30 * 15 * 0.95
    assert late(path.ages) < 0.100


def test_a_link_of_half_the_rate_is_full_without_a_queue() -> None:
    path = Path(source_fps=30, delay_s=0.01, link_fps=15)
    path.run(30)
    assert len(path.painted) >= 30 * 15 * 0.9
    assert statistics.median(path.ages) < 0.200
    assert late(path.ages) < 0.400
    assert path.most_in_flight <= 6


def test_a_stalled_client_is_sent_one_frame_after_2_s() -> None:
    window = SendWindow()
    window.frame_sent(0, 1.0, 1 / 30)
    window.frames_acknowledged(0, 1.01)
    seq = 1
    while window.is_open(1.02):
        window.frame_sent(seq, 1.02, 1 / 30)
        seq += 1
    assert seq < 10
    reopens_at = window.reopens_at() + 1e-6
    assert reopens_at <= 1.03 + STALLED_S
    assert not window.is_open(reopens_at - 0.01)
    assert window.is_open(reopens_at)
    window.frame_sent(seq, reopens_at, 1 / 30)
    assert not window.is_open(reopens_at + 0.01)


def test_an_acknowledgement_after_a_stall_opens_the_window() -> None:
    window = SendWindow()
    for seq in range(4):
        window.frame_sent(seq, 1.0, 1 / 30)
    window.frames_acknowledged(0, 1.1)
    window.frames_acknowledged(3, 10.0)
    assert window.is_open(10.0)


@given(st.lists(st.integers(-5, 2**32), max_size=30))
def test_invalid_acknowledgements_do_not_close_the_window(seqs: list[int]) -> None:
    window = SendWindow()
    for now, seq in enumerate(seqs):
        window.frames_acknowledged(seq, float(now))
        if window.is_open(float(now)):
            window.frame_sent(now, float(now), 1 / 30)
    assert window.frames >= 1


@given(
    st.sampled_from([15.0, 30.0, 60.0]),
    st.floats(0, 0.2),
    st.none() | st.sampled_from([5.0, 15.0, 40.0]),
    st.none() | st.sampled_from([5.0, 15.0, 60.0]),
)
def test_frames_continue_and_stay_in_order(
    source_fps: float, delay_s: float, link_fps: float | None, paint_fps: float | None
) -> None:
    path = Path(source_fps, delay_s, link_fps, paint_fps)
    path.run(4)
    slowest = min(source_fps, link_fps or source_fps, paint_fps or source_fps)
    assert len(path.painted) >= 4 * slowest * 0.5 - 2
    assert path.painted == sorted(set(path.painted))


def test_after_a_change_of_frame_size_twice_the_frames_that_a_long_path_holds_are_sent() -> None:
    window = SendWindow()
    for seq in range(60):
        window.frame_sent(seq, seq / 30, 1 / 30)
        if seq >= 9:
            window.frames_acknowledged(seq - 9, seq / 30)
    assert window.round_trip_s == pytest.approx(0.3)
    window.resize(1.0)
    window.frame_skipped()
    assert window.frames == 18
    # The first round has no rate yet.
    window.frames_acknowledged(51, 60 / 30)
    assert window.frames == 18


def test_a_path_that_carries_every_frame_again_gets_one_more_for_jitter() -> None:
    window = SendWindow()
    allowed: list[int] = []
    for seq in range(60):
        window.frame_sent(seq, seq / 30, 1 / 30)
        if seq == 5:
            window.frame_skipped()
        window.frames_acknowledged(seq, seq / 30 + 0.01)
        allowed.append(window.frames)
    assert 1 in allowed[5:20]
    assert set(allowed[-16:]) == {2}


def test_a_new_session_is_acknowledged_after_an_unacknowledged_frame_of_the_last() -> None:
    window = SendWindow()
    window.frame_sent(238, 1.0, 1 / 30)
    window.frames_acknowledged(238, 1.01)
    window.frame_sent(239, 1.02, 1 / 30)
    window.frame_sent(0, 1.05, 1 / 30)
    window.frames_acknowledged(0, 1.06)
    assert window.is_open(1.07)
    window.frame_sent(1, 1.08, 1 / 30)
    assert window.is_open(1.09)


def test_a_late_acknowledgement_of_the_last_session_is_ignored() -> None:
    """Counting it would give a short round trip, keep the window too small for 10 s and make the ladder fall."""
    window = SendWindow()
    for seq in range(500, 506):
        window.frame_sent(seq, 1.0 + seq / 1000, 1 / 30)
    window.frames_acknowledged(502, 1.7)
    window.begin_session()
    for seq in range(window.frames):
        window.frame_sent(seq, 1.75, 1 / 30)
    window.frames_acknowledged(505, 1.76)
    assert not window.is_open(1.76)
    window.frames_acknowledged(0, 1.95)
    assert window.round_trip_s == pytest.approx(0.2)


@pytest.mark.parametrize(("larger", "most"), [(0.1, 30), (10.0, 4)])
def test_a_window_adapts_to_a_change_of_frame_size(larger: float, most: int) -> None:
    path = Path(source_fps=30, delay_s=0.1, link_fps=15)
    path.run(10)
    before = path.window.frames
    path.window.resize(larger)
    path.window.frame_skipped()
    assert (path.window.frames > before) == (larger < 1)
    assert path.window.frames <= most


def test_the_frame_after_a_very_slow_one_is_sent_alone() -> None:
    window = SendWindow()
    for seq in range(10):
        window.frame_sent(seq, seq / 30, 1 / 30)
        window.frames_acknowledged(seq, seq / 30 + 0.02)
    assert window.frames == 2
    for seq in (10, 11):
        window.frame_sent(seq, 1.0, 1 / 30)
    window.frames_acknowledged(10, 1.3)
    assert not window.is_open(1.3)
    window.frames_acknowledged(11, 1.31)
    assert window.is_open(1.31)
    window.frame_sent(12, 1.31, 1 / 30)
    assert not window.is_open(1.32)
    window.frames_acknowledged(12, 1.33)
    assert window.frames == 2


def acknowledged(
    window: SendWindow, round_trip_s: float, count: int, *, first: int = 0, skips: bool = False
) -> list[int]:
    """Send frames at 30 fps from `first` on that are acknowledged after the round trip; return the limits meanwhile."""
    allowed: list[int] = []
    acks: deque[tuple[float, int]] = deque()
    for seq in range(first, first + count):
        now = seq / 30
        while acks and acks[0][0] <= now:
            at, oldest = acks.popleft()
            window.frames_acknowledged(oldest, at)
        if skips:
            window.frame_skipped()
        window.frame_sent(seq, now, 1 / 30)
        acks.append((now + round_trip_s, seq))
        allowed.append(window.frames)
    return allowed


@pytest.mark.parametrize(("round_trip_s", "frames"), [(0.001, 2), (0.04, 2), (0.05, 3), (0.3, 10)])
def test_a_path_without_skips_has_room_for_its_round_trip_and_one_frame(round_trip_s: float, frames: int) -> None:
    assert acknowledged(SendWindow(), round_trip_s, 60)[-1] == frames


def test_one_more_frame_is_tried_in_two_of_eight_rounds() -> None:
    allowed = acknowledged(SendWindow(), 0.02, 100, skips=True)
    assert (set(allowed[-64:]), allowed[-64:].count(2)) == ({1, 2}, 16)


def test_a_quarter_of_a_frame_in_flight_needs_no_room() -> None:
    assert set(acknowledged(SendWindow(), 0.04, 100, skips=True)[-50:]) == {1, 2}


def test_a_round_trip_below_twice_the_shortest_with_one_interval_is_jitter() -> None:
    window = SendWindow()
    acknowledged(window, 0.02, 10)
    acknowledged(window, 0.1, 10, first=10)
    assert window.round_trip_s == pytest.approx(0.1)
    assert window.frames == 2


def test_the_shortest_round_trip_is_forgotten_after_ten_seconds() -> None:
    window = SendWindow()
    acknowledged(window, 0.02, 10)
    allowed = acknowledged(window, 0.3, 400, first=10)
    assert (allowed[100], allowed[-1]) == (1, 10)


def test_an_acknowledgement_of_a_frame_before_those_in_flight_is_ignored() -> None:
    window = SendWindow()
    window.frame_sent(5, 1.0, 1 / 30)
    window.frames_acknowledged(4, 1.5)
    assert not window.acknowledging
    window.frames_acknowledged(5, 2.0)
    assert window.round_trip_s == 1.0


def test_the_rate_of_the_last_session_is_forgotten_with_its_numbers() -> None:
    window = SendWindow()
    acknowledged(window, 0.3, 100, first=500, skips=True)
    assert window.frames >= 9
    window.frame_sent(0, 21.0, 1 / 30)
    window.frame_skipped()
    assert window.frames == 2


def test_a_session_that_begins_with_the_number_of_an_unacknowledged_frame_has_room() -> None:
    window = SendWindow()
    window.frame_sent(0, 1.0, 1 / 30)
    window.frames_acknowledged(0, 1.01)
    window.frame_sent(1, 1.02, 1 / 30)
    window.frame_sent(1, 1.05, 1 / 30)
    assert window.is_open(1.05)


def test_frames_in_flight_of_the_last_session_take_no_room_from_the_next() -> None:
    window = SendWindow()
    acknowledged(window, 0.05, 10)
    window.frame_sent(10, 10 / 30, 1 / 30)
    assert not window.is_open(10 / 30)
    window.begin_session()
    assert window.is_open(10 / 30)
    window.frames_acknowledged(10, 1.0)
    assert window.round_trip_s == pytest.approx(0.05)


def test_a_round_ends_with_a_frame_that_was_sent_after_it_began() -> None:
    # Three frames are in flight, so that two of eight rounds are 6 of 24 frames.
    allowed = acknowledged(SendWindow(), 0.09, 200, skips=True)
    runs = [(frames, len(list(run))) for frames, run in groupby(allowed)]
    assert runs[-5:-1] in ([(3, 18), (4, 6)] * 2, [(4, 6), (3, 18)] * 2)


def test_the_frames_in_flight_at_most_double_in_each_round_after_a_change_of_frame_size() -> None:
    window = SendWindow()
    acknowledged(window, 0.09, 90, skips=True)
    assert window.frames == 3
    window.resize(0.5)
    # There is room for the round trip and one frame again, since the path was limited by the larger frames only.
    assert acknowledged(window, 0.09, 10, first=90) == [3] * 3 + [4] * 7
    window.begin_session()
    assert window.frames == 4
