from __future__ import annotations

import random
import statistics
from collections import deque
from collections.abc import Callable
from itertools import pairwise

import pytest

from reactor_runtime.server.delivery.send_window import SendWindow
from reactor_runtime.server.encoding.video_rate import VideoRate

INTERVAL_S = 1 / 30
DELAY_S = 0.02


class Link:
    """Send the frames of a model over a link of one rate, whose queue holds what the window admits."""

    def __init__(
        self,
        rate: VideoRate,
        *,
        held_s: float = 0.0,
        still: bool = False,
        stalled_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.rate = rate
        self.window = SendWindow()
        self.now = 0.0
        self.ages: list[tuple[float, float]] = []
        self.rates: list[tuple[float, float]] = []
        self._held_s = held_s
        self._still = still
        self._stalled_s = stalled_s
        self._free_at = 0.0
        self._acks: deque[tuple[float, int, float]] = deque()
        self._seq = 0
        self._waiting: tuple[int, float] | None = None

    def run(self, seconds: float, bits_per_s: float) -> None:
        """Pass so much time, in steps of a millisecond."""
        until = self.now + seconds
        while self.now < until:
            while self._acks and self._acks[0][0] <= self.now:
                _, seq, made_at = self._acks.popleft()
                self.ages.append((self.now, self.now - DELAY_S - made_at))
                self.window.frames_acknowledged(seq, self.now)
                before = self.rate.bits_per_s
                self.rate.frames_acknowledged(seq, self._held_s, self.now)
                if self.rate.bits_per_s != before:
                    self.window.resize(self.rate.bits_per_s / before)
                if self.rate.bits_per_s > before:
                    self.window.forget_round_trips()
            if self.now >= self._seq * INTERVAL_S:
                if self._waiting is not None:
                    self.window.frame_skipped()
                    self.rate.frame_skipped(self.now)
                self._waiting = self._seq, self.now
                self._seq += 1
            if self._waiting is not None and self.window.is_open(self.now):
                self._send(*self._waiting, bits_per_s)
                self._waiting = None
            self.rates.append((self.now, self.rate.bits_per_s))
            self.now += 0.001

    def _send(self, seq: int, made_at: float, bits_per_s: float) -> None:
        bits = 8000 if self._still else self.rate.bits_per_s * INTERVAL_S
        self.window.frame_sent(seq, self.now, INTERVAL_S)
        self.rate.frame_sent(seq, round(bits / 8), INTERVAL_S, self.now)
        self._free_at = max(self._free_at, self.now) + bits / bits_per_s
        at = self._free_at + 2 * DELAY_S + self._held_s + self._stalled_s()
        self._acks.append((max(at, self._acks[-1][0]) if self._acks else at, seq, made_at))

    def ages_between(self, start: float, end: float) -> list[float]:
        return sorted(age for at, age in self.ages if start <= at < end)

    def fps_between(self, start: float, end: float) -> float:
        return len(self.ages_between(start, end)) / (end - start)


def p99(ages: list[float]) -> float:
    return ages[int(0.99 * len(ages))]


@pytest.mark.parametrize("first", [1e6, 8e6, 20e6])
def test_the_rate_comes_near_to_what_the_link_carries(first: float) -> None:
    link = Link(VideoRate(first, 0.0))
    link.run(30, 10e6)
    last = statistics.mean(rate for at, rate in link.rates if at > 20)
    assert 6e6 < last < 10e6
    assert link.fps_between(10, 30) > 28
    assert p99(link.ages_between(2, 30)) < 0.15


def test_a_link_that_gets_slow_delays_frames_for_a_moment_and_one_that_recovers_is_used_again() -> None:
    link = Link(VideoRate(8e6, 0.0, 16.0))
    link.run(10, 10e6)
    before = link.rate.bits_per_s
    link.run(10, 3e6)
    assert 1.8e6 < link.rate.bits_per_s < 3e6
    assert p99(link.ages_between(10, 14)) < 0.25
    assert link.fps_between(11, 20) > 28
    link.run(10, 10e6)
    assert link.rate.bits_per_s > 0.85 * before


def test_a_rate_that_is_not_in_use_stays() -> None:
    link = Link(VideoRate(5e6, 0.0), still=True)
    link.run(30, 10e6)
    assert link.rate.bits_per_s == 5e6


def test_small_frames_that_come_late_say_nothing_about_the_rate() -> None:
    link = Link(VideoRate(5e6, 0.0), still=True)
    link.run(5, 10e6)
    link.run(10, 1e5)
    assert link.rate.bits_per_s == 5e6


def test_failed_climbs_get_rare() -> None:
    link = Link(VideoRate(8e6, 0.0))
    link.run(200, 10e6)
    climbs = [at for (_, a), (at, b) in pairwise(link.rates) if b > a]
    assert len(climbs) < 9
    assert p99(link.ages_between(20, 200)) < 0.1


@pytest.mark.parametrize("first", [8.6e6, 9.2e6])
def test_a_climb_that_the_link_does_not_carry_is_taken_back_before_frames_queue(first: float) -> None:
    link = Link(VideoRate(first, 0.0, 4.0))
    link.run(8, 10e6)
    assert max(rate for _, rate in link.rates) > 11e6
    assert link.rate.bits_per_s < 9e6
    ages = link.ages_between(4, 8)
    assert max(ages) < 0.1
    assert sum(age > 0.09 for age in ages) <= 3


def test_a_climb_beyond_what_the_link_carries_is_taken_back_although_no_frame_is_late() -> None:
    link = Link(VideoRate(7.75e6, 0.0, 4.0))
    link.run(5, 10e6)
    assert link.rate.bits_per_s > 10e6
    link.run(1, 10e6)
    assert link.rate.bits_per_s == pytest.approx(7.75e6)
    assert max(link.ages_between(4, 6)) < 0.07


def test_a_climb_near_to_what_the_link_carries_is_not_followed_by_one_that_fails() -> None:
    link = Link(VideoRate(7e6, 0.0, 4.0))
    link.run(19, 10e6)
    assert link.rate.bits_per_s == max(rate for _, rate in link.rates) == pytest.approx(9.1e6)


def test_a_client_that_paints_slowly_is_not_taken_for_a_slow_network() -> None:
    link = Link(VideoRate(5e6, 0.0), held_s=0.2)
    link.run(10, 100e6)
    assert link.rate.bits_per_s > 5e6


def test_a_stall_is_no_slow_network() -> None:
    link = Link(VideoRate(5e6, 0.0, 64.0))
    link.run(5, 10e6)
    link._free_at = link.now + 0.5
    link.run(5, 10e6)
    assert link.rate.bits_per_s == 5e6


@pytest.mark.parametrize("seed", range(1, 5))
def test_a_busy_client_is_not_taken_for_a_network_that_gets_slower_and_slower(seed: int) -> None:
    numbers = random.Random(seed)
    link = Link(
        VideoRate(8e6, 0.0, 4.0), stalled_s=lambda: numbers.expovariate(1 / 0.03) if numbers.random() < 0.5 else 0.0
    )
    link.run(40, 500e6)
    assert link.rate.bits_per_s > 0.8e6


def test_frames_of_another_session_are_forgotten() -> None:
    rate = VideoRate(5e6, 0.0)
    rate.frame_sent(900, 1000, INTERVAL_S, 1.0)
    rate.frame_sent(0, 1000, INTERVAL_S, 2.0)
    rate.frames_acknowledged(900, 0.0, 2.05)
    rate.frames_acknowledged(0, 0.0, 2.05)
    assert rate.fastest_bits_per_s == pytest.approx(8000 / 0.05)
