"""The state of the sessions of one model: made for each session, and sent when its public fields change.

A session has one state for all, and one for each of its seats if the model declares one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.events.messages import ClientInfo
from reactor_runtime.authoring.events.state import InputState, StateSpec
from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.authoring.styles.seat import Seat
from reactor_runtime.engine.served import ServedModel, Version
from reactor_runtime.engine.session import ModelSession
from reactor_runtime.ipc.messages import StateChanged, ToServer

# The state for all, then those of the seats.
States = Sequence[InputState | None]


class SessionState:
    """Make the states of each session and send their changes; do nothing for a model that declares no state.

    `seats` are those of the session. Any thread may call `send_changes`; the rest belongs to the model's thread.
    """

    def __init__(self, served: ServedModel, send: Callable[[ToServer], None]) -> None:
        self._served = served
        self._send = send
        self._session = ""
        self.seats: list[Seat] = []
        # Clients have these values: those of the state for all, then those of each seat.
        self._sent: list[dict[str, Any]] = []
        self._make_seats(served.contract.seats)
        # Without it, one thread could send an older value after another thread has sent a newer one.
        self._lock = threading.Lock()
        self.clear()

    def _make_seats(self, count: int) -> None:
        """Make so many seats, unless there are as many; the number does not change in a session."""
        if count == len(self.seats):
            return
        self.seats = [Seat(number) for number in range(count)]

    def begin(self, session: ModelSession) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Make the states of a session and return the public fields: of that for all, and of each seat that has one."""
        self.reset()
        with self._lock:
            self._session = session.id
            if self._served.contract.has_seats:
                # The author's code may have assigned something else.
                self._model.seats = self.seats
            for client in session.joined:
                self._seat(client)
            specs, states = self._specs(self._served.contract), self._states()
            self._sent = [
                {} if spec is None or state is None else spec.to_json(state)
                for spec, state in zip(specs, states, strict=True)
            ]
            shared, *of_seats = map(dict, self._sent)
            return shared, of_seats if self._served.contract.seat_state is not None else []

    def send_changes(self) -> None:
        """Send the public fields that changed since the last call; do nothing outside of sessions.

        Raises TypeError that names the field if JSON can't express its value.
        """
        with self._lock:
            if not self._session:
                return
            contract = self._served.contract
            if contract.state is not None:
                changes = contract.state.changes(self._model.state, self._sent[0])
                if changes:
                    self._send(StateChanged(self._session, changes))
            if contract.seat_state is not None:
                self._send_seats(contract.seat_state)

    def _send_seats(self, spec: StateSpec) -> None:
        for seat in self.seats:
            changes = spec.changes(seat.state, self._sent[1 + seat.number])
            if changes:
                self._send(StateChanged(self._session, changes, seat.number))

    def seat_of(self, client: ClientInfo) -> Seat | None:
        """Return the seat of a controller; None if it has none any more."""
        seats = self.seats
        number = client.seat if client.role == "controller" else None
        seat = seats[number] if number is not None and number < len(seats) else None
        return seat if seat is not None and seat.client is not None and seat.client.id == client.id else None

    def take_seat(self, client: ClientInfo) -> None:
        """Seat a controller that has joined, with a fresh state; do nothing if it is seated already."""
        if self.seat_of(client) is None and (seat := self._seat(client)) is not None:
            self._renew(seat)

    def leave_seat(self, seat: Seat) -> None:
        """Free a seat, whose state is a fresh one from now on."""
        seat.client = None
        self._renew(seat)

    def _seat(self, client: ClientInfo) -> Seat | None:
        """Note the client in its seat, and return that; None for a client without one."""
        if client.role != "controller" or client.seat is None or client.seat >= len(self.seats):
            return None
        seat = self.seats[client.seat]
        seat.client = client
        return seat

    def _renew(self, seat: Seat) -> None:
        spec = self._served.contract.seat_state
        with self._lock:
            seat.state = None if spec is None else spec.fresh()

    def serve(self, version: Version, states: States | None = None) -> States:
        """Replace the version of the model that is served, and give it the seats; return the states that there were.

        In a session the new version gets states with the values of the former ones that are still valid. `states` are
        for the way back: the version gets these, from which the former ones were made, with what has changed since.
        """
        with self._lock:
            self._make_seats(version.contract.seats)
            former, olds = self._states(), self._specs(self._served.contract)
            news = self._specs(version.contract)
            given = states or [None] * len(former)
            made = [self._carried(*each) for each in zip(news, olds, former, given, strict=True)]
            if news[0] is not None:
                version.model.state = made[0]
            for seat, state in zip(self.seats, made[1:], strict=True):
                seat.state = state
            if version.contract.has_seats:
                version.model.seats = self.seats
            self._served.version = version
            return former

    def _carried(
        self, spec: StateSpec | None, old: StateSpec | None, former: InputState | None, state: InputState | None
    ) -> InputState | None:
        """Return a state of another version: `state` with the changes in `former`, or one with the values of that."""
        if spec is None:
            return None
        if state is not None and old is not None and former is not None:
            spec.set_changes(state, old, former)
        if state is None and self._session:
            state = spec.fresh() if old is None or former is None else spec.carry_over(old, former)
        return state

    @property
    def _model(self) -> Model:
        return self._served.model

    def _states(self) -> list[InputState | None]:
        shared = None if self._served.contract.state is None else self._model.state
        return [shared, *(seat.state for seat in self.seats)]

    def _specs(self, contract: Contract) -> list[StateSpec | None]:
        return [contract.state, *([contract.seat_state] * len(self.seats))]

    def clear(self) -> None:
        """End the session and set the states to None."""
        with self._lock:
            self._session = ""
        if self._served.contract.state is not None:
            self._model.state = None
        for seat in self.seats:
            seat.client = seat.state = None

    def reset(self) -> None:
        """End the session and set fresh states, for code that also runs without a session."""
        self.clear()
        contract = self._served.contract
        if contract.state is not None:
            self._model.state = contract.state.fresh()
        for seat in self.seats:
            self._renew(seat)
