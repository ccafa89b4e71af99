from __future__ import annotations

import pytest

from reactor_runtime.client.delay import InputDelay, ServerClock


def test_the_fastest_ping_gives_the_clock_offset() -> None:
    clock = ServerClock()
    assert clock.age_s(5_000_000, 6.0) == 1.0
    clock.add_pong(sent_at=10.0, now=10.1, wall_s=1000.0, server_us=1_002_950_000)
    clock.add_pong(sent_at=20.0, now=22.0, wall_s=1010.0, server_us=1_019_000_000)
    assert clock.rtt_ms == 2000.0
    assert clock.offset_s == pytest.approx(3.0)
    assert clock.age_s(1_002_500_000, 1000.0) == pytest.approx(0.5)


def test_old_pings_are_dropped() -> None:
    clock = ServerClock()
    clock.add_pong(0.0, 0.0, 0.0, 9_000_000)
    for _ in range(8):
        clock.add_pong(0.0, 0.2, 0.0, 900_000)
    assert clock.offset_s == pytest.approx(1.0)


def test_an_event_is_timed_to_the_first_frame_made_with_it() -> None:
    delay = InputDelay()
    delay.on_reply(1, sent_at=10.0)
    delay.on_frame(0, 10.02)
    assert delay.last_ms is None
    delay.on_frame(1, 10.05)
    delay.on_frame(1, 10.08)
    assert delay.last_ms == pytest.approx(50)


def test_a_frame_may_arrive_before_the_reply() -> None:
    delay = InputDelay()
    delay.on_frame(2, 10.05)
    delay.on_reply(2, sent_at=10.0)
    assert delay.last_ms == pytest.approx(50)


def test_reset_forgets_the_events_of_the_last_session() -> None:
    delay = InputDelay()
    delay.on_frame(7, 10.0)
    delay.reset()
    delay.on_reply(1, sent_at=11.0)
    assert delay.last_ms is None
