"""Further clients of a studio, in the other seats of its session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class SeatedStudio(Protocol):
    """The part of a studio that its further clients use."""

    def send_event_of(self, client: str, seat: int, event: str, data: dict[str, Any]) -> Any: ...

    def leave_seat(self, client: str, seat: int) -> None: ...


class SeatedClient:
    """Act as the client in one seat of a session; `seat` is the number of the seat, `id` the id of the client."""

    def __init__(self, studio: SeatedStudio, id: str, seat: int) -> None:
        self._studio = studio
        self.id = id
        self.seat = seat

    def send_event(self, event: str, /, **data: Any) -> Any:
        """Send an event as `Studio.send_event` does, from this seat."""
        return self._studio.send_event_of(self.id, self.seat, event, data)

    def leave(self) -> None:
        """Leave the session; return when the seat is free. May be called twice."""
        self._studio.leave_seat(self.id, self.seat)


def free_seat(wanted: int | None, taken: Callable[[int], bool], seats: int) -> int:
    """Return the seat that is wanted, or the first free one; raise RuntimeError if it is not free."""
    free = [seat for seat in range(seats) if not taken(seat)]
    if not free or (wanted is not None and wanted not in free):
        which = "no seat" if wanted is None else f"seat {wanted} is not"
        raise RuntimeError(f"{which} free: the session has {seats}, and free are {free or 'none'}")
    return free[0] if wanted is None else wanted
