"""The choice of a client's rung of an encoding, from what its network delivers.

Pure: the time is an argument, and the track sender reports what was sent, skipped and acknowledged.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from reactor_runtime.server.encoding.arrivals import SHOWN_S, Arrivals, Measure
from reactor_runtime.server.encoding.track_encoding import TOP, Rung

# A decision uses the acknowledgements of this time.
DECISION_S = 1.0
# A decision needs this many acknowledgements, or those of DECISION_S.
ENOUGH = 9
# The share of frames that may be skipped.
SKIPS = 0.1
# A client falls at once after this many acknowledgements with gaps of this many intervals of the model; after a stall
# the second acknowledgement follows quickly.
AT_ONCE, MUCH_SLOWER = 3, 2.0
# Only a network with gaps of more intervals of the model than this is slow; a single stall is not enough.
SLOWER = 1.1
# The share of the measured capacity that a rung may use.
SPARE = 0.85
# A network that carries this many times the rate of the stream does not delay frames.
AMPLE = 2.0
# The wait before a climb: with ample capacity, by default, and after many failed climbs.
SOON_S, PATIENCE_S, LONGEST_S = 0.5, 2.0, 64.0
# The wait before a climb for which the capacity seems too low, or that has failed once. A climb cannot fail later than
# this time plus the wait before it.
DOUBTED_S = 16.0
# The share of frames that arrive after a failed climb; if fewer do, the network has changed.
CHANGED = 0.3
# The share of the shortest round trip below which the network has become better.
FASTER = 0.8
# The share of the expected gain in frames below which a fall was of no use.
HELPED = 0.25
# Another fall is tried below this share of the frames that were shown when a fall was of no use.
LESS = 0.75
# The wait before the next fall after one of no use: at first, and at most.
NO_USE_S, LONGEST_NO_USE_S = 30.0, 480.0
# The shortest time between decisions, because a decision costs more than a frame.
EVERY_S = 0.05
# A client that acknowledges nothing falls after this time with this share of skipped frames.
SILENT_S, SILENT_SKIPS = 3.0, 0.5


class Why(StrEnum):
    """The reason for a client's rung.

    FULL: it is the best. NETWORK: the network does not carry more, or a climb has not been tried yet. CLIENT: frames
    are skipped and smaller ones did not help, so the client itself shows no more.
    """

    FULL = "full"
    NETWORK = "network"
    CLIENT = "client"


class _Sent(NamedTuple):
    seq: int
    rung: int
    size_bytes: int
    at: float


class _Fall(NamedTuple):
    from_rung: int
    shown_fps: float


class _Patience:
    """The wait before a climb: longer where one has failed, short where the network has ample capacity."""

    def __init__(self) -> None:
        self.seconds = PATIENCE_S
        self._failed_rung = 0
        self._fell_at = -math.inf

    def reset(self) -> None:
        self.seconds = PATIENCE_S

    def climb_failed(self, rung: int) -> None:
        """Wait longer before the next climb to this rung."""
        self.seconds = min(LONGEST_S, max(DOUBTED_S, 2 * self.seconds))
        self._failed_rung = rung

    def rung_fell(self, now: float) -> None:
        """Ignore for a while what the network carried before the fall."""
        self._fell_at = now

    def has_just_fallen(self, now: float) -> bool:
        """Return whether frames may still be late from before the last fall."""
        return now - self._fell_at <= SHOWN_S

    def before_climb(self, rung: int, now: float, *, ample: bool) -> float:
        if ample and not self.has_just_fallen(now):
            return SOON_S
        return self.seconds if rung <= self._failed_rung else PATIENCE_S


class Ladder:
    """Choose one client's rung of one track, among the rungs of its encoding.

    Falls when frames are skipped steadily, at once to the rung that fits the measured capacity. Climbs one rung after a
    while without skipped frames, and waits longer for a rung to which a climb has failed. Takes back a fall that gains
    no frames, because the network is not the limit then. Does not fall on a network that carries a frame in a fraction
    of its interval, as loopback and LAN do. For a client that never acknowledges, falls only when more than half the
    frames were skipped for 3 s, and keeps the full size, because that client may be a recorder.
    """

    def __init__(self, rungs: Sequence[Rung]) -> None:
        self._rungs = rungs
        self._lowest_full_size = sum(rung.scale == 1 for rung in rungs) - 1
        self.rung = TOP
        self.why = Why.FULL
        # What the network carried when the client last fell.
        self.delivered_bytes_per_s = 0.0
        self._acknowledging = False
        self.in_flight: deque[_Sent] = deque(maxlen=256)
        self._arrivals = Arrivals()
        # By rung: the size of a frame in bytes and its shortest round trip.
        self._typical: dict[int, tuple[float, float]] = {}
        self._changed_at = self._decided_at = -math.inf
        self._climbed_from: int | None = None
        self._patience = _Patience()
        self._fall: _Fall | None = None
        # No fall before this time, unless fewer frames a second than this are shown.
        self._no_use = (-math.inf, 0.0)
        self._no_use_s = NO_USE_S

    @property
    def current(self) -> Rung:
        """Return the properties of the rung that the client is on."""
        return self._rungs[self.rung]

    @property
    def is_limited_by_network(self) -> bool:
        """Return whether the client is on a worse rung than the best because of its network."""
        return self.rung > TOP and self.why is Why.NETWORK

    @property
    def fastest_bytes_per_s(self) -> float:
        """Return the rate of the fastest frame of the last 3 s, 0.0 before the first."""
        return self._arrivals.fastest_bytes_per_s

    def relative_size(self, rung: int, other: int) -> float:
        """Estimate the bytes of a frame on a rung, as a share of its bytes on another."""
        return self._rungs[rung].share / self._rungs[other].share

    def begin_session(self) -> None:
        """Expect no acknowledgement of what was sent before; the rung stays, as the network does."""
        self.in_flight.clear()

    def frame_skipped(self, now: float) -> None:
        """Count a frame that was replaced before it was sent."""
        self._arrivals.frame_skipped(now)

    def frame_sent(self, seq: int, rung: int, size_bytes: int, now: float) -> None:
        """Count a frame as sent, with the rung and size of its file."""
        # These are the numbers of another session.
        if self.in_flight and seq <= self.in_flight[-1].seq:
            self.in_flight.clear()
        self.in_flight.append(_Sent(seq, rung, size_bytes, now))
        if not self._acknowledging and rung == self.rung:
            self._arrivals.add_acknowledgement(1, size_bytes, 0.0, now, SILENT_S)
            self._decide(now)

    def frames_acknowledged(self, seq: int, now: float) -> None:
        """Count all frames up to `seq` as shown; do nothing if `seq` is not in flight."""
        if not self.in_flight or not self.in_flight[0].seq <= seq <= self.in_flight[-1].seq:
            return
        if not self._acknowledging:
            self._acknowledging = True
            self._arrivals.reset()
        frames = size_bytes = 0
        while self.in_flight and self.in_flight[0].seq <= seq:
            sent = self.in_flight.popleft()
            frames, size_bytes = frames + 1, size_bytes + sent.size_bytes
        round_trip_s = now - sent.at
        self._arrivals.frame_arrived(sent.size_bytes, round_trip_s, now)
        if sent.rung == self.rung and now - self._changed_at > round_trip_s:
            self._arrivals.add_acknowledgement(frames, size_bytes, round_trip_s, now, DECISION_S)
            self._decide(now)

    def _decide(self, now: float) -> None:
        if self.why is Why.FULL and self._fall is None and not self._arrivals.skips:
            # On the best rung without skips, measuring at each acknowledgement would be the largest cost of a frame.
            return
        if now - self._decided_at < EVERY_S:
            return
        self._decided_at = now
        measure = self._arrivals.measure()
        if measure is None:
            return
        enough = measure.acknowledgements >= ENOUGH or measure.span_s >= DECISION_S
        if self._fall is not None and enough:
            fall, self._fall = self._fall, None
            if self._was_no_use(fall, measure):
                self._take_back(fall, now)
                return
            self._no_use_s = NO_USE_S
        latest = self._arrivals.measure(AT_ONCE) if self._acknowledging else None
        if latest is not None and latest.gap_s * latest.offered_fps > MUCH_SLOWER:
            # Only the last gap has nothing from before the network became slow.
            self._fall_if_useful(self._arrivals.measure(2) or latest, now)
        elif self._is_too_much(measure, enough):
            self._fall_if_useful(measure, now)
        elif enough and measure.skips <= SKIPS / 2:
            self._climb_if_due(measure, now)

    def _is_too_much(self, measure: Measure, enough: bool) -> bool:
        if measure.skips <= SKIPS or measure.gap_s * measure.offered_fps <= SLOWER:
            return False
        if not self._acknowledging:
            return measure.skips > SILENT_SKIPS and measure.span_s >= SILENT_S * 0.9
        return enough

    def _was_no_use(self, fall: _Fall, measure: Measure) -> bool:
        expected_fps = min(measure.offered_fps, fall.shown_fps * self.relative_size(fall.from_rung, self.rung))
        return measure.shown_fps < fall.shown_fps + HELPED * (expected_fps - fall.shown_fps)

    def _take_back(self, fall: _Fall, now: float) -> None:
        self._no_use = (now + self._no_use_s, fall.shown_fps * LESS)
        self._no_use_s = min(LONGEST_NO_USE_S, 2 * self._no_use_s)
        self._change(fall.from_rung, Why.CLIENT, now)

    def _fall_if_useful(self, measure: Measure, now: float) -> None:
        until, unless_fps = self._no_use
        if now < until and measure.shown_fps > unless_fps:
            return
        lowest = len(self._rungs) - 1 if self._acknowledging else self._lowest_full_size
        if self.rung >= lowest or self._ample(measure, self.rung):
            return
        self._fall = self._fall or _Fall(self.rung, measure.shown_fps)
        self.delivered_bytes_per_s = measure.fps * measure.size_bytes
        delivered = measure.fps / measure.offered_fps
        fitting = (r for r in range(self.rung + 1, lowest) if self.relative_size(r, self.rung) <= SPARE * delivered)
        rung = next(fitting, lowest)
        if self._climbed_from is not None and now - self._changed_at < DOUBTED_S + self._patience.seconds:
            self._patience.climb_failed(self.rung)
            if delivered > CHANGED:
                # There frames were not skipped: the fall needs no proof that it helps.
                rung, self._fall = self._climbed_from, None
        elif not self._patience.has_just_fallen(now):
            self._patience.reset()
            self._typical.clear()
        self._climbed_from = None
        self._patience.rung_fell(now)
        self._change(rung, Why.NETWORK, now)

    def _climb_if_due(self, measure: Measure, now: float) -> None:
        if self.rung == TOP:
            self.why = Why.FULL
            return
        shortest_s = self._typical.get(self.rung, (0.0, measure.round_trip_s))[1]
        if measure.round_trip_s < FASTER * shortest_s:
            self._patience.reset()
            self._typical.clear()
        self._typical[self.rung] = (measure.size_bytes, min(shortest_s, measure.round_trip_s))
        patience_s = self._patience.before_climb(self.rung - 1, now, ample=self._ample(measure, self.rung - 1))
        if self._capacity() * SPARE < self._needed(measure, self.rung - 1):
            patience_s = max(DOUBTED_S, patience_s)
        if now - self._changed_at >= patience_s:
            self._climbed_from = self.rung
            self._change(self.rung - 1, Why.FULL if self.rung == 1 else Why.NETWORK, now)

    def _capacity(self) -> float:
        """Estimate the network's capacity in bytes a second from the longer round trips of larger frames."""
        size, round_trip_s = self._typical[self.rung]
        smaller = [typical for rung, typical in self._typical.items() if rung > self.rung]
        if not smaller:
            return math.inf
        smaller_size, shorter_s = min(smaller)
        return (size - smaller_size) / (round_trip_s - shorter_s) if round_trip_s > shorter_s else math.inf

    def _needed(self, measure: Measure, rung: int) -> float:
        return measure.offered_fps * measure.size_bytes * self.relative_size(rung, self.rung)

    def _ample(self, measure: Measure, rung: int) -> bool:
        return measure.bytes_per_s >= AMPLE * self._needed(measure, rung)

    def _change(self, rung: int, why: Why, now: float) -> None:
        self.rung, self.why, self._changed_at = rung, why, now
        self._arrivals.reset()
