"""The lobby under any order of comings, goings, ends and crashes: the model is neither idle nor doubled."""

from __future__ import annotations

import os

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from reactor_runtime.seam import messages as seam
from reactor_runtime.server.connection import Connection, Role
from reactor_runtime.server.session import SessionPhase
from reactor_runtime.server.supervisor import EnginePhase
from tests.server.house import House

MOST = 3


class Lobbies(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.house = House(most_waiting=MOST, most_viewers=MOST)
        self.line: list[Connection] = []
        self.viewers: list[Connection] = []
        self.controller: Connection | None = None
        self.sessions = 0

    def teardown(self) -> None:
        os.close(self.house.memory)

    @property
    def ready(self) -> bool:
        return self.house.engine.phase is EnginePhase.READY

    @rule(watches=st.booleans())
    def come(self, watches: bool) -> None:
        free = self.controller is None and self.house.lobby.session is None and not self.line
        connection = self.house.come(watches=watches)
        if len(self.line) >= MOST and not free:
            assert connection.closing is not None
        else:
            self.line.append(connection)
            self.seat()

    @rule()
    def watch(self) -> None:
        viewer = self.house.come(Role.VIEWER)
        if len(self.viewers) >= MOST:
            assert viewer.closing is not None
        else:
            self.viewers.append(viewer)

    @rule(pick=st.integers(0), twice=st.booleans())
    def leave(self, pick: int, twice: bool) -> None:
        everyone = [*self.line, *self.viewers, *([] if self.controller is None else [self.controller])]
        if not everyone:
            return
        gone = everyone[pick % len(everyone)]
        for _ in range(1 + twice):
            self.house.lobby.detach(gone)
        if gone is self.controller:
            self.controller = None
        else:
            (self.line if gone in self.line else self.viewers).remove(gone)

    @precondition(lambda self: self.house.lobby.session is not None)
    @rule()
    def begin(self) -> None:
        self.house.begin(level=1)

    @precondition(lambda self: self.house.lobby.session is not None)
    @rule(error=st.none() | st.just("broken"))
    def end(self, error: str | None) -> None:
        ended = self.controller
        self.house.end(error)
        self.over(ended)
        self.seat()

    @precondition(lambda self: self.ready)
    @rule()
    def crash(self) -> None:
        ended = self.controller
        self.house.crash()
        self.over(ended)

    @precondition(lambda self: not self.ready)
    @rule()
    def load(self) -> None:
        self.house.engine.phase = EnginePhase.READY
        self.house.lobby.engine_ready(1.0)
        self.seat()

    @invariant()
    def everybody_is_where_they_belong(self) -> None:
        lobby = self.house.lobby
        assert list(lobby.line.waiting) == self.line
        assert lobby.viewers == set(self.viewers)
        assert self.controller is None or (lobby.session is not None and lobby.session.controller is self.controller)
        assert len(self.line) <= MOST
        assert not any(each.closing for each in lobby.everyone() if each in self.line or each in self.viewers)

    @invariant()
    def the_model_is_neither_idle_nor_doubled(self) -> None:
        lobby, engine = self.house.lobby, self.house.engine
        assert not (self.ready and lobby.session is None and self.line)
        assert self.ready or lobby.session is None
        starts = [message.session for message in engine.of(seam.StartSession)]
        stops = [message.session for message in engine.of(seam.StopSession)]
        assert (len(starts), len(set(starts))) == (self.sessions, self.sessions)
        assert len(set(stops)) == len(stops)
        if lobby.session is not None:
            stopping = lobby.session.phase is SessionPhase.STOPPING
            assert lobby.session.id == starts[-1]
            assert stopping == (self.controller is None) == (lobby.session.id in stops)

    @invariant()
    def who_sees_a_session_has_asked_for_it_or_has_it(self) -> None:
        lobby = self.house.lobby
        running = lobby.session is not None and lobby.session.phase is SessionPhase.RUNNING
        for connection in self.house.audience:
            assert connection in lobby.everyone()
            assert connection.watches or connection is self.controller or connection in self.viewers
        for connection in [*self.viewers, *(each for each in self.line if each.watches)] if running else ():
            assert connection in self.house.audience

    def seat(self) -> None:
        if self.ready and self.line and len(self.house.engine.of(seam.StartSession)) > self.sessions:
            self.controller = self.line.pop(0)
            self.sessions += 1

    def over(self, ended: Connection | None) -> None:
        assert ended is None or ended.closing is not None
        self.controller = None


TestLobbies = Lobbies.TestCase
TestLobbies.settings = settings(max_examples=60, deadline=None)
