"""How good a client's pictures are: rungs of quality and scale, and which one its network takes.

Pure: told what was sent, skipped and acknowledged, and when. The playout encodes, the outbox sends.
"""

from __future__ import annotations

import math
from collections import deque
from enum import StrEnum
from typing import NamedTuple

from reactor_runtime.server.encoding.arrivals import SHOWN_S, Arrivals, Measure

JUDGED_S = 1.0  # of acknowledgements a judgement looks at
ENOUGH = (2, 3, 9)  # acknowledgements: where frames come at less than a quarter of their rate, than half, and as a rule
LONG_S = 0.8  # or acknowledgements of so long
SETTLED = 3  # round trips after a change: so long the window takes to follow
SKIPS = 0.1  # share of frames that may be skipped
AT_ONCE, MUCH_SLOWER = 3, 2.0  # acknowledgements so far apart are no stall: after one the second comes quickly
SLOWER = 1.1  # than the model, so that a single stall isn't taken for a slow network
SPARE = 0.85  # of what the network was seen to carry
AMPLE = 2.0  # times what the stream needs: a network that carries this is not what holds frames back
SOON_S, PATIENCE_S, LONGEST_S = 0.5, 2.0, 64.0  # before a climb: with ample room, as a rule, where it failed often
DOUBTED_S = 16.0  # before a climb that the round trips speak against, or that has failed once
TRIAL_S = 10.0  # after which a climb has not failed, whatever comes then; and as long as it had been waited for
CHANGED = 0.3  # a climb brings no fewer frames than this: then it isn't the climb that failed
QUICKER = 0.8  # of a round trip: the network has become better
HELPED = 0.25  # of the frames that a fall should bring
LESS = 0.75  # of the frames there were when a fall was no use: now it may be
NO_USE_S, LONGEST_NO_USE_S = 30.0, 480.0  # before the next fall when one has been no use
EVERY_S, UNHEARD_EVERY_S = 0.015, 0.25  # how often to judge at most: it costs more, the more has come meanwhile
UNHEARD_S, UNHEARD_SKIPS = 3.0, 0.5  # what it takes to fall where nothing is acknowledged


class Rung(NamedTuple):
    """A JPEG quality, the scale of the picture, and its bytes of those of the top rung, about."""

    quality: int
    scale: float
    share: float


# From one to the next about half the bytes for a grainy 720p picture, 0.6 for a smooth one. Below quality 50 half the
# width and height looks better for the same bytes, and takes less time to encode with the scaling in it.
RUNGS = (
    Rung(85, 1.0, 1.0),
    Rung(70, 1.0, 0.58),
    Rung(50, 1.0, 0.38),
    Rung(80, 0.5, 0.2),
    Rung(60, 0.5, 0.12),
    Rung(40, 0.5, 0.075),
    Rung(60, 0.25, 0.03),
)
TOP, BOTTOM = 0, len(RUNGS) - 1
WHOLE = 2  # the last one of full size


def relative_size(rung: int, other: int) -> float:
    """Estimate the bytes of a frame on a rung, as a share of its bytes on another."""
    return RUNGS[rung].share / RUNGS[other].share


class Why(StrEnum):
    """Why a client is on its rung."""

    FULL = "full"  # there is no better one
    NETWORK = "network"  # more would not come through, or has to be tried first
    CLIENT = "client"  # frames are skipped, and smaller ones were no use: it shows no more


class _Sent(NamedTuple):
    seq: int
    rung: int
    size_bytes: int
    at: float


class _Fall(NamedTuple):
    rung: int  # where it began
    shown_fps: float


class _Patience:
    """How long to wait before a climb: longer where one has failed, hardly where there is ample room."""

    def __init__(self) -> None:
        self.seconds = PATIENCE_S
        self._failed = 0
        self._fell_at = -math.inf

    def reset(self) -> None:
        self.seconds = PATIENCE_S

    def failed(self, rung: int) -> None:
        """Learn that a climb to this rung has failed."""
        self.seconds = min(LONGEST_S, max(DOUBTED_S, 2 * self.seconds))
        self._failed = rung

    def fell(self, now: float) -> None:
        """Learn of a fall: what came quickly before says nothing any more."""
        self._fell_at = now

    def before(self, rung: int, now: float, *, ample: bool) -> float:
        if ample and now - self._fell_at > SHOWN_S:
            return SOON_S
        return self.seconds if rung <= self._failed else PATIENCE_S


class Ladder:
    """Choose one client's rung of one track.

    Falls when frames are skipped steadily, at once to the rung that fits what the network was seen to carry. Climbs one
    rung when none was skipped for a while, much longer to one where a climb has failed. A fall that brings no more
    frames is taken back: the network is not what holds them up. One that carries a frame in a fraction of the time
    there is for it, as loopback and LAN do, is not blamed. A client that never acknowledges falls only when more than
    half its frames were skipped for 3 s, and keeps the full size: it may be any program, recording.
    """

    def __init__(self) -> None:
        self.rung = 0
        self.why = Why.FULL
        self._heard = False
        self.in_flight: deque[_Sent] = deque(maxlen=256)
        self._arrivals = Arrivals()
        self._typical: dict[int, tuple[float, float]] = {}  # by rung: bytes of a frame, and its round trip at best
        self._changed_at = self._judged_at = -math.inf
        self._climbed_from: int | None = None
        self._patience = _Patience()
        self._fall: _Fall | None = None
        self._no_use = (-math.inf, 0.0)  # until when a fall is none, unless fewer frames are shown than this
        self._no_use_s = NO_USE_S

    def begin_session(self) -> None:
        """Expect no acknowledgement of what was sent before; the rung stays, as the network does."""
        self.in_flight.clear()

    def skipped(self, now: float) -> None:
        """Learn that a frame was replaced before it could be sent."""
        self._arrivals.skipped(now)

    def sent(self, seq: int, rung: int, size_bytes: int, now: float) -> None:
        """Count a frame as sent, on the rung it was had on."""
        if self.in_flight and seq <= self.in_flight[-1].seq:  # another session
            self.in_flight.clear()
        self.in_flight.append(_Sent(seq, rung, size_bytes, now))
        if not self._heard and rung == self.rung:
            self._arrivals.add(1, size_bytes, 0.0, now, UNHEARD_S)
            self._judge(now)

    def acknowledged(self, seq: int, now: float) -> None:
        """Take an acknowledgement of all frames up to `seq`; an old or invented one changes nothing."""
        if not self.in_flight or not self.in_flight[0].seq <= seq <= self.in_flight[-1].seq:
            return
        if not self._heard:
            self._heard = True
            self._arrivals.forget()
        frames = size_bytes = 0
        while self.in_flight and self.in_flight[0].seq <= seq:
            sent = self.in_flight.popleft()
            frames, size_bytes = frames + 1, size_bytes + sent.size_bytes
        round_trip_s = now - sent.at
        self._arrivals.passed(sent.size_bytes, round_trip_s, now)
        if sent.rung == self.rung and now - self._changed_at > SETTLED * round_trip_s:
            self._arrivals.add(frames, size_bytes, round_trip_s, now, JUDGED_S)
            self._judge(now)

    def _judge(self, now: float) -> None:
        if self.why is Why.FULL and self._fall is None and not self._arrivals.skips:
            return  # as good as it gets; measuring at every acknowledgement would cost more than all else about it
        if now - self._judged_at < (EVERY_S if self._heard else UNHEARD_EVERY_S):
            return
        self._judged_at = now
        measure = self._arrivals.measure()
        if measure is None:
            return
        enough = measure.acknowledgements >= ENOUGH[-1] or measure.span_s >= LONG_S
        if self._fall is not None and enough:
            fall, self._fall = self._fall, None
            if self._was_no_use(fall, measure):
                self._take_back(fall, now)
                return
            self._no_use_s = NO_USE_S
        latest = self._arrivals.measure(AT_ONCE) if self._heard else None
        if latest is not None and latest.gap_s * latest.offered_fps > MUCH_SLOWER:
            self._too_much(self._arrivals.measure(2) or latest, now)  # the last gap is the purest
        elif self._is_too_much(measure, enough):
            self._too_much(measure, now)
        elif enough and measure.skips <= SKIPS / 2:
            self._perhaps_climb(measure, now)

    def _is_too_much(self, measure: Measure, enough: bool) -> bool:
        if measure.skips <= SKIPS or measure.gap_s * measure.offered_fps <= SLOWER:
            return False
        if not self._heard:
            return measure.skips > UNHEARD_SKIPS and measure.span_s >= UNHEARD_S * 0.9
        came = measure.fps / measure.offered_fps
        return enough or measure.acknowledgements >= (
            ENOUGH[0] if came < 0.25 else ENOUGH[1] if came < 0.5 else ENOUGH[2]
        )

    def _was_no_use(self, fall: _Fall, measure: Measure) -> bool:
        expected_fps = min(measure.offered_fps, fall.shown_fps * relative_size(fall.rung, self.rung))
        return measure.shown_fps < fall.shown_fps + HELPED * (expected_fps - fall.shown_fps)

    def _take_back(self, fall: _Fall, now: float) -> None:
        self._no_use = (now + self._no_use_s, fall.shown_fps * LESS)
        self._no_use_s = min(LONGEST_NO_USE_S, 2 * self._no_use_s)
        self._change(fall.rung, Why.CLIENT, now)

    def _too_much(self, measure: Measure, now: float) -> None:
        until, unless_fps = self._no_use
        if now < until and measure.shown_fps > unless_fps:
            return
        lowest = BOTTOM if self._heard else WHOLE
        if self.rung >= lowest or self._ample(measure, self.rung):
            return
        self._fall = self._fall or _Fall(self.rung, measure.shown_fps)
        came = measure.fps / measure.offered_fps
        fitting = (r for r in range(self.rung + 1, lowest) if relative_size(r, self.rung) <= SPARE * came)
        rung = next(fitting, lowest)
        if self._climbed_from is not None and now - self._changed_at < TRIAL_S + self._patience.seconds:
            self._patience.failed(self.rung)
            rung = self._climbed_from if came > CHANGED else rung
        else:
            self._patience.reset()
            self._typical.clear()
        self._climbed_from = None
        self._patience.fell(now)
        self._change(rung, Why.NETWORK, now)

    def _perhaps_climb(self, measure: Measure, now: float) -> None:
        if self.rung == 0:
            self.why = Why.FULL
            return
        shortest_s = self._typical.get(self.rung, (0.0, measure.round_trip_s))[1]
        if measure.round_trip_s < QUICKER * shortest_s:
            self._patience.reset()
            self._typical.clear()
        self._typical[self.rung] = (measure.size_bytes, min(shortest_s, measure.round_trip_s))
        patience_s = self._patience.before(self.rung - 1, now, ample=self._ample(measure, self.rung - 1))
        if self._carried() * SPARE < self._needed(measure, self.rung - 1):
            patience_s = max(DOUBTED_S, patience_s)
        if now - self._changed_at >= patience_s:
            self._climbed_from = self.rung
            self._change(self.rung - 1, Why.FULL if self.rung == 1 else Why.NETWORK, now)

    def _carried(self) -> float:
        """Estimate the bytes a second the network carries, by how much longer larger frames took."""
        size, round_trip_s = self._typical[self.rung]
        smaller = [typical for rung, typical in self._typical.items() if rung > self.rung]
        if not smaller:
            return math.inf
        smaller_size, shorter_s = min(smaller)
        return (size - smaller_size) / (round_trip_s - shorter_s) if round_trip_s > shorter_s else math.inf

    def _needed(self, measure: Measure, rung: int) -> float:
        return measure.offered_fps * measure.size_bytes * relative_size(rung, self.rung)

    def _ample(self, measure: Measure, rung: int) -> bool:
        return measure.speed >= AMPLE * self._needed(measure, rung)

    def _change(self, rung: int, why: Why, now: float) -> None:
        self.rung, self.why, self._changed_at = rung, why, now
        self._arrivals.forget()
