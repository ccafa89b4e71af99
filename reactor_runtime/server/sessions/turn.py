"""How long a turn may last: its end announced while others wait, silence asked about, an absence waited for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from reactor_runtime.clock import Clock, Timer

MOST_NOTICE_S = 60.0
LAST_CALL_S = 10.0
MOST_ANSWER_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnLimits:
    """What the operator allows a controller, in seconds; 0 is no limit, and for an absence none."""

    max_session_s: float = 0.0
    idle_timeout_s: float = 0.0
    resume_grace_s: float = 0.0

    @property
    def notice_s(self) -> float:
        """How long before its end a turn is announced to be over."""
        return min(MOST_NOTICE_S, self.max_session_s / 4)

    @property
    def answer_s(self) -> float:
        """How long a silent controller has to say that it is there."""
        return min(MOST_ANSWER_S, self.idle_timeout_s)


class TurnEnd(StrEnum):
    """Why a turn is over, as clients are told."""

    LEFT = "left"
    TIME = "turn_over"
    IDLE = "idle"
    STOPPING = "server_stopping"


class TurnNotice(StrEnum):
    """What is announced: an end, with the seconds until then, or None when it won't come after all."""

    ENDING = "ending"
    IDLE = "idle"
    AWAY = "away"


class Turn:
    """Keep the time of one controller's turn; belongs to the server's loop.

    A turn ends `max_session_s` after its beginning if somebody waits, and no sooner than `notice_s` after somebody
    began to: while nobody waits it goes on. A controller that gives no sign for `idle_timeout_s` is asked, and has
    `answer_s` to give one. One that has lost its connection has `resume_grace_s` to come back, and is not asked
    meanwhile.
    `tell` gets each notice with its seconds, `over` once why the turn is over.
    """

    def __init__(
        self,
        limits: TurnLimits,
        clock: Clock,
        send_message: Callable[[TurnNotice, float | None], None],
        over: Callable[[TurnEnd], None],
    ) -> None:
        self._limits = limits
        self._clock = clock
        self._tell = send_message
        self._over = over
        self._timer: Timer | None = None
        self._began_at: float | None = None
        self._ends_at: float | None = None
        self._announced_s = 0.0
        self._sign_at = 0.0
        self._asked_at: float | None = None
        self._away_at: float | None = None

    @property
    def left_s(self) -> float | None:
        """How long the turn may still last, None while nothing ends it."""
        return None if self._ends_at is None else _rounded(self._ends_at - self._clock.now())

    @property
    def away_s(self) -> float | None:
        """How much longer the controller is waited for; None while it is there."""
        if self._away_at is None:
            return None
        return _rounded(self._away_at + self._limits.resume_grace_s - self._clock.now())

    def begin(self) -> None:
        """Count from here."""
        self._began_at = self._sign_at = self._clock.now()
        self._look()

    def others_wait(self, waiting: bool) -> None:
        """Take note that somebody waits, or nobody any more."""
        if self._began_at is None or not self._limits.max_session_s or waiting == (self._ends_at is not None):
            return
        if waiting:
            now = self._clock.now()
            self._ends_at = max(self._began_at + self._limits.max_session_s, now + self._limits.notice_s)
            self._announced_s = self._ends_at - now
            self._tell(TurnNotice.ENDING, _rounded(self._announced_s))
        else:
            self._ends_at = None
            self._tell(TurnNotice.ENDING, None)
        self._look()

    def sign(self) -> None:
        """Take note that the controller does something."""
        self._sign_at = self._clock.now()
        if self._asked_at is not None:
            self._asked_at = None
            self._tell(TurnNotice.IDLE, None)
            self._look()

    def leave(self) -> bool:
        """Wait for a controller that has lost its connection; False when that isn't to be done."""
        if self._began_at is None or not self._limits.resume_grace_s:
            return False
        self._asked_at = None
        self._away_at = self._clock.now()
        self._tell(TurnNotice.AWAY, _rounded(self._limits.resume_grace_s))
        self._look()
        return True

    def come_back(self) -> None:
        """Take note that the controller is there again, or still."""
        self._away_at = self._asked_at = None
        self._sign_at = self._clock.now()
        self._look()

    def stop(self) -> None:
        """Keep no time any more."""
        self._began_at = None
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        """Do what is due, and look again when the next thing will be."""
        if self._timer is not None:
            self._timer.cancel()
        if self._began_at is None:
            return
        now = self._clock.now()
        end = self._end(now)
        if end is not None:
            self.stop()
            self._over(end)
            return
        self._announce(now)
        deadline = min(self._deadlines(), default=None)
        if deadline is not None:
            self._timer = self._clock.call_at(deadline, self._look)

    def _end(self, now: float) -> TurnEnd | None:
        if self._away_at is not None and now >= self._away_at + self._limits.resume_grace_s:
            return TurnEnd.LEFT
        if self._ends_at is not None and now >= self._ends_at:
            return TurnEnd.TIME
        if self._asked_at is not None and now >= self._asked_at + self._limits.answer_s:
            return TurnEnd.IDLE
        return None

    def _announce(self, now: float) -> None:
        if self._ends_at is not None and (call_s := self._next_call_s()) is not None and now >= self._ends_at - call_s:
            self._announced_s = call_s
            self._tell(TurnNotice.ENDING, _rounded(self._ends_at - now))
        if self._may_ask() and now >= self._sign_at + self._limits.idle_timeout_s:
            self._asked_at = now
            self._tell(TurnNotice.IDLE, _rounded(self._limits.answer_s))

    def _next_call_s(self) -> float | None:
        """Say how long before the end it is announced next."""
        calls = (self._limits.notice_s, min(LAST_CALL_S, self._limits.notice_s))
        return next((call_s for call_s in calls if call_s < self._announced_s), None)

    def _may_ask(self) -> bool:
        return self._limits.idle_timeout_s > 0 and self._asked_at is None and self._away_at is None

    def _deadlines(self) -> list[float]:
        deadlines = []
        if self._ends_at is not None:
            deadlines.append(self._ends_at - (self._next_call_s() or 0.0))
        if self._away_at is not None:
            deadlines.append(self._away_at + self._limits.resume_grace_s)
        elif self._asked_at is not None:
            deadlines.append(self._asked_at + self._limits.answer_s)
        elif self._limits.idle_timeout_s:
            deadlines.append(self._sign_at + self._limits.idle_timeout_s)
        return deadlines


def _rounded(seconds: float) -> float:
    return round(max(0.0, seconds), 1)
