"""A seat of a session: the place of one controller, its turn, and the secret with which it resumes."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Any

from reactor_runtime.server.delivery.client import Client
from reactor_runtime.server.sessions.turn import Turn


class SessionSeat:
    """Hold who has a seat, and what belongs to it; use on the server's loop.

    `controller` is the client that has the seat, or had it last, `client_id` its id for the model, however often it
    resumes. `state` has the fields of the seat's own state. `make_turn` makes a turn for each controller.
    """

    def __init__(self, number: int, make_turn: Callable[[SessionSeat], Turn], *, may_resume: bool) -> None:
        self.number = number
        self.controller: Client | None = None
        self.client_id = ""
        self.resume_secret: str | None = None
        self.state: dict[str, Any] = {}
        # The controller has left, and no other one has come.
        self.is_free = True
        # The controller has lost its connection, and may resume.
        self.is_away = False
        # Whether the connection of the controller broke.
        self.is_broken = False
        # How often the seat has lost its controller.
        self.vacancies = 0
        # When the turn began, less what a lost session has used of it; 0 before.
        self.began_at = 0.0
        self._make_turn = make_turn
        self._may_resume = may_resume
        self.turn = make_turn(self)

    def take(self, client: Client) -> None:
        """Seat a client, and make a new secret: the former controller can't resume any more."""
        self.resume_secret = secrets.token_urlsafe(24) if self._may_resume else None
        self.continue_with(client)

    def start_turn(self, now: float, used_s: float) -> None:
        """Start the turn of the controller, of which a lost session has used `used_s`."""
        self.began_at = now - used_s
        self.turn.start(used_s)

    def continue_with(self, client: Client) -> None:
        """Seat a client that knows the secret."""
        self.controller = client
        self.client_id = client.id
        client.seat = self.number
        self.is_free = self.is_away = self.is_broken = False

    def vacate(self) -> Client:
        """Take the seat from its controller, which is returned; the turn of the next one is a new one."""
        controller = self.controller
        assert controller is not None, "the seat is not free"
        self.turn.stop()
        self.turn = self._make_turn(self)
        self.is_free, self.is_away = True, False
        self.vacancies += 1
        return controller

    @property
    def ticket(self) -> str:
        """Return the id of the ticket with which the controller, or the last one, came from a front; "" for none."""
        return "" if self.controller is None else self.controller.ids.get("ticket", "")

    def is_resumed_by(self, secret: str) -> bool:
        """Return whether a client with this secret may resume."""
        if self.resume_secret is None:
            return False
        return secrets.compare_digest(secret.encode(errors="replace"), self.resume_secret.encode())


def choose_seat(client: Client, free: Sequence[int], *, room: str, is_private: bool) -> int | None:
    """Return the one of the free seats that a client wants, or the first; None without one, or for another room.

    A room that was opened with a code is for clients that have the code.
    """
    if client.room != (room if is_private or client.room else ""):
        return None
    if client.wanted_seat is not None:
        return client.wanted_seat if client.wanted_seat in free else None
    return free[0] if free else None
