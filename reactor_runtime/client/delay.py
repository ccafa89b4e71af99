"""Delays, computed from times that the caller passes: round trip, clock offset, and event to visible frame."""

from __future__ import annotations

from collections import deque

# Few samples, because network paths change and clocks drift.
MAX_SAMPLES = 8
MAX_PENDING = 64


class ServerClock:
    """Estimate the round trip, and the offset of the server's wall clock from the fastest of the last pings."""

    def __init__(self) -> None:
        self.rtt_ms: float | None = None
        self._samples: deque[tuple[float, float]] = deque(maxlen=MAX_SAMPLES)

    def add_pong(self, sent_at: float, now: float, wall_s: float, server_us: int) -> None:
        """Add a pong; `sent_at` and `now` are monotonic, `wall_s` is the client's wall clock on its arrival."""
        rtt = max(0.0, now - sent_at)
        self.rtt_ms = 1e3 * rtt
        self._samples.append((rtt, server_us / 1e6 + rtt / 2 - wall_s))

    @property
    def offset_s(self) -> float:
        """Seconds that the server's wall clock is ahead of the client's; 0 before the first pong."""
        return min(self._samples)[1] if self._samples else 0.0

    def age_s(self, wall_us: int, wall_s: float) -> float:
        """Return the age of the server's time `wall_us` when the client's wall clock shows `wall_s`."""
        return wall_s + self.offset_s - wall_us / 1e6


class InputDelay:
    """Measure the time from sending an event to the arrival of the first frame made with it."""

    def __init__(self) -> None:
        self.last_ms: float | None = None
        self._pending: deque[tuple[int, float]] = deque(maxlen=MAX_PENDING)
        self._newest_applied = (0, 0.0)

    def on_reply(self, number: int, sent_at: float) -> None:
        """Measure to the first frame made with event `number`; this frame may have arrived before the reply."""
        applied, at = self._newest_applied
        if applied >= number and at >= sent_at:
            self.last_ms = 1e3 * (at - sent_at)
        elif applied < number:
            self._pending.append((number, sent_at))

    def on_frame(self, applied: int, now: float) -> None:
        """Finish the measurements of all events up to `applied`."""
        if applied > self._newest_applied[0]:
            self._newest_applied = (applied, now)
        while self._pending and self._pending[0][0] <= applied:
            self.last_ms = 1e3 * (now - self._pending.popleft()[1])

    def reset(self) -> None:
        """Drop all measurements that wait: in another session the numbers of events start again."""
        self._pending.clear()
        self._newest_applied = (0, 0.0)
