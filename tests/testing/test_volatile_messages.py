"""Replays of messages with volatile fields.

In a module of its own: all messages of a module are part of the contract of each model in it.
"""

from __future__ import annotations

import time
from pathlib import Path

from reactor_runtime.interface import MessageField, event
from reactor_runtime.testing import replay
from tests.testing.recorded import recorded
from tests.testing.test_session_replay import Mixer, Nudged, recording_in


class Timed(Nudged):
    at: float = MessageField(volatile=True)


class TimedNudged(Timed):
    pass


class Clocked(Mixer):
    @event(name="nudge")
    def nudge(self, by: int) -> TimedNudged:
        return TimedNudged(total=by, at=time.perf_counter())


def test_volatile_fields_of_messages_are_not_compared_and_the_others_are(tmp_path: Path) -> None:
    class Other(Clocked):
        @event(name="nudge")
        def nudge(self, by: int) -> TimedNudged:
            return TimedNudged(total=-by, at=time.perf_counter())

    with recorded(Clocked, tmp_path) as studio:
        studio.run(0.1)
        studio.send_event("nudge", by=3)
        studio.run(0.1)
    assert replay(recording_in(tmp_path), Clocked).differences == []
    (difference,) = replay(recording_in(tmp_path), Other).differences
    assert "message timed_nudged {'total': -3, 'at': " in str(difference)
