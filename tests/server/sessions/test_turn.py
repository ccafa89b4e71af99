from __future__ import annotations

import pytest

from reactor_runtime.server.sessions.turn import Turn, TurnEnd, TurnLimits, TurnNotice
from tests.fakes import FakeClock

MINUTES = TurnLimits(max_session_s=300)
IDLE = TurnLimits(idle_timeout_s=120)

Notices = list[tuple[float, str, float | None]]


class Timed:
    """A turn that started at 0 on its clock, and its notices and its end with their times."""

    def __init__(self, limits: TurnLimits, *, others_wait: bool = False) -> None:
        self.clock = FakeClock(0.0)
        self.notices: Notices = []
        self.ends: list[tuple[float, TurnEnd]] = []
        self.turn = Turn(limits, self.clock, on_notice=self._record, on_end=self._record_end)
        self.turn.start()
        self.turn.set_others_waiting(others_wait)

    def last(self) -> tuple[float, str, float | None]:
        return self.notices[-1]

    def _record(self, notice: TurnNotice, seconds: float | None) -> None:
        self.notices.append((self.clock.now(), notice, seconds))

    def _record_end(self, end: TurnEnd) -> None:
        self.ends.append((self.clock.now(), end))


def test_a_turn_goes_on_while_nobody_waits() -> None:
    timed = Timed(MINUTES)
    timed.clock.move_to(10_000)
    assert (timed.notices, timed.ends, timed.turn.left_s) == ([], [], None)


def test_a_turn_with_others_in_line_ends_in_time_and_says_so_before() -> None:
    timed = Timed(MINUTES, others_wait=True)
    timed.clock.move_to(100)
    assert timed.turn.left_s == 200
    timed.clock.move_to(10_000)
    assert timed.notices == [(0, "ending", 300), (240, "ending", 60), (290, "ending", 10)]
    assert timed.ends == [(300, TurnEnd.TIME)]


@pytest.mark.parametrize(
    ("max_s", "came_at", "ends_at"),
    [(300, 100, 300), (300, 270, 330), (300, 5000, 5060), (60, 0, 60), (60, 55, 70), (8, 100, 102)],
)
def test_who_comes_late_waits_no_longer_than_the_notice(max_s: float, came_at: float, ends_at: float) -> None:
    timed = Timed(TurnLimits(max_session_s=max_s))
    timed.clock.move_to(came_at)
    timed.turn.set_others_waiting(True)
    assert timed.notices == [(came_at, "ending", ends_at - came_at)]
    timed.clock.move_to(10_000)
    assert timed.ends == [(ends_at, TurnEnd.TIME)]


def test_the_end_is_called_off_when_nobody_waits_any_more() -> None:
    timed = Timed(MINUTES, others_wait=True)
    timed.clock.move_to(299)
    timed.turn.set_others_waiting(False)
    assert timed.last() == (299, "ending", None)
    timed.clock.move_to(1000)
    timed.turn.set_others_waiting(True)
    timed.turn.set_others_waiting(True)
    assert timed.last() == (1000, "ending", 60)
    timed.clock.move_to(1060)
    assert timed.ends == [(1060, TurnEnd.TIME)]


def test_a_silent_controller_is_asked_and_then_let_go() -> None:
    timed = Timed(IDLE)
    timed.clock.move_to(1000)
    assert timed.notices == [(120, "idle", 30)]
    assert timed.ends == [(150, TurnEnd.IDLE)]


def test_a_sign_in_time_keeps_the_turn_and_takes_the_question_back() -> None:
    timed = Timed(IDLE)
    timed.clock.move_to(100)
    timed.turn.record_activity()
    timed.clock.move_to(249)
    timed.turn.record_activity()
    assert timed.notices == [(220, "idle", 30), (249, "idle", None)]
    timed.clock.move_to(398)
    assert timed.last() == (369, "idle", 30)
    assert timed.ends == []


def test_a_short_patience_has_as_short_an_answer() -> None:
    timed = Timed(TurnLimits(idle_timeout_s=5))
    timed.clock.move_to(1000)
    assert timed.notices == [(5, "idle", 5)]
    assert timed.ends == [(10, TurnEnd.IDLE)]


def test_the_first_of_two_ends_counts_and_nothing_follows() -> None:
    timed = Timed(TurnLimits(max_session_s=130, idle_timeout_s=120), others_wait=True)
    timed.clock.move_to(1000)
    assert timed.ends == [(130, TurnEnd.TIME)]
    timed.turn.set_others_waiting(False)
    timed.turn.record_activity()
    assert timed.clock.pending == 0


@pytest.mark.parametrize("limits", [MINUTES, IDLE, TurnLimits(resume_grace_s=5)])
def test_a_turn_that_is_stopped_leaves_no_timer_and_says_nothing(limits: TurnLimits) -> None:
    timed = Timed(limits, others_wait=True)
    timed.notices.clear()
    timed.turn.stop()
    timed.turn.stop()
    assert not timed.turn.wait_for_controller()
    timed.clock.move_to(1000)
    assert (timed.clock.pending, timed.notices, timed.ends) == (0, [], [])


def test_who_is_away_may_come_back_within_the_grace() -> None:
    timed = Timed(TurnLimits(resume_grace_s=5))
    assert timed.turn.wait_for_controller()
    timed.clock.move_to(4.9)
    timed.turn.controller_returned()
    timed.clock.move_to(100)
    assert timed.turn.wait_for_controller()
    timed.clock.move_to(200)
    assert timed.notices == [(0, "away", 5), (100, "away", 5)]
    assert timed.ends == [(105, TurnEnd.LEFT)]


def test_who_is_away_is_not_asked_and_has_all_its_time_again_after() -> None:
    timed = Timed(TurnLimits(idle_timeout_s=10, resume_grace_s=60))
    timed.clock.move_to(12)
    timed.turn.wait_for_controller()
    timed.clock.move_to(50)
    timed.turn.controller_returned()
    timed.clock.move_to(59)
    assert [notice for _, notice, _ in timed.notices] == ["idle", "away"]
    timed.clock.move_to(60)
    assert timed.last() == (60, "idle", 10)


def test_time_runs_on_while_the_controller_is_away() -> None:
    timed = Timed(TurnLimits(max_session_s=40, resume_grace_s=60), others_wait=True)
    timed.clock.move_to(35)
    timed.turn.wait_for_controller()
    timed.clock.move_to(100)
    assert timed.ends == [(40, TurnEnd.TIME)]


def test_without_a_grace_nobody_waits_for_who_has_left() -> None:
    assert not Timed(IDLE).turn.wait_for_controller()
