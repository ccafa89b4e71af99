"""Keeps the reasons of lost sessions by ticket id, for clients that return. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

MOST_TICKETS = 10_000


class LostSessions:
    """Keep why sessions were lost, by the ids of their tickets; the oldest are forgotten when there are too many."""

    def __init__(self) -> None:
        self._losses: OrderedDict[str, tuple[str, Sequence[str]]] = OrderedDict()

    def add(self, tickets: Sequence[str], reason: str) -> None:
        for ticket in tickets:
            self._losses[ticket] = reason, tickets
        while len(self._losses) > MOST_TICKETS:
            self._losses.popitem(last=False)

    def take_reason(self, ticket: str) -> str:
        """Return why the session of a ticket was lost, once for all its tickets; "" if it was not."""
        reason, tickets = self._losses.get(ticket, ("", ()))
        for each in tickets:
            self._losses.pop(each, None)
        return reason
