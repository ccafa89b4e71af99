"""What was handed over and was not shown or dropped yet: how many moments there may be, and when there is room."""

from __future__ import annotations

from dataclasses import dataclass

ENCODING = 2


@dataclass(frozen=True, slots=True)
class Handed:
    """A moment that was handed over; `compute_s` is that of its step, for the first of a step alone.

    `alone` says that it is sound without a picture.
    """

    due: float
    handed_over: float
    compute_s: float | None
    alone: bool = False


class Outstanding:
    """Count moments against `buffer_size`, frames and sound alone apart; belongs to the model's thread."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._moments: dict[int, Handed] = {}

    def __len__(self) -> int:
        return len(self._moments)

    def add(self, number: int, moment: Handed) -> None:
        self._moments[number] = moment

    def take(self, number: int) -> Handed | None:
        """Give a moment back that is outstanding no more; None if it never was, or belongs to a session before."""
        return self._moments.pop(number, None)

    def clear(self) -> None:
        self._moments.clear()

    def full(self, now: float, interval_s: float, *, alone: bool = False) -> bool:
        """Tell whether `buffer_size` moments wait to be shown; late ones are being encoded, and two of them may be."""
        dues = [moment.due for moment in self._moments.values() if moment.alone == alone]
        spare = len(dues) - self._most
        if spare < 0 or spare >= ENCODING:
            return spare >= 0
        late = now - interval_s
        return sum(due >= late for due in dues) >= self._most
