"""The losses of sessions, by ticket id, for clients that return. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from reactor_runtime.server.sessions.admission import Loss

MOST_TICKETS = 10_000
RETURN_S = 60.0


class LostSessions:
    """Keep the losses of sessions, by the ids of their tickets; the oldest are forgotten when there are too many.

    A loss is kept for `resume_grace_s`, in which a client tries to resume its session, and a minute more.
    """

    def __init__(self) -> None:
        self._losses: OrderedDict[str, tuple[Loss, Sequence[str], float]] = OrderedDict()

    def add(self, tickets: Sequence[str], loss: Loss, now: float, resume_grace_s: float) -> None:
        for ticket in tickets:
            self._losses[ticket] = loss, tickets, now + resume_grace_s + RETURN_S
        while len(self._losses) > MOST_TICKETS:
            self._losses.popitem(last=False)

    def take(self, ticket: str, now: float) -> Loss | None:
        """Return the loss of the session of a ticket, once for all its tickets; None if it was not lost."""
        if ticket not in self._losses:
            return None
        loss, tickets, forgotten_at = self._losses[ticket]
        for each in tickets:
            self._losses.pop(each, None)
        return loss if now < forgotten_at else None
