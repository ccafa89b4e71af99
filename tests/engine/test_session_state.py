from __future__ import annotations

from typing import Any

import pytest

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.events.messages import ClientInfo
from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.engine.served import ServedModel, Version
from reactor_runtime.engine.session import ModelSession
from reactor_runtime.engine.session_state import SessionState
from reactor_runtime.interface import InputState, Output, ReactorModel, Video
from reactor_runtime.ipc.messages import StateChanged, ToServer
from tests.fakes import FakeClock


class Shown(Output):
    main_video: Video


class Level(InputState):
    level: int = 1


class Named(InputState):
    level: int = 1
    name: str = "a"


class Stateless(ReactorModel):
    output: Shown

    async def run(self) -> None: ...


class Levelled(Stateless):
    state: Level


class Hand(InputState):
    card: str = ""


class Seated(Stateless):
    state: Level
    seat_state: Hand
    seats: Any = 2


class Renamed(Stateless):
    state: Named


def version_of(cls: type[Model]) -> Version:
    contract = Contract.of(cls)
    return Version(contract.style.make(cls, {}), contract, {})


class Session:
    """A state of `Levelled` in a session, and the messages that it sent."""

    def __init__(self) -> None:
        self.sent: list[ToServer] = []
        self.version = version_of(Levelled)
        self.model: Any = self.version.model
        self.state = SessionState(ServedModel(self.version), self.sent.append)
        client = ClientInfo("c-1", 0.0)
        assert self.state.begin(ModelSession("s-1", client, FakeClock(), 1e9)) == ({"level": 1}, [])
        self.model.state.level = 5
        self.state.send_changes()


@pytest.fixture
def session() -> Session:
    return Session()


def test_changes_are_sent_in_a_session_only(session: Session) -> None:
    session.state.send_changes()
    session.state.clear()
    session.state.send_changes()
    assert session.sent == [StateChanged("s-1", {"level": 5})]


def test_code_without_a_state_and_back_leaves_the_values(session: Session) -> None:
    values: Any = session.model.state
    assert session.state.serve(version_of(Stateless)) == [values, None]
    assert session.state.serve(session.version, [values, None]) == [None, None]
    assert session.model.state is values
    assert values.level == 5


def test_code_with_another_state_gets_the_values_and_back_leaves_what_it_changed(session: Session) -> None:
    version = version_of(Renamed)
    other: Any = version.model
    values: Any = session.model.state
    former = session.state.serve(version)
    assert former == [values, None]
    assert (other.state.level, other.state.name) == (5, "a")
    other.state.level = 9
    session.state.serve(session.version, former)
    assert session.model.state is values
    assert values.level == 9


def test_code_with_a_first_state_gets_a_fresh_one(session: Session) -> None:
    session.state.serve(version_of(Stateless))
    version = version_of(Levelled)
    session.state.serve(version)
    other: Any = version.model
    assert other.state.level == 1


class Table:
    """A state of `Seated` in a session that its first controller has started, and the messages that it sent."""

    def __init__(self) -> None:
        self.sent: list[ToServer] = []
        self.version = version_of(Seated)
        self.model: Any = self.version.model
        self.state = SessionState(ServedModel(self.version), self.sent.append)
        self.first, self.second = ClientInfo("c-1", 0.0, seat=0), ClientInfo("c-2", 0.0, seat=1)
        # As an author's code may.
        self.model.seats = None
        self.fields = self.state.begin(ModelSession("s-1", self.first, FakeClock(), 1e9, seats=2))


@pytest.fixture
def table() -> Table:
    return Table()


def test_a_session_begins_with_its_controller_in_its_seat(table: Table) -> None:
    assert table.model.seats is table.state.seats
    assert [seat.client for seat in table.model.seats] == [table.first, None]
    assert table.fields == ({"level": 1}, [{"card": ""}, {"card": ""}])


def test_the_state_of_a_seat_is_sent_with_its_number(table: Table) -> None:
    table.model.seats[1].state.card = "ace"
    table.state.send_changes()
    table.model.state.level = 2
    table.model.seats[0].state.card = "king"
    table.state.send_changes()
    table.state.send_changes()
    assert table.sent == [
        StateChanged("s-1", {"card": "ace"}, 1),
        StateChanged("s-1", {"level": 2}),
        StateChanged("s-1", {"card": "king"}, 0),
    ]
    assert table.fields == ({"level": 1}, [{"card": ""}, {"card": ""}]), "clients may not have got these yet"


def test_only_the_controller_in_a_seat_has_it(table: Table) -> None:
    first, second = table.state.seats
    viewer = ClientInfo("c-1", 0.0, role="viewer")
    assert [table.state.seat_of(client) for client in (table.first, table.second, viewer)] == [first, None, None]
    table.state.take_seat(table.second)
    table.state.take_seat(viewer)
    assert [seat.client for seat in table.state.seats] == [table.first, table.second]
    assert table.state.seat_of(table.second) is second
    assert table.state.seat_of(ClientInfo("c-3", 0.0, seat=1)) is None


def test_a_seat_has_a_fresh_state_for_each_controller(table: Table) -> None:
    seat = table.state.seats[1]
    table.state.take_seat(table.second)
    seat.state.card = "ace"
    table.state.take_seat(table.second)
    assert seat.state.card == "ace"
    table.state.leave_seat(seat)
    assert (seat.client, seat.state.card) == (None, "")


def test_another_version_gets_the_same_seats_with_their_controllers(table: Table) -> None:
    seats = table.state.seats
    other = version_of(Seated)
    table.state.serve(other)
    assert table.state.seats is seats
    assert getattr(other.model, "seats") is seats  # noqa: B009  (its class declares a number)
    assert seats[0].client is table.first


def test_a_version_that_is_served_outside_a_session_gets_no_state(table: Table) -> None:
    table.state.clear()
    other = version_of(Seated)
    table.state.serve(other)
    assert (other.model.state, [seat.state for seat in table.state.seats]) == (None, [None, None])


def test_nothing_is_left_of_a_session_that_was_cleared(table: Table) -> None:
    table.state.clear()
    assert table.model.state is None
    assert [(seat.client, seat.state) for seat in table.state.seats] == [(None, None), (None, None)]
