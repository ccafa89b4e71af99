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
