"""Seats: the places of the controllers in a session that has several, `self.seats` of its model."""

from __future__ import annotations

import inspect
from typing import Any

from reactor_runtime.authoring.events.messages import ClientInfo

# Each seat has frames of its own, which are encoded for it.
MOST_SEATS = 64


class Seat:
    """Represent the place of one controller in a session; `number` is its index in `self.seats`.

    `state` is an instance of the class that the model annotates as `seat_state`, fresh for each controller, and None
    outside a session. `client` is the controller, None while the seat is free: the model may set its state then.
    """

    __slots__ = ("client", "number", "state")

    def __init__(self, number: int) -> None:
        self.number = number
        self.state: Any = None
        self.client: ClientInfo | None = None

    @property
    def taken(self) -> bool:
        """Return whether a controller has the seat, also while it is away and may resume."""
        return self.client is not None


def seats_of(model: object) -> int:
    """Return how many seats a class, or a model after its `load()`, declares, or has already; 1 if it declares none."""
    value = inspect.getattr_static(model, "seats", 1)
    if isinstance(value, list) and value and all(isinstance(seat, Seat) for seat in value):
        return len(value)
    return value if type(value) is int else 1


def check_seats(value: object, where: str) -> None:
    """Raise ValueError for a wrong number of seats; ignore a value of another type, which has another meaning."""
    if type(value) is int and not 1 <= value <= MOST_SEATS:
        raise ValueError(f"{where} must be from 1 to {MOST_SEATS}, not {value}")
