"""How far away the server is, how far apart the clocks are, and how long an input takes to be seen."""

from __future__ import annotations

from collections import deque

KEPT = 8  # pongs: a path changes, a clock drifts
MOST_AWAITED = 64


class ServerClock:
    """Estimate round trip and offset of the server's wall clock from pings, by the quickest of the last few."""

    def __init__(self) -> None:
        self.rtt_ms: float | None = None
        self._samples: deque[tuple[float, float]] = deque(maxlen=KEPT)

    def pong(self, sent_at: float, now: float, wall_s: float, server_us: int) -> None:
        """Take note of an answer: `now` and `sent_at` are monotonic, `wall_s` is our wall clock on its arrival."""
        rtt = max(0.0, now - sent_at)
        self.rtt_ms = 1e3 * rtt
        self._samples.append((rtt, server_us / 1e6 + rtt / 2 - wall_s))

    @property
    def offset_s(self) -> float:
        """Seconds the server's wall clock is ahead of ours; 0 before the first answer."""
        return min(self._samples)[1] if self._samples else 0.0

    def age_s(self, wall_us: int, wall_s: float) -> float:
        """Tell how long ago the server's clock showed `wall_us`, when ours shows `wall_s`."""
        return wall_s + self.offset_s - wall_us / 1e6


class InputDelay:
    """Time events from sending to the arrival of the first frame made with them applied."""

    def __init__(self) -> None:
        self.last_ms: float | None = None
        self._sent: deque[tuple[int, float]] = deque(maxlen=MOST_AWAITED)
        self._applied = (0, 0.0)

    def accepted(self, number: int, sent_at: float) -> None:
        """Wait for the first frame that has applied event `number`; one that is here already ends the wait."""
        applied, at = self._applied
        if applied >= number and at >= sent_at:
            self.last_ms = 1e3 * (at - sent_at)
        elif applied < number:
            self._sent.append((number, sent_at))

    def arrived(self, applied: int, now: float) -> None:
        """Take note of a frame's arrival."""
        if applied > self._applied[0]:
            self._applied = (applied, now)
        while self._sent and self._sent[0][0] <= applied:
            self.last_ms = 1e3 * (now - self._sent.popleft()[1])

    def reset(self) -> None:
        """Begin again, as the numbers do with another session."""
        self._sent.clear()
        self._applied = (0, 0.0)
