"""Keeps the reasons of lost sessions by ticket id, for clients that return. Pure."""

from __future__ import annotations

from collections import OrderedDict

MOST_LOST = 10_000


class LostSessions:
    """Keep why sessions were lost, by the ids of their tickets; the oldest are forgotten when there are too many."""

    def __init__(self) -> None:
        self._reasons: OrderedDict[str, str] = OrderedDict()

    def add(self, ticket: str, reason: str) -> None:
        self._reasons[ticket] = reason
        if len(self._reasons) > MOST_LOST:
            self._reasons.popitem(last=False)

    def take_reason(self, ticket: str) -> str:
        """Return why the session of a ticket was lost, once; "" if it was not."""
        return self._reasons.pop(ticket, "")
