from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reactor_runtime.server.delivery.options import ClientOptions
from reactor_runtime.server.delivery.outbox import Outbox
from reactor_runtime.server.encoding.encoded import MediaFile
from reactor_runtime.server.encoding.encodings import DEFAULT
from reactor_runtime.server.encoding.ladder import DOUBTED_S, Ladder, Why
from reactor_runtime.wire.messages import View
from tests.fakes import FakeClock, frame_of

MS = 0.001
FPS = 30.0
KERNEL_BITS = 8 * 16_000
GRAINY = (264, 147, 91, 35, 18, 12, 5)  # kB of 720p
BOTTOM = len(DEFAULT.rungs) - 1
SMOOTH = (150, 93, 67, 42, 28, 19, 9)


@dataclass
class Network:
    """A model, an outbox, a link with a rate, a delay and a queue, and a client."""

    mbit: Callable[[float], float]
    delay_s: float = 0.01  # each way
    jitter_s: float = 0.0
    paint_fps: float | None = None
    acknowledges: bool = True
    sizes: tuple[int, ...] = GRAINY
    clock: FakeClock = field(default_factory=FakeClock)
    rungs: list[tuple[float, int]] = field(default_factory=lambda: [(0.0, 0)])  # from when each
    ages: list[tuple[float, float]] = field(default_factory=list)  # when painted, and how old
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self.outbox = Outbox(ClientOptions(self.clock))
        self._random = random.Random(3)
        self._kept: deque[tuple[int, float]] = deque()  # in the kernel: seq, bits that are left
        self._way: deque[tuple[float, int]] = deque()
        self._acks: deque[tuple[float, int]] = deque()
        self._made: dict[int, float] = {}
        self._files = {rung: bytes(1000 * size) for rung, size in enumerate(self.sizes)}
        self._newest, self._painted, self._next_paint, self._arrives = -1, -1, 0.0, 0.0

    @property
    def ladder(self) -> Ladder:
        return self.outbox.track_senders["video"].ladder

    def run(self, seconds: float) -> None:
        """Advance time in steps of a millisecond."""
        for _ in range(round(seconds / MS)):
            self._tick()

    def _tick(self) -> None:
        self.seconds += MS
        self.clock.spend(MS)
        while self._acks and self._acks[0][0] <= self.seconds:
            self.outbox.acknowledge("video", self._acks.popleft()[1])
        if self.seconds >= len(self._made) / FPS:
            seq = len(self._made)
            self._made[seq] = self.seconds
            self.outbox.offer_frame(frame_of(seq, self._files))
        while sum(bits for _, bits in self._kept) <= KERNEL_BITS and (file := self.outbox.take_next()[0]) is not None:
            assert isinstance(file, MediaFile)
            self._kept.append((len(self._made) - 1, 8.0 * len(file.data)))  # the newest is what waits
        self._carry(self.mbit(self.seconds) * 1e6 * MS)
        self._paint()
        if self.ladder.rung != self.rungs[-1][1]:
            self.rungs.append((self.seconds, self.ladder.rung))
            assert self.ladder.rung or self.ladder.why is not Why.NETWORK

    def _carry(self, bits: float) -> None:
        while self._kept and bits > 0:
            seq, left = self._kept.popleft()
            if left > bits:
                self._kept.appendleft((seq, left - bits))
                return
            bits -= left
            self._arrives = max(self._arrives, self.seconds + self.delay_s + self._random.uniform(0, self.jitter_s))
            self._way.append((self._arrives, seq))

    def _paint(self) -> None:
        while self._way and self._way[0][0] <= self.seconds:
            self._newest = self._way.popleft()[1]
            if self.paint_fps is None:
                self._show()
        if self.paint_fps is not None and self.seconds >= self._next_paint:
            self._next_paint = self.seconds + 1 / self.paint_fps
            if self._newest > self._painted:
                self._show()

    def _show(self) -> None:
        self._painted = self._newest
        self.ages.append((self.seconds, self.seconds - self._made[self._painted]))
        if self.acknowledges:
            self._acks.append((self.seconds + self.delay_s, self._painted))

    def fps(self, since: float) -> float:
        return sum(at > since for at, _ in self.ages) / (self.seconds - since)

    def late_s(self, since: float) -> float:
        """Return the age that one painted frame in a hundred exceeds."""
        ages = sorted(age for at, age in self.ages if at > since)
        return ages[int(len(ages) * 0.99)]

    def on(self, at: float) -> int:
        """Return the rung at a time."""
        return [rung for began, rung in self.rungs if began <= at][-1]

    def share(self, of: Callable[[int], bool], since: float) -> float:
        """Return the share of the time since then on the rungs for which `of` is true."""
        times = [since + step * 0.1 for step in range(int((self.seconds - since) * 10))]
        return sum(of(self.on(at)) for at in times) / len(times)

    def changes(self, since: float) -> int:
        return sum(at > since for at, _ in self.rungs)


def steady(mbit: float) -> Callable[[float], float]:
    return lambda _: mbit


def fitting(mbit: float, sizes: tuple[int, ...] = GRAINY, spare: float = 0.8) -> int:
    """Return the best rung whose frames the link carries without skips."""
    return next((rung for rung, size in enumerate(sizes) if 8 * size * FPS / 1000 < mbit * spare), BOTTOM)


@given(
    st.floats(200, 10_000), st.floats(0, 0.002), st.floats(0, 0.005), st.none() | st.sampled_from([30.0, 60.0, 144.0])
)
def test_loopback_and_lan_stay_on_the_top_rung(
    mbit: float, delay_s: float, jitter_s: float, paint_fps: float | None
) -> None:
    network = Network(steady(mbit), delay_s, jitter_s, paint_fps)
    network.run(10)
    assert network.rungs == [(0.0, 0)]
    assert network.ladder.why is Why.FULL


@settings(max_examples=settings().max_examples // 4)
@example(4.5, 0.0, 0.0, SMOOTH)  # carries one rung all but a hair, with a queue that comes and goes
@example(12.0, 0.088, 0.0, GRAINY)
@example(17.0, 0.03, 0.0, SMOOTH)  # its first climb fails
@example(3.237, 0.0873, 0.015, GRAINY)  # a climb that fails makes the rung below late too
@given(st.floats(2, 100), st.floats(0, 0.1), st.floats(0, 0.02), st.sampled_from([GRAINY, SMOOTH]))
def test_a_steady_link_settles_near_its_capacity(
    mbit: float, delay_s: float, jitter_s: float, sizes: tuple[int, ...]
) -> None:
    network = Network(steady(mbit), delay_s, jitter_s, sizes=sizes)
    network.run(60)
    fits = fitting(mbit, sizes)
    assert network.share(lambda rung: rung <= fits + 1, since=25) > 0.8
    assert network.changes(since=25) <= 8
    if 8 * sizes[BOTTOM] * FPS / 1000 < mbit * 0.8:
        assert network.fps(since=5) > 25
    assert network.late_s(since=5) < 4 * delay_s + 0.150


@pytest.mark.parametrize("mbit", [2, 4, 8, 20])
def test_the_rung_falls_at_once_when_the_link_becomes_slow(mbit: float) -> None:
    network = Network(lambda at: 200 if at < 5 else mbit)
    network.run(9)
    assert network.on(5) == 0
    assert network.on(5 + 3 * 8 * GRAINY[0] / 1000 / mbit + 1) >= fitting(mbit, spare=1)


def test_a_changing_link_is_followed_down_at_once_and_up_slowly() -> None:
    network = Network(lambda at: 4 if int(at / 5) % 2 else 30, 0.02, sizes=(197, 105, 64, 26, 14, 10, 5))
    network.run(60)
    late = [at for at, age in network.ages if at > 5 and age > 4 * 0.02 + 0.150]
    assert len(late) <= 3
    assert network.late_s(since=5) < 4 * 0.02 + 0.150
    assert network.changes(since=30) <= 8


def test_the_rung_climbs_to_the_top_when_the_link_recovers() -> None:
    network = Network(lambda at: 4 if 5 < at < 20 else 200)
    network.run(45)
    assert network.on(20) >= fitting(4, spare=1)
    assert network.on(45) == 0


def test_a_failed_climb_is_tried_less_and_less_often() -> None:
    network = Network(steady(30))
    network.run(120)
    tries = [at for at, rung in network.rungs if rung == 1]
    pauses = [later - sooner for sooner, later in pairwise(tries)]
    assert pauses == sorted(pauses)
    assert pauses[-1] > 30


def test_an_outage_soon_after_a_climb_does_not_delay_later_climbs() -> None:
    network = Network(lambda at: 1e-6 if 10 < at < 13 else 8, 0.04, sizes=(197, 105, 64, 26, 14, 10, 5))
    network.run(36)
    assert network.on(9) == 3
    assert network.on(20) <= 4
    assert network.on(36) <= 3


@pytest.mark.parametrize("paint_fps", [3, 5, 15])
def test_a_client_that_paints_slowly_keeps_the_top_rung(paint_fps: float) -> None:
    network = Network(steady(1000), 0.001, paint_fps=paint_fps)
    network.run(60)
    assert network.share(lambda rung: rung == 0, since=0) > 0.9


def test_a_single_stall_changes_nothing() -> None:
    network = Network(lambda at: 0.001 if 5 < at < 5.4 else 1000)
    network.run(10)
    assert network.rungs == [(0.0, 0)]


@pytest.mark.parametrize(("mbit", "falls"), [(100, False), (40, False), (8, True)])
def test_a_silent_client_falls_when_most_frames_are_skipped_for_3_s(mbit: float, falls: bool) -> None:
    network = Network(steady(mbit), acknowledges=False)
    network.run(10)
    assert (len(network.rungs) > 1) == falls
    assert not falls or network.rungs[1][0] > 2.5
    assert all(DEFAULT.rungs[rung].scale == 1 for _, rung in network.rungs)


def test_a_lower_rate_in_the_view_causes_no_fall() -> None:
    network = Network(steady(1000), 0.001)
    network.outbox.set_view(View(max_fps=5))
    network.run(10)
    assert network.rungs == [(0.0, 0)]


@given(st.lists(st.tuples(st.sampled_from(["sent", "skipped", "acknowledged"]), st.integers(-5, 2**32)), max_size=60))
def test_no_sequence_of_acknowledgements_leaves_the_ladder(steps: list[tuple[str, int]]) -> None:
    ladder = Ladder(DEFAULT.rungs)
    for now, (step, number) in enumerate(steps):
        match step:
            case "sent":
                ladder.frame_sent(now, ladder.rung, number % 1000 + 1, now / 10)
            case "skipped":
                ladder.frame_skipped(now / 10)
            case _:
                ladder.frames_acknowledged(number, now / 10)
        assert 0 <= ladder.rung <= BOTTOM


def test_acknowledgements_of_unsent_frames_are_ignored() -> None:
    ladder = Ladder(DEFAULT.rungs)
    ladder.frame_sent(0, ladder.rung, 1000, 1.0)
    ladder.frames_acknowledged(500, 1.0)
    assert [sent.seq for sent in ladder.in_flight] == [0]
    ladder.frames_acknowledged(0, 1.1)
    assert not ladder.in_flight


def test_each_rung_is_smaller_than_the_one_before() -> None:
    shares = [rung.share for rung in DEFAULT.rungs]
    assert shares == sorted(set(shares), reverse=True)
    assert DEFAULT.rungs[0] == (85, 1.0, 1.0)


def test_a_rung_that_needs_more_than_the_measured_capacity_is_tried_late() -> None:
    network = Network(lambda s: 3.0 if s < 12 else 12.0)
    network.run(34)
    (arrived,) = [at for at, rung in network.rungs if rung == 3][:1]
    tried = min(at for at, rung in network.rungs if rung == 2 and at > 12)
    assert tried - arrived >= DOUBTED_S - 1


@dataclass
class Client:
    """A client that gets a share of 10 frames a second, by the time and its rung, and acknowledges them 100 ms later.

    With `sent_on` its frames have no file on the rung of the ladder, and are sent on that one.
    """

    share: Callable[[float, int], float]
    acknowledges: Callable[[float], bool] = lambda _: True
    sent_on: int | None = None
    sizes: tuple[int, ...] = GRAINY
    ladder: Ladder = field(default_factory=lambda: Ladder(DEFAULT.rungs))
    rungs: list[tuple[float, int]] = field(default_factory=list)

    def run(self, seconds: float) -> None:
        sent: deque[int] = deque()
        carried = 0.0
        for seq in range(round(10 * seconds)):
            now = seq / 10
            if sent and self.acknowledges(now):
                self.ladder.frames_acknowledged(sent.pop(), now)
                sent.clear()
            rung = self.ladder.rung if self.sent_on is None else self.sent_on
            carried += self.share(now, rung)
            if carried >= 1:
                carried -= 1
                self.ladder.frame_sent(seq, rung, 1000 * self.sizes[rung], now)
                sent.append(seq)
            else:
                self.ladder.frame_skipped(now)
            if not self.rungs or self.ladder.rung != self.rungs[-1][1]:
                self.rungs.append((now, self.ladder.rung))

    def changes_to(self, top: bool) -> list[float]:
        return [at for at, rung in self.rungs if (rung == 0) is top]


def test_a_climb_that_fails_each_time_is_tried_after_64_s_at_the_latest() -> None:
    client = Client(lambda _, rung: 1.0 if rung else 0.6)
    client.run(900)
    tries = client.changes_to(top=True)
    assert 60 < tries[-1] - tries[-2] < 70


def test_falls_of_no_use_are_tried_after_8_minutes_at_the_latest() -> None:
    client = Client(lambda _, rung: 0.6)  # noqa: ARG005
    client.run(2200)
    falls = client.changes_to(top=False)
    pauses = [round(later - sooner) for sooner, later in pairwise(falls)]
    assert pauses == sorted(pauses)
    assert pauses[0] < 40
    assert 475 < pauses[-1] < 500


def test_a_client_that_gets_still_less_after_a_fall_of_no_use_falls_at_once() -> None:
    client = Client(lambda at, _: 0.6 if at < 20 else 0.2)
    client.run(30)
    assert [at > 20 for at in client.changes_to(top=False)] == [False, True]


def test_a_rung_is_kept_while_some_frames_are_skipped() -> None:
    client = Client(lambda _, rung: 0.85 if rung else 0.5)
    client.run(60)
    assert client.changes_to(top=True) == [0.0]


def test_a_fall_that_helped_shortens_the_wait_after_the_next_one_of_no_use() -> None:
    client = Client(lambda at, rung: 1.0 if rung and 40 < at < 200 else 0.6)
    client.run(300)
    falls = [at for (_, before), (at, rung) in pairwise(client.rungs) if rung > before]
    assert [later - sooner for sooner, later in pairwise(falls) if later < 200][1] > 55
    last = [at for at in falls if at > 200]
    assert last[1] - last[0] < 40


def test_two_falls_of_no_use_are_taken_back_together() -> None:
    client = Client(lambda _, rung: 0.33, sizes=(100,) * len(GRAINY))  # noqa: ARG005
    client.run(10)
    assert [rung for _, rung in client.rungs] == [0, 3, BOTTOM, 0]


def test_a_climb_after_which_hardly_a_frame_arrives_is_followed_by_a_fall_to_what_the_network_carries() -> None:
    client = Client(lambda _, rung: 1.0 if rung >= 3 else 0.1 if rung == 2 else 0.3)
    client.run(60)
    assert next(later for (_, rung), (_, later) in pairwise(client.rungs) if rung == 2) > 3


def test_a_network_that_is_slow_after_a_failed_climb_too_has_smaller_frames() -> None:
    client = Client(lambda _, rung: 0.6 if rung == 0 or len(client.rungs) > 4 else 1.0)
    client.run(30)
    rungs = [rung for _, rung in client.rungs]
    assert rungs[:5] == [0, 2, 1, 0, 1]
    assert rungs[5] > 1


@pytest.mark.parametrize("acknowledges", [False, True])
def test_frames_on_another_rung_say_nothing_about_that_of_the_client(acknowledges: bool) -> None:
    client = Client(lambda _, rung: 0.2, lambda _: acknowledges, sent_on=1)  # noqa: ARG005
    client.run(20)
    assert client.rungs == [(0.0, 0)]


def test_what_was_skipped_before_the_first_acknowledgement_does_not_count() -> None:
    client = Client(lambda at, _: 0.3 if at < 2 else 1.0, lambda at: at >= 2)
    client.run(20)
    assert client.rungs == [(0.0, 0)]


def test_a_session_that_begins_with_the_number_of_an_unacknowledged_frame_expects_that_one() -> None:
    ladder = Ladder(DEFAULT.rungs)
    for at in (1.0, 2.0):
        ladder.frame_sent(3, 0, 1000, at)
    assert [sent.at for sent in ladder.in_flight] == [2.0]
