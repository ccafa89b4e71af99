"""Tests of the model without a server: Studio runs it with a clock of its own, so that no real time passes."""

import sys
from pathlib import Path

import numpy as np
import pytest
from reactor_runtime.testing import Studio

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from model import MyModel, render_batch

SMALL = {"width": 96, "height": 64, "chunk_size": 3}


@pytest.fixture
def studio():
    """Return a small model with a client."""
    with Studio(MyModel, config=SMALL) as studio:
        studio.connect()
        yield studio


def shown(studio, seconds):
    """Return the frames of the next seconds."""
    studio.clear()
    studio.run(seconds)
    return [frame.array for frame in studio.frames]


def test_frames_are_shown_thirty_times_a_second(studio):
    studio.run(1.0)
    due = [frame.due_s for frame in studio.frames]
    assert due[1] - due[0] == pytest.approx(1 / 30)
    assert studio.frames[0].array.shape == (64, 96, 3)


def test_frames_differ(studio):
    first, *_, last = shown(studio, 0.5)
    assert not np.array_equal(first, last)


def test_an_event_changes_the_frames(studio):
    assert shown(studio, 0.5)[-1].mean() > 20
    studio.send_event("set_brightness", brightness=0.0)
    assert shown(studio, 0.5)[-1].max() == 0


def test_a_splash_gets_a_reply_and_is_drawn(studio):
    assert studio.send_event("splash", x=0.25).data == {"number": 1}
    calm, rippled = (render_batch(96, 64, 1, 60, 1.0, pebbles)[0] for pebbles in ((), ((0.25, 0.5, 30),)))
    assert not np.array_equal(calm, rippled)


def test_a_wrong_value_is_refused(studio):
    with pytest.raises(ValueError, match=r"3\.0 is above 2\.0"):
        studio.send_event("set_brightness", brightness=3.0)


def test_time_stops_and_continues(studio):
    studio.send_event("freeze")
    studio.run(0.5)
    assert shown(studio, 1.0) == []
    studio.send_event("flow")
    assert len(shown(studio, 1.0)) > 25


def test_pebbles_stay_for_the_next_client_and_brightness_is_reset(studio):
    studio.send_event("splash")
    studio.send_event("set_brightness", brightness=0.0)
    studio.send_event("freeze")
    studio.disconnect()
    studio.connect()
    assert shown(studio, 0.5)[-1].mean() > 20
    assert studio.send_event("splash").data == {"number": 2}
