"""How long waiting controllers wait for a slot: from the limit of turns, else from the length of the last ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from reactor_runtime.server.options import TurnLimits

MEASURED = 16


@dataclass(frozen=True, slots=True)
class WaitEstimate:
    """Estimate waits: turns last `turn_s`, and those that run last `left_s` from now on, in ascending order."""

    turn_s: float
    left_s: Sequence[float]

    def wait_s(self, position: int) -> float:
        """Return the seconds until the controller at a position in the queue, from 1, gets a slot."""
        rounds, slot = divmod(position - 1, len(self.left_s))
        return self.left_s[slot] + rounds * self.turn_s


class TurnLengths:
    """Measure the turns of slots; the estimate takes the limit of a turn, without one the median of the last turns.

    Pure. Slots have numbers.
    """

    def __init__(self, limits: TurnLimits) -> None:
        self._limits = limits
        self._began: dict[int, float] = {}
        self._lengths: deque[float] = deque(maxlen=MEASURED)

    def begin(self, slot: int, now: float) -> None:
        self._began[slot] = now

    def end(self, slot: int, now: float) -> None:
        """End the turn of a slot, if there is one."""
        if (began := self._began.pop(slot, None)) is not None:
            self._lengths.append(now - began)

    def estimate(self, lasted_s: Iterable[float]) -> WaitEstimate | None:
        """Return the estimate while turns run that have `lasted_s` already; None as long as nothing is known."""
        most_s = self._limits.max_session_s
        turn_s = most_s or (median(self._lengths) if self._lengths else 0.0)
        if not turn_s:
            return None
        # A turn without a limit that lasts longer than most is expected to last as long again.
        least_s = self._limits.notice_s if most_s else turn_s
        left_s = sorted(turn_s - each if each < turn_s else least_s for each in lasted_s)
        return WaitEstimate(turn_s, left_s) if left_s else None
