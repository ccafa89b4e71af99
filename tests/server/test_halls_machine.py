"""Several halls under any order of comings, goings, ends, crashes and loads: no slot is lost, and the line is fair."""

from __future__ import annotations

import os

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from reactor_runtime.seam import messages as seam
from reactor_runtime.server.connection import Connection, Role
from reactor_runtime.server.hall import Hall
from reactor_runtime.server.session import SessionPhase
from reactor_runtime.server.supervisor import EnginePhase
from reactor_runtime.server.turn import TurnLimits
from tests.server.house import House

MOST = 3
LIMITS = TurnLimits(max_session_s=40)
NUMBERS = st.integers(1, 3)


class Halls(RuleBasedStateMachine):
    @initialize(engines=NUMBERS, loaded=st.booleans(), crowd=st.integers(0, 6), viewers=st.integers(0, MOST))
    def open(self, engines: int, loaded: bool, crowd: int, viewers: int) -> None:
        """Begin with any number of people there: what goes wrong among many is rarely reached from none."""
        self.house = House(engines=engines, most_waiting=MOST, most_viewers=MOST, limits=LIMITS)
        self.line: list[Connection] = []
        self.viewers: list[Connection] = []
        self.served: list[Connection] = []
        for engine in self.house.engines if not loaded else ():
            engine.phase = EnginePhase.LOADING
        for number in range(crowd):
            self.arrive(watches=number % 2 == 0)
        for hall in self.house.halls:
            self.start(hall)
        self.viewers += [self.house.come(Role.VIEWER) for _ in range(viewers)]

    def teardown(self) -> None:
        if hasattr(self, "house"):
            os.close(self.house.memory)

    @rule(watches=st.booleans())
    def come(self, watches: bool) -> None:
        self.arrive(watches=watches)

    def arrive(self, *, watches: bool) -> None:
        free = [hall for hall in self.halls(EnginePhase.READY, EnginePhase.LOADING) if hall.session is None]
        connection = self.house.come(watches=watches)
        assert (connection.closing is None) == (len(self.line) < max(MOST, len(free)))
        if connection.closing is None:
            self.line.append(connection)
        self.seat()

    @rule(number=NUMBERS)
    def watch(self, number: int) -> None:
        wanted = self.hall(number)
        session = "" if wanted.session is None else wanted.session.id
        viewer = self.house.come(Role.VIEWER, session=session)
        if viewer.closing is None:
            self.viewers.append(viewer)
            assert not session or wanted.engine.phase is not EnginePhase.READY or viewer in wanted.audience

    @rule(pick=st.integers(0))
    def leave(self, pick: int) -> None:
        everyone = self.house.lobby.everyone()
        if everyone:
            gone = everyone[pick % len(everyone)]
            self.house.lobby.detach(gone)
            for group in (self.line, self.viewers):
                if gone in group:
                    group.remove(gone)

    @rule(number=NUMBERS)
    def begin(self, number: int) -> None:
        self.start(self.hall(number))

    def start(self, hall: Hall) -> None:
        if hall.session is not None and hall.session.phase is SessionPhase.STARTING:
            self.house.begin(hall.number, level=hall.number)

    @rule(number=NUMBERS, error=st.none() | st.just("broken"))
    def end(self, number: int, error: str | None) -> None:
        hall = self.hall(number)
        if hall.session is not None:
            controller = hall.session.controller
            self.house.end(error, hall.number)
            assert controller.closing is not None
            self.seat()

    @rule(number=NUMBERS)
    def crash(self, number: int) -> None:
        hall = self.hall(number)
        others = {each: each.session for each in self.house.halls if each is not hall}
        if hall.engine.phase is EnginePhase.READY:
            self.house.crash(hall.number)
            assert hall.session is None
            assert {each: each.session for each in others} == others

    @rule(number=NUMBERS)
    def load(self, number: int) -> None:
        hall = self.hall(number)
        if hall.engine.phase is EnginePhase.LOADING:
            self.house.load(hall.number)
            self.seat()

    @rule(number=NUMBERS)
    def give_up(self, number: int) -> None:
        """Have an engine fail for good, as long as there is another."""
        hall = self.hall(number)
        if hall.engine.phase is EnginePhase.LOADING and len(self.halls(EnginePhase.FAILED)) < len(self.house.halls) - 1:
            self.house.engines[hall.number - 1].phase = EnginePhase.FAILED

    @rule(seconds=st.integers(1, 60))
    def wait(self, seconds: int) -> None:
        self.house.clock.move_to(self.house.clock.now() + seconds)

    @invariant()
    def no_slot_is_lost(self) -> None:
        free = [hall for hall in self.halls(EnginePhase.READY) if hall.session is None]
        assert not (free and self.house.lobby.line.waiting)
        for hall, engine in zip(self.house.halls, self.house.engines, strict=True):
            starts = [message.session for message in engine.of(seam.StartSession)]
            assert len(set(starts)) == len(starts)
            assert hall.session is None or hall.session.id == starts[-1]

    @invariant()
    def everybody_in_line_knows_the_place(self) -> None:
        assert list(self.house.lobby.line.waiting) == self.line
        for position, connection in enumerate(self.line, start=1):
            assert connection.told_position == (position, len(self.line))
            assert connection.closing is None

    @invariant()
    def who_watches_sees_one_session_and_none_only_while_there_is_none(self) -> None:
        lobby = self.house.lobby
        assert lobby.gallery.viewers == set(self.viewers)
        on = [hall for hall in self.house.halls if hall.is_on]
        for connection in [*self.viewers, *(each for each in self.line if each.watches)]:
            seen = [hall for hall in self.house.halls if connection in hall.audience]
            assert len(seen) <= 1
            assert connection.closing is None
            assert not on or seen[0] in on or seen[0].session is not None  # which was asked for, and is about to begin
        for hall in self.house.halls:
            for member in hall.audience:
                controls = hall.session is not None and hall.session.controller is member
                assert controls or member in self.viewers or (member.watches and member in self.line)

    @invariant()
    def as_many_turns_end_as_people_wait(self) -> None:
        sessions = [hall.session for hall in self.house.halls if hall.session is not None]
        running = [session for session in sessions if session.phase is SessionPhase.RUNNING]
        stopping = sum(session.phase is SessionPhase.STOPPING for session in sessions)
        ending = sum(session.turn.left_s is not None for session in running)
        assert ending == min(len(running), max(0, len(self.line) - stopping))

    def halls(self, *phases: EnginePhase) -> list[Hall]:
        return [hall for hall in self.house.halls if hall.engine.phase in phases]

    def hall(self, number: int) -> Hall:
        return self.house.halls[(number - 1) % len(self.house.halls)]

    def seat(self) -> None:
        """See that those who were given a hall were the next in line."""
        controllers = [hall.session.controller for hall in self.house.halls if hall.session is not None]
        assert len(set(controllers)) == len(controllers)
        seated = [each for each in self.line if each in controllers]
        assert seated == self.line[: len(seated)]
        del self.line[: len(seated)]
        assert not set(seated).intersection(self.served)
        self.served += seated


TestHalls = Halls.TestCase
TestHalls.settings = settings(max_examples=80)
