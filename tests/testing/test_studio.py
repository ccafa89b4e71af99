"""Any style of model on its own."""

from __future__ import annotations

import asyncio
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pytest

from reactor_runtime import InputState, ModelMessage, ReactorPipeline, event
from reactor_runtime.authoring.events.state import StateSpec
from reactor_runtime.testing import Message, Studio
from tests.testing.models import Blinker, Counter, frame


def test_a_loop_runs_by_the_fake_clock() -> None:
    with Studio(Blinker) as studio:
        studio.connect()
        studio.run(2)
        assert [shown.due_s for shown in studio.frames] == pytest.approx([number / 4 for number in range(9)])


def test_an_event_of_a_loop_is_answered_and_shows() -> None:
    with Studio(Blinker) as studio:
        studio.connect()
        assert studio.messages == [Message("step", {"number": 0})]
        assert studio.send_event("set_red", red=9) == Message("step", {"number": 9})
        studio.run(1)
        last = studio.frames[-1]
        assert (last.track, int(last.array.flat[0]), last.applied) == ("video", 9, 1)


def test_a_loop_runs_over_sessions_and_ends_with_the_studio() -> None:
    with Studio(Blinker) as studio:
        for _ in range(2):
            studio.connect()
            studio.run(0.5)
            studio.disconnect()
    assert studio.model.log == ["connected", "disconnected"] * 2 + ["over"]


def test_an_exception_of_run_is_raised_and_the_next_session_starts_it_again() -> None:
    class Failing(Blinker):
        async def run(self) -> None:
            await self.connected.wait()
            await asyncio.sleep(0.5)
            raise ZeroDivisionError("run")

    with Studio(Failing) as studio:
        for _ in range(2):
            studio.connect()
            with pytest.raises(ZeroDivisionError, match="run"):
                studio.run(2)
            assert studio.clock.now() % 1 == pytest.approx(0.5) or studio.clock.now() % 1 == pytest.approx(0)


def test_a_loop_that_never_waits_lets_time_pass() -> None:
    class Spinning(Blinker):
        async def run(self) -> None:
            while True:
                await self.emit(frame(self.red))

    with Studio(Spinning) as studio:
        studio.connect()
        studio.run(1)
        assert 10 <= len(studio.frames) <= 16
        studio.disconnect()
        studio.run(0.1)


def test_a_full_queue_drops_as_in_the_server() -> None:
    class Dropping(Blinker):
        async def run(self) -> None:
            await self.connected.wait()
            for number in range(8):
                await self.emit(frame(number), drop=True)
            await asyncio.Event().wait()

    with Studio(Dropping) as studio:
        studio.connect()
        studio.run(2)
        assert [int(shown.array.flat[0]) for shown in studio.frames] == [0, 1, 2, 3]


def test_time_spent_in_a_step_moves_the_rate() -> None:
    class Slow(Counter):
        def load(self, config: dict[str, Any]) -> None:
            super().load(config)
            self.output_buffer.set_fps(20)

    with Studio(Slow) as studio:
        studio.connect()
        studio.run(1)
        assert [shown.due_s for shown in studio.frames[:3]] == pytest.approx([0, 0.05, 0.1])


class Calendar(InputState):
    start: datetime = datetime(2026, 11, 24, 18, 30, tzinfo=UTC)
    day: date = date(2026, 11, 24)
    alarm: time | None = None


class Rang(ModelMessage):
    at: datetime


class Clock(ReactorPipeline):
    state: Calendar

    @event(name="ring")
    def ring(self, after_s: float) -> Rang:
        return Rang(self.state.start + timedelta(seconds=after_s))

    def inference(self) -> Any:
        while True:
            yield frame(0)


def test_dates_and_times_are_those_of_the_model_and_text_for_clients() -> None:
    with Studio(Clock) as studio:
        studio.connect()
        studio.send_event("set_alarm", alarm="07:05:00")
        studio.send_event("set_day", day=date(2027, 1, 31))
        studio.send_event("set_start", start="2027-01-31T07:00:00+01:00")
        assert studio.send_event("ring", after_s=90) == Message("rang", {"at": "2027-01-31T07:01:30+01:00"})
        state = studio.model.state
        assert (state.start, state.day, state.alarm) == (
            datetime(2027, 1, 31, 6, tzinfo=UTC),
            date(2027, 1, 31),
            time(7, 5),
        )
        assert StateSpec.of(Calendar).to_json(state) == {
            "start": "2027-01-31T07:00:00+01:00",
            "day": "2027-01-31",
            "alarm": "07:05:00",
        }
