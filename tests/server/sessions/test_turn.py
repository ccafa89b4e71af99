from __future__ import annotations

import pytest

from reactor_runtime.server.options import TurnLimits
from reactor_runtime.server.sessions.turn import Turn, TurnEnd, TurnNotice
from tests.fakes import FakeClock

MINUTES = TurnLimits(max_session_s=300)
IDLE = TurnLimits(idle_timeout_s=120)

Notices = list[tuple[float, str, float | None]]


class Timed:
    """A turn that started at 0 on its clock, and its notices and its end with their times."""

    def __init__(self, limits: TurnLimits, *, others_wait: bool = False, used_s: float = 0.0) -> None:
        self.clock = FakeClock(0.0)
        self.notices: Notices = []
        self.ends: list[tuple[float, TurnEnd]] = []
        self.turn = Turn(limits, self.clock, on_notice=self._record, on_end=self._record_end)
        self.turn.start(used_s)
        self.turn.set_others_waiting(others_wait)

    def last(self) -> tuple[float, str, float | None]:
        return self.notices[-1]

    def _record(self, notice: TurnNotice, seconds: float | None) -> None:
        self.notices.append((self.clock.now(), notice, seconds))

    def _record_end(self, end: TurnEnd) -> None:
        self.ends.append((self.clock.now(), end))


def test_a_turn_continues_while_no_client_waits() -> None:
    timed = Timed(MINUTES)
    timed.clock.move_to(10_000)
    assert (timed.notices, timed.ends, timed.turn.left_s) == ([], [], None)


def test_a_turn_ends_at_its_limit_after_two_notices_while_others_wait() -> None:
    timed = Timed(MINUTES, others_wait=True)
    timed.clock.move_to(100)
    assert timed.turn.left_s == 200
    timed.clock.move_to(10_000)
    assert timed.notices == [(0, "ending", 300), (240, "ending", 60), (290, "ending", 10)]
    assert timed.ends == [(300, TurnEnd.TIME)]


@pytest.mark.parametrize(("used_s", "ends_at"), [(0.0, 300), (100.0, 200), (239.0, 61), (250.0, 60)])
def test_a_turn_that_a_lost_session_has_used_lasts_for_its_rest_but_not_less_than_the_notice(
    used_s: float, ends_at: float
) -> None:
    timed = Timed(MINUTES, others_wait=True, used_s=used_s)
    timed.clock.move_to(10_000)
    assert timed.ends == [(ends_at, TurnEnd.TIME)]


@pytest.mark.parametrize(
    ("max_s", "came_at", "ends_at"),
    [(300, 100, 300), (300, 270, 330), (300, 5000, 5060), (60, 0, 60), (60, 55, 70), (8, 100, 102)],
)
def test_a_client_that_comes_after_the_limit_waits_no_longer_than_the_notice(
    max_s: float, came_at: float, ends_at: float
) -> None:
    timed = Timed(TurnLimits(max_session_s=max_s))
    timed.clock.move_to(came_at)
    timed.turn.set_others_waiting(True)
    assert timed.notices == [(came_at, "ending", ends_at - came_at)]
    timed.clock.move_to(10_000)
    assert timed.ends == [(ends_at, TurnEnd.TIME)]


def test_the_end_is_called_off_when_no_client_waits_any_more() -> None:
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


def test_an_idle_controller_gets_a_notice_and_then_its_turn_ends() -> None:
    timed = Timed(IDLE)
    timed.clock.move_to(1000)
    assert timed.notices == [(120, "idle", 30)]
    assert timed.ends == [(150, TurnEnd.IDLE)]


def test_activity_in_time_keeps_the_turn_and_calls_the_notice_off() -> None:
    timed = Timed(IDLE)
    timed.clock.move_to(100)
    timed.turn.record_activity()
    timed.clock.move_to(249)
    timed.turn.record_activity()
    assert timed.notices == [(220, "idle", 30), (249, "idle", None)]
    timed.clock.move_to(398)
    assert timed.last() == (369, "idle", 30)
    assert timed.ends == []


def test_a_short_idle_timeout_has_as_short_a_time_to_answer() -> None:
    timed = Timed(TurnLimits(idle_timeout_s=5))
    timed.clock.move_to(1000)
    assert timed.notices == [(5, "idle", 5)]
    assert timed.ends == [(10, TurnEnd.IDLE)]


def test_the_first_of_two_ends_counts_and_no_notice_follows() -> None:
    timed = Timed(TurnLimits(max_session_s=130, idle_timeout_s=120), others_wait=True)
    timed.clock.move_to(1000)
    assert timed.ends == [(130, TurnEnd.TIME)]
    timed.turn.set_others_waiting(False)
    timed.turn.record_activity()
    assert timed.clock.pending == 0


def test_an_idle_controller_has_its_full_time_to_answer_when_others_begin_to_wait() -> None:
    timed = Timed(TurnLimits(max_session_s=1000, idle_timeout_s=120))
    timed.clock.move_to(130)
    timed.turn.set_others_waiting(True)
    timed.clock.move_to(1000)
    assert timed.ends == [(150, TurnEnd.IDLE)]


def test_a_turn_has_one_timer_however_often_its_deadline_changes() -> None:
    timed = Timed(TurnLimits(max_session_s=300, idle_timeout_s=120))
    for waiting in (True, False, True):
        timed.turn.set_others_waiting(waiting)
        assert timed.clock.pending == 1


@pytest.mark.parametrize("limits", [MINUTES, IDLE, TurnLimits(resume_grace_s=5)])
def test_a_stopped_turn_has_no_timer_and_sends_no_notice(limits: TurnLimits) -> None:
    timed = Timed(limits, others_wait=True)
    timed.notices.clear()
    timed.turn.stop()
    timed.turn.stop()
    assert not timed.turn.wait_for_controller()
    timed.clock.move_to(1000)
    assert (timed.clock.pending, timed.notices, timed.ends) == (0, [], [])


def test_a_controller_that_is_away_is_not_idle() -> None:
    timed = Timed(TurnLimits(max_session_s=900, idle_timeout_s=120, resume_grace_s=300))
    timed.clock.move_to(130)
    assert timed.turn.wait_for_controller()
    timed.clock.move_to(200)
    timed.turn.set_others_waiting(True)
    timed.clock.move_to(1000)
    assert timed.ends == [(430, TurnEnd.LEFT)]


def test_a_controller_may_resume_within_the_grace_period() -> None:
    timed = Timed(TurnLimits(resume_grace_s=5))
    assert timed.turn.wait_for_controller()
    timed.clock.move_to(4.9)
    timed.turn.controller_returned()
    timed.clock.move_to(100)
    assert timed.turn.wait_for_controller()
    timed.clock.move_to(200)
    assert timed.notices == [(0, "away", 5), (100, "away", 5)]
    assert timed.ends == [(105, TurnEnd.LEFT)]


def test_a_disconnected_controller_gets_no_idle_notice_and_its_full_timeout_after() -> None:
    timed = Timed(TurnLimits(idle_timeout_s=10, resume_grace_s=60))
    timed.clock.move_to(12)
    timed.turn.wait_for_controller()
    timed.clock.move_to(50)
    timed.turn.controller_returned()
    timed.clock.move_to(59)
    assert [notice for _, notice, _ in timed.notices] == ["idle", "away"]
    timed.clock.move_to(60)
    assert timed.last() == (60, "idle", 10)


def test_the_limit_of_a_turn_includes_the_time_without_its_controller() -> None:
    timed = Timed(TurnLimits(max_session_s=40, resume_grace_s=60), others_wait=True)
    timed.clock.move_to(35)
    timed.turn.wait_for_controller()
    timed.clock.move_to(100)
    assert timed.ends == [(40, TurnEnd.TIME)]


def test_without_a_grace_period_a_turn_does_not_wait_for_its_controller() -> None:
    assert not Timed(IDLE).turn.wait_for_controller()
