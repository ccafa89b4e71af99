"""How long a turn lasts: its limit while other clients wait, the idle timeout, and the grace period to resume."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple, Protocol

from reactor_runtime.clock import Clock, Timer
from reactor_runtime.server.options import TurnLimits

LAST_NOTICE_S = 10.0


class TurnEnd(StrEnum):
    """Why a turn has ended, as on the wire."""

    LEFT = "left"
    TIME = "turn_over"
    IDLE = "idle"
    STOPPING = "server_stopping"


END_MESSAGES = {
    TurnEnd.LEFT: "the controller has gone",
    TurnEnd.TIME: "the turn is over: others wait",
    TurnEnd.IDLE: "the controller was idle",
    TurnEnd.STOPPING: "the server is stopping",
}


class TurnNotice(StrEnum):
    """Notices of a turn: its end, with the seconds until then, or None when the end is called off."""

    ENDING = "ending"
    IDLE = "idle"
    AWAY = "away"


class LimitedTurn(Protocol):
    """Limit how long a controller has its seat; `used_s` is how much of its turn had passed before it began."""

    used_s: float

    def set_others_waiting(self, waiting: bool) -> None:
        """Limit the turn from now on, or no longer."""


class SeatTurn(NamedTuple):
    """Hold the turn of one controller, and when it began, less what a lost session has used of it; 0 before that."""

    turn: LimitedTurn
    began_at: float


class Turn:
    """Limit the turn of one controller; use on the server's loop.

    A turn ends `max_session_s` after its start if other clients wait, and no sooner than `notice_s` after they began
    to; while none waits it continues. A controller that is idle for `idle_timeout_s` gets a notice, and has `answer_s`
    to show activity. A controller that has lost its connection has `resume_grace_s` to resume, without notices.
    `on_notice` gets each notice with its seconds; `on_end` is called once, with the reason.
    """

    def __init__(
        self,
        limits: TurnLimits,
        clock: Clock,
        *,
        on_notice: Callable[[TurnNotice, float | None], None],
        on_end: Callable[[TurnEnd], None],
    ) -> None:
        self._limits = limits
        self._clock = clock
        self._on_notice = on_notice
        self._on_end = on_end
        self._timer: Timer | None = None
        # How much of the turn a lost session had used before this start.
        self.used_s = 0.0
        self._started_at: float | None = None
        self._ends_at: float | None = None
        self._noticed_s = 0.0
        self._active_at = 0.0
        self._idle_noticed_at: float | None = None
        self._away_at: float | None = None

    @property
    def left_s(self) -> float | None:
        """Return how long the turn may still last; None while no other client waits."""
        return None if self._ends_at is None else _rounded(self._ends_at - self._clock.now())

    @property
    def away_s(self) -> float | None:
        """Return how long the controller may still resume; None while it is connected."""
        if self._away_at is None:
            return None
        return _rounded(self._away_at + self._limits.resume_grace_s - self._clock.now())

    def start(self, used_s: float = 0.0) -> None:
        """Start the turn now; a lost session has used `used_s` of it."""
        self.used_s = used_s
        self._started_at = self._active_at = self._clock.now()
        self._update()

    def set_others_waiting(self, waiting: bool) -> None:
        """Limit the turn while other clients wait, and call its end off when none does."""
        if self._started_at is None or not self._limits.max_session_s or waiting == (self._ends_at is not None):
            return
        if waiting:
            now = self._clock.now()
            ends_at = self._started_at - self.used_s + self._limits.max_session_s
            self._ends_at = max(ends_at, now + self._limits.notice_s)
            self._noticed_s = self._ends_at - now
            self._on_notice(TurnNotice.ENDING, _rounded(self._noticed_s))
        else:
            self._ends_at = None
            self._on_notice(TurnNotice.ENDING, None)
        self._update()

    def record_activity(self) -> None:
        """Restart the idle timeout, and call a notice of it off."""
        self._active_at = self._clock.now()
        if self._idle_noticed_at is not None:
            self._idle_noticed_at = None
            self._on_notice(TurnNotice.IDLE, None)
            self._update()

    def wait_for_controller(self) -> bool:
        """Wait for a controller that has lost its connection; return False where it may not resume."""
        if self._started_at is None or not self._limits.resume_grace_s:
            return False
        self._idle_noticed_at = None
        self._away_at = self._clock.now()
        self._on_notice(TurnNotice.AWAY, _rounded(self._limits.resume_grace_s))
        self._update()
        return True

    def controller_returned(self) -> None:
        """End the wait for the controller, and restart the idle timeout."""
        self._away_at = self._idle_noticed_at = None
        self._active_at = self._clock.now()
        self._update()

    def stop(self) -> None:
        """End the turn without a call of `on_end`; may be called in any state."""
        self._started_at = None
        if self._timer is not None:
            self._timer.cancel()

    def _update(self) -> None:
        """Send the notices that are due or end the turn, and set the timer for the next deadline."""
        if self._timer is not None:
            self._timer.cancel()
        if self._started_at is None:
            return
        now = self._clock.now()
        end = self._end(now)
        if end is not None:
            self.stop()
            self._on_end(end)
            return
        self._send_notices(now)
        deadline = min(self._deadlines(), default=None)
        if deadline is not None:
            self._timer = self._clock.call_at(deadline, self._update)

    def _end(self, now: float) -> TurnEnd | None:
        if self._away_at is not None and now >= self._away_at + self._limits.resume_grace_s:
            return TurnEnd.LEFT
        if self._ends_at is not None and now >= self._ends_at:
            return TurnEnd.TIME
        if self._idle_noticed_at is not None and now >= self._idle_noticed_at + self._limits.answer_s:
            return TurnEnd.IDLE
        return None

    def _send_notices(self, now: float) -> None:
        notice_s = self._next_notice_s()
        if self._ends_at is not None and notice_s is not None and now >= self._ends_at - notice_s:
            self._noticed_s = notice_s
            self._on_notice(TurnNotice.ENDING, _rounded(self._ends_at - now))
        if self._may_notify_idle() and now >= self._active_at + self._limits.idle_timeout_s:
            self._idle_noticed_at = now
            self._on_notice(TurnNotice.IDLE, _rounded(self._limits.answer_s))

    def _next_notice_s(self) -> float | None:
        """Return how long before the end the next notice of it is due."""
        notices = (self._limits.notice_s, min(LAST_NOTICE_S, self._limits.notice_s))
        return next((notice_s for notice_s in notices if notice_s < self._noticed_s), None)

    def _may_notify_idle(self) -> bool:
        return self._limits.idle_timeout_s > 0 and self._idle_noticed_at is None and self._away_at is None

    def _deadlines(self) -> list[float]:
        deadlines = []
        if self._ends_at is not None:
            deadlines.append(self._ends_at - (self._next_notice_s() or 0.0))
        if self._away_at is not None:
            deadlines.append(self._away_at + self._limits.resume_grace_s)
        elif self._idle_noticed_at is not None:
            deadlines.append(self._idle_noticed_at + self._limits.answer_s)
        elif self._limits.idle_timeout_s:
            deadlines.append(self._active_at + self._limits.idle_timeout_s)
        return deadlines


def _rounded(seconds: float) -> float:
    return round(max(0.0, seconds), 1)
