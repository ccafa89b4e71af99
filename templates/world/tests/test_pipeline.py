"""Tests of the model without a server: PipelineExecutor makes its steps, each of 1/30 s."""

import sys
from itertools import pairwise
from math import cos, pi, sin
from pathlib import Path

import numpy as np
import pytest
from reactor_runtime import PipelineExecutor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from landscape import SEA, SIZE, Landscape
from pipeline import LIGHTS, MyModel
from view import Eye, View
from walker import STEEPEST


@pytest.fixture(scope="module")
def world():
    """Return a loaded model with small frames, shared by the tests because making the land takes long."""
    with PipelineExecutor(MyModel, config={"width": 96, "height": 54}) as world:
        yield world


@pytest.fixture
def ex(world):
    """Return the model with a new client."""
    world.connect()
    yield world
    world.disconnect()


@pytest.fixture(scope="module")
def land():
    """Return the land alone."""
    return Landscape(7)


def steps(ex, number):
    """Make steps, and return the last frame."""
    for _ in range(number):
        frame = next(ex).output.main_video
    return frame


def test_frames_differ(ex):
    first, second = steps(ex, 1), steps(ex, 1)
    assert (first.shape, first.dtype) == ((54, 96, 3), np.uint8)
    assert not np.array_equal(first, second)


def test_without_events_the_walker_stands_still(ex):
    ex.send_event("set_wander", wander=False)
    here = ex.state._walker.eye.x, ex.state._walker.eye.y
    steps(ex, 30)
    assert (ex.state._walker.eye.x, ex.state._walker.eye.y) == here


def test_the_walker_wanders_until_a_client_moves_it(ex):
    x = ex.state._walker.eye.x
    steps(ex, 30)
    assert ex.state._walker.eye.x != x
    ex.send_event("set_walk", walk=1.0)
    steps(ex, 1)
    ex.send_event("set_walk", walk=0.0)
    steps(ex, 90)
    assert not ex.state.wander
    assert ex.state._walker.speed == pytest.approx(0, abs=0.01)


def test_turning_ends_with_its_value(ex):
    ex.send_event("set_turn", turn=1.0)
    steps(ex, 30)
    ex.send_event("set_turn", turn=0.0)
    steps(ex, 90)
    turned = ex.state._walker.eye.heading - 2.9
    assert 0.5 < turned < pi
    steps(ex, 30)
    assert ex.state._walker.eye.heading - 2.9 == pytest.approx(turned, abs=1e-3)


def test_a_sidestep_moves_to_the_right_of_the_heading(ex):
    ex.send_event("set_sidestep", sidestep=1.0)
    x, y = ex.state._walker.eye.x, ex.state._walker.eye.y
    steps(ex, 15)
    way = ex.state._walker.eye.x - x, ex.state._walker.eye.y - y
    assert way[0] * cos(2.9) + way[1] * sin(2.9) == pytest.approx(0, abs=0.1)
    assert way[1] * cos(2.9) - way[0] * sin(2.9) > 5


def test_running_is_faster(ex):
    ex.send_event("set_walk", walk=1.0)
    steps(ex, 60)
    walking = ex.state._walker.speed
    ex.send_event("set_run", run=True)
    steps(ex, 60)
    assert ex.state._walker.speed > 2 * walking


def test_looking_turns_the_eye_within_limits(ex):
    ex.send_event("look", dx=0.25, dy=-0.1)
    steps(ex, 1)
    assert (ex.state._walker.eye.heading, ex.state._walker.eye.pitch) == (pytest.approx(3.15), pytest.approx(0.1))
    for dy in (-3.0, 6.0):
        ex.send_event("look", dx=0.0, dy=dy)
        frame = steps(ex, 1)
        assert ex.state._walker.eye.pitch == (STEEPEST if dy < 0 else -STEEPEST)
        assert frame.std() > 3


def test_a_jump_ends_on_the_ground(ex):
    steps(ex, 1)
    ex.send_event("jump")
    lifts = []
    for _ in range(60):
        steps(ex, 1)
        lifts.append(ex.state._walker.lift)
    assert max(lifts) > 5
    assert lifts[-1] == 0


def test_a_light_that_is_reached_is_reported_and_removed(ex):
    before = len(ex.messages)
    steps(ex, 240)
    (found,) = ex.messages[before:]
    assert (found.type, found.data) == ("found", {"found": 1, "left": LIGHTS - 1})
    assert len(ex.state._lights) == LIGHTS - 1


def test_after_the_last_light_all_return(ex):
    ex.state._lights = np.array([[ex.state._walker.eye.x, ex.state._walker.eye.y, 0.0]])
    steps(ex, 1)
    assert len(ex.state._lights) == LIGHTS


def test_night_is_darker_than_noon(ex):
    ex.send_event("set_clock", clock=False)
    ex.send_event("set_hour", hour=12.0)
    noon = steps(ex, 1)
    ex.send_event("set_hour", hour=0.0)
    assert steps(ex, 1).mean() < noon.mean() / 3


def test_the_hour_continues_after_midnight(ex):
    ex.send_event("set_hour", hour=23.5)
    hours = []
    for _ in range(120):
        steps(ex, 1)
        hours.append(ex.state.hour)
    assert hours[-1] == pytest.approx(0.3, abs=0.11)
    assert sum(one != other for one, other in pairwise(hours)) <= 9


def test_the_eye_is_never_below_the_ground(ex, land):
    ex.send_event("set_climb", climb=0.0)
    for _ in range(3):
        ex.send_event("elsewhere")
        steps(ex, 40)
        for _ in range(20):
            steps(ex, 1)
            eye = ex.state._walker.eye
            assert eye.z > land.height_at(np.array(eye.x), np.array(eye.y))


def test_every_client_starts_from_the_same_state(ex):
    first = steps(ex, 1)
    ex.send_event("elsewhere")
    steps(ex, 3)
    ex.disconnect()
    ex.connect()
    assert np.array_equal(steps(ex, 1), first)


def test_the_land_is_smooth_and_never_below_the_sea(land):
    x = np.linspace(10, 20, 101)
    heights = land.height_at(x, np.full_like(x, 30))
    assert heights.min() >= SEA
    assert np.abs(np.diff(heights)).max() < 1


def test_the_world_has_no_seam(land):
    view, nothing = View(land, 96, 54), np.empty((0, 3))
    here, there = (view.draw(Eye(x, y, 80.0, 1.0), 12.0, 0.0, nothing) for x, y in ((8, 5), (8 + SIZE, 5 - SIZE)))
    assert np.abs(here.astype(int) - there).mean() < 2


def test_another_seed_makes_another_land(land):
    assert not np.array_equal(Landscape(8).height, land.height)
