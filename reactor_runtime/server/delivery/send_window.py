"""How many frames a client may be sent ahead of what it has acknowledged."""

from __future__ import annotations

import math
from collections import deque

ROUNDS = 8
MIN_ROUND_TRIP_S = 10.0
STALLED_S = 2.0
TOLERANCE = 0.25
GROWTH = 1.25
HELD_UP = 2.0


class SendWindow:
    """Bound the frames in flight to a client that acknowledges, so that its picture is late by its round trip only.

    Follows round trip and delivery rate as BBR does (draft-cardwell-iccrg-bbr-congestion-control): frames in flight =
    the most frames delivered per second in recent rounds, times the shortest round trip. To see whether the path takes
    more, one more is sent in one round of eight, and twice as many after a round that brought a quarter more frames a
    second than those before. While the client gets every frame, one frame is allowed for jitter on top of what the
    round trip holds. After one that took twice as long as the shortest and the time between two frames, the next goes
    out alone: the path has become slow, and what is on its way can't be called back.

    Open for a client that has never acknowledged. When nothing is acknowledged for 2 s one more frame is let through,
    so that a lost acknowledgement can't end the stream.
    """

    def __init__(self) -> None:
        self.acknowledging = False
        self.round_trip_s = 0.0
        self._in_flight: deque[tuple[int, float]] = deque()
        self._newest_seq = -1
        self._last_progress = 0.0
        self._limited = self._skipped = False
        self._interval_s = 1 / 30
        self._shortest: deque[tuple[float, float]] = deque()
        self._rounds = _Rounds()

    @property
    def frames(self) -> int:
        """How many frames may be in flight now."""
        shortest = self._shortest[0][1] if self._shortest else 0.0
        if self.acknowledging and self.round_trip_s > HELD_UP * (shortest + self._interval_s):
            return 1
        if not self._limited:
            return max(2, math.ceil(shortest / self._interval_s - TOLERANCE) + 1)
        path_holds = max(1, math.ceil(shortest * self._rounds.best_rate - TOLERANCE))
        if self._rounds.growing:
            return 2 * path_holds
        return path_holds + (1 if self._rounds.count % ROUNDS == 0 else 0)

    def resize(self, larger: float) -> None:
        """Expect frames so many times as large from here on, and measure anew how many arrive."""
        self._limited = self._skipped = False
        self._rounds = _Rounds(min(self._rounds.best_rate / larger, 1 / self._interval_s))

    def is_open(self, now: float) -> bool:
        """Tell whether one more frame may be sent."""
        if not self.acknowledging or len(self._in_flight) < self.frames:
            return True
        return now >= self.reopens_at()

    def reopens_at(self) -> float:
        """Say when a closed window lets one frame through without an acknowledgement."""
        return self._last_progress + STALLED_S

    def sent(self, seq: int, now: float, interval_s: float) -> None:
        """Count a frame as sent; `interval_s` is how far apart the model's frames are."""
        if seq <= self._newest_seq:  # numbers begin anew: another session, of which nothing is acknowledged yet
            self._in_flight.clear()
            self._rounds = _Rounds()
        self._newest_seq = seq
        self._interval_s = interval_s
        self._in_flight.append((seq, now))
        if not self.acknowledging and len(self._in_flight) > 256:
            self._in_flight.popleft()  # a client that never acknowledges: only its first acknowledgement could use them
        if self.acknowledging and now >= self.reopens_at():
            self._last_progress = now

    def begin_session(self) -> None:
        """Wait for nothing that was sent: the client sees another session from here on, whose numbers may be any."""
        self._in_flight.clear()
        self._rounds = _Rounds()
        self._newest_seq = -1

    def skipped(self) -> None:
        """Learn that a frame was replaced while the window was closed: the path, not the model, is the limit."""
        self._limited = self._skipped = True

    def acknowledged(self, seq: int, now: float) -> None:
        """Take an acknowledgement of all frames up to `seq`; an old or invented one changes nothing.

        Nor does a late one of another session's frame: its number is as a rule none that is on its way.
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
        self._note_round_trip(now)
        newest_sent = self._in_flight[-1][0] if self._in_flight else seq
        if self._rounds.add(seq, count, newest_sent, now):
            self._limited, self._skipped = self._skipped, False

    def _note_round_trip(self, now: float) -> None:
        while self._shortest and self._shortest[-1][1] >= self.round_trip_s:
            self._shortest.pop()
        self._shortest.append((now, self.round_trip_s))
        while now - self._shortest[0][0] > MIN_ROUND_TRIP_S:
            self._shortest.popleft()


class _Rounds:
    """Measure how many frames a second arrive; a round ends with a frame that was sent after it began."""

    def __init__(self, expected: float = 0.0) -> None:
        self.count = 0
        self.growing = True
        self._rates: deque[float] = deque([expected], maxlen=ROUNDS)
        self._ends_with = -1
        self._began = 0.0
        self._frames = 0

    @property
    def best_rate(self) -> float:
        """The most frames a second in one of the recent rounds."""
        return max(self._rates, default=0.0)

    def add(self, seq: int, frames: int, newest_sent: int, now: float) -> bool:
        """Count acknowledged frames; True when a cycle of rounds is complete."""
        self._frames += frames
        if seq <= self._ends_with:
            return False
        if self._began and now > self._began:
            rate = self._frames / (now - self._began)
            self.growing = rate > GROWTH * self.best_rate
            self._rates.append(rate)
        self.count += 1
        self._began, self._frames, self._ends_with = now, 0, newest_sent
        return self.count % ROUNDS == 0
