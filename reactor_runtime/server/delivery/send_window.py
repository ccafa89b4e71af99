"""The number of frames that may be in flight to one client.

Pure: the time is an argument, and the track sender reports what was sent and acknowledged.
"""

from __future__ import annotations

import math
from collections import deque

ROUNDS = 8
# In the first of these rounds one more frame is sent, and only the second delivers as many as are then in flight.
TESTED = 2
MIN_ROUND_TRIP_S = 10.0
STALLED_S = 2.0
TOLERANCE = 0.25
GROWTH = 1.25
HELD_UP = 2.0
# A round trip above this is long.
LONG_S = 0.1
# What is sent to a client of which nothing is known, and how long its first acknowledgement may take: after that it is
# one that does not acknowledge. A client that paints frames of 330 kB one after the other in 67 ms gets one, and not
# the five that the model makes meanwhile.
TRUSTED_BYTES = 256 << 10
UNKNOWN_S = 0.3


class SendWindow:
    """Limit the frames in flight to a client that acknowledges, so that frames are late by the round trip only.

    Follows round trip and delivery rate as BBR does (draft-cardwell-iccrg-bbr-congestion-control): frames in flight =
    the highest delivery rate of recent rounds, times the shortest round trip. To test whether the path carries more,
    two rounds of eight have one frame more, and a round after one that delivered a quarter more than those before has
    twice as many. While the client gets every frame, one more is allowed for jitter. After a frame that took twice the
    shortest round trip plus one interval, the next is sent alone: the path has become slow, and frames in flight
    cannot be recalled.

    The window starts with 256 KiB, because nothing is known of the client. It has no limit for a client that has
    acknowledged nothing for 0.3 s after its first frame, and without `may_acknowledge` none from the start. After 2 s
    without an acknowledgement it allows one more frame, so that a lost acknowledgement cannot end the stream.
    """

    def __init__(self, *, may_acknowledge: bool = True) -> None:
        self.acknowledging = False
        # What was sent before the first acknowledgement, and until when it is waited for.
        self._trusted_bytes = 0
        self._known_at = math.inf if may_acknowledge else -math.inf
        self.round_trip_s = 0.0
        self._in_flight: deque[tuple[int, float]] = deque()
        self._newest_seq = -1
        self._last_progress = 0.0
        self._limited = self._skipped = False
        self._interval_s = 1 / 30
        self._shortest: deque[tuple[float, float]] = deque()
        self._rounds = _Rounds()

    @property
    def _shortest_s(self) -> float:
        return self._shortest[0][1] if self._shortest else 0.0

    @property
    def frames(self) -> int:
        """Return the number of frames that may be in flight now."""
        shortest = self._shortest_s
        if self.acknowledging and self.round_trip_s > HELD_UP * (shortest + self._interval_s):
            return 1
        return int(min(self._frames_of(shortest), self._rounds.most_frames))

    def _frames_of(self, shortest: float) -> int:
        if not self._limited:
            return max(2, math.ceil(shortest / self._interval_s - TOLERANCE) + 1)
        path_holds = max(1, math.ceil(shortest * self._rounds.best_rate - TOLERANCE))
        if self._rounds.growing:
            return 2 * path_holds
        return path_holds + (1 if self._rounds.count % ROUNDS < TESTED else 0)

    def resize(self, larger: float) -> None:
        """Expect frames `larger` times as large from here on, and measure the delivery rate again.

        The first round has no more frames than before, and each one after it at most twice as many: a client that
        paints slowly takes smaller frames no faster. On a path with a long round trip, where that would take long, the
        rate is expected that the path carries if its bytes are the limit.
        """
        is_long = self._shortest_s > LONG_S
        most_frames = math.inf if is_long else self.frames
        self._limited = self._skipped = False
        expected = self._rounds.best_rate / (larger if is_long else max(1.0, larger))
        self._rounds = _Rounds(min(expected, 1 / self._interval_s), most_frames)

    def forget_round_trips(self) -> None:
        """Measure the shortest round trip again, because frames from here on are larger, and take longer."""
        self._shortest.clear()

    def is_open(self, now: float) -> bool:
        """Return whether one more frame may be sent."""
        fits = len(self._in_flight) < self.frames if self.acknowledging else self._trusted_bytes < TRUSTED_BYTES
        return fits or now >= self.reopens_at()

    def reopens_at(self) -> float:
        """Return when a closed window allows one frame without an acknowledgement."""
        return self._last_progress + STALLED_S if self.acknowledging else self._known_at

    def frame_sent(self, seq: int, now: float, interval_s: float, size_bytes: int = 0) -> None:
        """Count a frame of `size_bytes` as sent; `interval_s` is the time between two frames of the model."""
        if not self.acknowledging:
            self._trusted_bytes += size_bytes
            self._known_at = min(self._known_at, now + UNKNOWN_S)
        if seq <= self._newest_seq:
            # These are the numbers of another session, of which no frame is acknowledged yet.
            self._in_flight.clear()
            self._rounds = _Rounds()
        self._newest_seq = seq
        self._interval_s = interval_s
        self._in_flight.append((seq, now))
        if not self.acknowledging and len(self._in_flight) > 256:
            # The numbers are kept for a first acknowledgement only.
            self._in_flight.popleft()
        if self.acknowledging and now >= self.reopens_at():
            self._last_progress = now

    def begin_session(self) -> None:
        """Expect no acknowledgement of what was sent before: another session follows, with frame numbers of its own."""
        self._in_flight.clear()
        self._rounds = _Rounds()

    def frame_skipped(self) -> None:
        """Count a frame that was replaced while the window was closed: the path, not the model, is the limit."""
        self._limited = self._skipped = True

    def frames_acknowledged(self, seq: int, now: float) -> None:
        """Count all frames up to `seq` as shown; do nothing if `seq` is not in flight.

        An acknowledgement of another session's frame is ignored too: its number is rarely one that is in flight.
        """
        if not self._in_flight or not self._in_flight[0][0] <= seq <= self._in_flight[-1][0]:
            return
        self.acknowledging = True
        sent_at = now
        count = 0
        while self._in_flight and self._in_flight[0][0] <= seq:
            sent_at = self._in_flight.popleft()[1]
            count += 1
        self._last_progress = now
        self.round_trip_s = now - sent_at
        self._add_round_trip(now)
        newest_sent = self._in_flight[-1][0] if self._in_flight else seq
        if self._rounds.add_frames(seq, count, newest_sent, now):
            self._limited, self._skipped = self._skipped, False

    def _add_round_trip(self, now: float) -> None:
        while self._shortest and self._shortest[-1][1] >= self.round_trip_s:
            self._shortest.pop()
        self._shortest.append((now, self.round_trip_s))
        while now - self._shortest[0][0] > MIN_ROUND_TRIP_S:
            self._shortest.popleft()


class _Rounds:
    """Measure the delivery rate in rounds; a round ends with a frame that was sent after it began.

    `most_frames` may be in flight in the first round, and twice as many in each further one.
    """

    def __init__(self, expected: float = 0.0, most_frames: float = math.inf) -> None:
        self.most_frames = most_frames
        self.count = 0
        self.growing = True
        self._rates: deque[float] = deque([expected], maxlen=ROUNDS)
        self._ends_with = -1
        self._began = 0.0
        self._frames = 0

    @property
    def best_rate(self) -> float:
        """Return the highest delivery rate of the recent rounds, in frames a second."""
        return max(self._rates, default=0.0)

    def add_frames(self, seq: int, frames: int, newest_sent: int, now: float) -> bool:
        """Count acknowledged frames; return True when a cycle of rounds is complete."""
        self._frames += frames
        if seq <= self._ends_with:
            return False
        if self._began and now > self._began:
            rate = self._frames / (now - self._began)
            self.growing = rate > GROWTH * self.best_rate
            self._rates.append(rate)
        self.count += 1
        self.most_frames *= 2
        self._began, self._frames, self._ends_with = now, 0, newest_sent
        return self.count % ROUNDS == 0
