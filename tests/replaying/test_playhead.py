from __future__ import annotations

import pytest

from reactor_runtime.replaying.playhead import Playhead


@pytest.fixture
def playhead() -> Playhead:
    return Playhead([0.0, 0.1, 0.2, 5.0])


def play(playhead: Playhead, now: float, until: float, *, made: int = 4) -> list[tuple[int, float]]:
    """Return the frames that are shown until then, with their times."""
    shown = []
    while (due := playhead.due(now, playing=True, made=made)) is not None and due <= until:
        now = max(now, due)
        shown.append((playhead.advance(now), now))
    return shown


def test_frames_are_due_at_the_recorded_pace(playhead: Playhead) -> None:
    assert play(playhead, 100.0, 200.0) == [
        (0, 100.0), (1, pytest.approx(100.1)), (2, pytest.approx(100.2)), (3, pytest.approx(105.0)),
    ]  # fmt: skip
    assert playhead.at_end


def test_a_paused_playhead_shows_only_what_is_sought(playhead: Playhead) -> None:
    play(playhead, 100.0, 100.15)
    assert playhead.due(101.0, playing=False, made=4) is None
    playhead.seek(playhead.frame - 1)
    assert playhead.due(102.0, playing=False, made=4) == 102.0
    assert playhead.advance(102.0) == 0
    assert playhead.due(103.0, playing=False, made=4) is None


def test_playing_continues_from_a_pause_and_from_a_frame_that_was_sought(playhead: Playhead) -> None:
    play(playhead, 100.0, 100.15)
    assert playhead.due(150.0, playing=False, made=4) is None
    assert play(playhead, 160.0, 161.0) == [(2, 160.0)]
    playhead.seek(1)
    assert play(playhead, 161.0, 162.0) == [(1, 161.0), (2, pytest.approx(161.1))]


def test_a_frame_that_is_not_made_yet_is_awaited(playhead: Playhead) -> None:
    playhead.seek(3)
    assert playhead.due(100.0, playing=True, made=3) is None
    assert playhead.frame == 3
    assert playhead.due(107.0, playing=True, made=4) == 107.0


def test_a_late_playhead_does_not_hurry(playhead: Playhead) -> None:
    play(playhead, 100.0, 100.0)
    assert playhead.advance(103.0) == 1
    assert playhead.due(103.0, playing=True, made=4) == pytest.approx(103.1)


@pytest.mark.parametrize(("frame", "shown"), [(-5, 0), (99, 3)])
def test_a_number_outside_the_recording_seeks_the_nearest_frame(playhead: Playhead, frame: int, shown: int) -> None:
    playhead.seek(frame)
    assert playhead.frame == shown


def test_a_replay_that_ends_early_has_its_end_there(playhead: Playhead) -> None:
    playhead.seek(3)
    playhead.end_at(2)
    assert playhead.frame == 1
    assert play(playhead, 100.0, 200.0, made=2) == [(1, 100.0)]
    assert playhead.at_end
    playhead.seek(99)
    assert playhead.frame == 1
