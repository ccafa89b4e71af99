from __future__ import annotations

import sys

import numpy as np
import pytest
from numpy.typing import NDArray

from reactor_runtime.authoring.tracks.tracks import TrackSpec
from reactor_runtime.engine.first_step import FirstStep, output_warnings
from reactor_runtime.errors import ReactorError
from tests.engine.rig import Plain, served_model

PICTURE = TrackSpec("main", "video", "out", None)
DEPTH = TrackSpec("depth", "video", "out", None)
SOUND = TrackSpec("tone", "audio", "out", 48_000)
BLACK = "main is black in the first step: every value is 0"


def full(level: int) -> NDArray[np.uint8]:
    return np.full((4, 6, 3), level, np.uint8)


SPECK = full(0)
SPECK[3, 5, 2] = 2
SILENCE = np.zeros((1, 10), np.int16)


@pytest.mark.parametrize(
    ("bundles", "step_s", "messages"),
    [
        pytest.param([{PICTURE: full(9)}], None, [], id="a picture"),
        pytest.param([{PICTURE: full(0)}], 0.1, [BLACK], id="black"),
        pytest.param([{PICTURE: full(1)}], 0.1, [BLACK + " or 1 of 255"], id="not scaled"),
        pytest.param([{PICTURE: SPECK}], 0.1, [], id="a speck in the dark"),
        pytest.param([{PICTURE: full(0)}, {PICTURE: full(9)}], 0.1, [], id="a batch that begins black"),
        pytest.param([{PICTURE: full(0)}, {PICTURE: full(0)}], 0.1, [BLACK], id="a black batch"),
        pytest.param([{PICTURE: full(9), DEPTH: full(0)}], 0.1, [BLACK.replace("main", "depth")], id="one of two"),
        pytest.param([{SOUND: SILENCE}], 0.1, [], id="silence"),
        pytest.param([{PICTURE: full(9)}], 1.0, [], id="a second"),
        pytest.param(
            [{PICTURE: full(9)}],
            1.26,
            ["the first step took 1.3 s, and an event waits for the end of a step"],
            id="slow",
        ),
        pytest.param([], 0.1, [], id="nothing"),
    ],
)
def test_output_that_is_probably_wrong_has_a_warning(
    bundles: list[dict[TrackSpec, NDArray[np.uint8]]], step_s: float | None, messages: list[str]
) -> None:
    found = output_warnings(bundles, step_s)
    assert [message for message, _ in found] == messages
    assert all(hint for _, hint in found)


def test_only_the_first_output_is_judged_and_at_the_line_that_made_it() -> None:
    found: list[ReactorError] = []
    step = FirstStep(served_model(Plain), found.append)
    for _ in range(2):
        step.check([{PICTURE: full(0)}], None, sys._getframe())
    (warning,) = found
    assert warning.where is not None
    assert warning.where.text.strip() == "step.check([{PICTURE: full(0)}], None, sys._getframe())"


def test_without_a_frame_the_method_that_makes_the_frames_is_named() -> None:
    found: list[ReactorError] = []
    FirstStep(served_model(Plain), found.append).check([{PICTURE: full(0)}], None)
    assert found[0].where is not None
    assert "class Plain" in found[0].where.text or "def inference" in found[0].where.text


def test_a_clock_that_stands_still_while_the_model_waits_measures_the_step() -> None:
    found: list[ReactorError] = []
    times = iter([5.0, 7.0])
    step = FirstStep(served_model(Plain), found.append, lambda: next(times))
    step.start_timer()
    step.check([{PICTURE: full(9)}], 0.0)
    step.start_timer()
    assert [warning.message.partition(",")[0] for warning in found] == ["the first step took 2.0 s"]


class Watched:
    """A model's output, one frame a second, after a first step that was checked."""

    def __init__(self) -> None:
        self.found: list[ReactorError] = []
        self.now = 0.0
        self.first_step = FirstStep(served_model(Plain), self.found.append, now=lambda: self.now)
        self.emit(full(9))

    def emit(self, *levels: NDArray[np.uint8], sound: bool = False) -> None:
        for frame in levels:
            self.now += 1.0
            self.first_step.check([{PICTURE: frame, **({SOUND: SILENCE} if sound else {})}], 0.1, sys._getframe())


def test_a_track_that_becomes_black_for_three_seconds_is_reported_once_at_the_line_that_makes_it() -> None:
    watched = Watched()
    watched.emit(full(9), full(0), full(0), full(9), full(1), full(0), sound=True)
    assert not watched.found
    watched.emit(full(0), full(0), full(9), *[full(0)] * 5)
    (warning,) = watched.found
    assert warning.message == "main has been black for 3 s, and was not before"
    assert warning.where is not None
    assert "first_step.check" in warning.where.text


def test_a_track_that_was_always_black_is_left_to_the_first_step() -> None:
    watched = Watched()
    watched.emit(*[full(0)] * 9)
    assert not watched.found


def test_frames_between_the_looks_are_not_read() -> None:
    watched = Watched()
    watched.emit(full(9))
    for _ in range(100):
        watched.now += 0.01
        watched.first_step.check([{PICTURE: full(0)}], 0.01)
    assert not watched.found
