"""The comparison of a replay with a recording, without a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reactor_runtime.recording.entries import (
    EndEntry,
    Header,
    MessageEntry,
    OutputEntry,
    ReloadEntry,
    hash_pieces,
)
from reactor_runtime.recording.file import SessionRecording, StoredReload
from reactor_runtime.recording.pieces import Metadata, Pieces
from reactor_runtime.testing.comparison import MOST_DIFFERENCES, Comparison, Replay

HEADER = Header("pipeline:MyModel", "{}", {}, 7, "c-1", 1.5, 2.5)


def pieces(*levels: int, track: str = "video") -> Pieces:
    return {track: [np.full((2, 4, 3), level, np.uint8) for level in levels]}


def output(step: int, *levels: int, metadata: Metadata | None = None, **tracks: int) -> OutputEntry:
    made = pieces(*levels)
    for track, level in tracks.items():
        made |= pieces(level, track=track)
    return OutputEntry(step, hash_pieces(made), metadata or {})


def recorded(*outputs: OutputEntry, steps: int = 9, **lists: Any) -> SessionRecording:
    return SessionRecording(Path("a.mcap"), HEADER, outputs=list(outputs), end=EndEntry(steps), **lists)


def compared(recording: SessionRecording, *made: tuple[int, Pieces], metadata: Metadata | None = None) -> Replay:
    comparison = Comparison(recording, lambda *_: None)
    for step, arrays in made:
        comparison.compare_output(step, arrays, metadata or {})
    comparison.finish()
    return comparison.result


def texts(result: Replay) -> list[str]:
    return [str(difference) for difference in result.differences]


def test_equal_frames_are_counted_as_compared() -> None:
    result = compared(recorded(output(1, 5, 6), output(2, 7)), (1, pieces(5, 6)), (2, pieces(7)))
    assert (result.frames, result.total, texts(result)) == (3, 0, [])


def test_frames_that_differ_are_numbered_over_all_outputs() -> None:
    result = compared(recorded(output(1, 5, 6), output(2, 7)), (1, pieces(5, 9)), (2, pieces(9)))
    assert (result.frames, result.different, result.others, result.total) == (3, 2, 0, 2)
    assert texts(result) == ["step 1: frame 1 of video differs", "step 2: frame 2 of video differs"]


def test_frames_of_former_code_that_differ_are_outdated() -> None:
    changes: list[tuple[int, tuple[str, ...]]] = [(2, ("a.py",)), (4, ("a.py",)), (8, ())]
    reloads = [
        StoredReload(ReloadEntry(step, "applied", waiting=False, config="{}"), 0, 0, 0, changed)
        for step, changed in changes
    ]
    outputs = [output(step, 5) for step in (1, 3, 4, 5)]
    result = compared(recorded(*outputs, reloads=reloads), *[(step, pieces(9)) for step in (1, 3, 4, 5)])
    assert (result.different, result.outdated) == (4, 3)


def test_a_thousand_differences_are_kept_and_all_are_counted() -> None:
    levels = [5] * (MOST_DIFFERENCES + 1)
    result = compared(recorded(output(1, *levels)), (1, pieces(*[9] * (MOST_DIFFERENCES + 1))))
    assert (len(result.differences), result.different) == (MOST_DIFFERENCES, MOST_DIFFERENCES + 1)


@pytest.mark.parametrize(
    ("was", "is_now", "text"),
    [
        ({"video": [{"n": 1}, None]}, {"video": [{"n": 1}, {"n": 2}]}, 'frame 4 of video is {"n": 2}, not none'),
        ({"video": [None, {"n": 1}]}, {}, 'frame 4 of video is none, not {"n": 1}'),
        ({}, {"video": [None, {"n": 1}]}, 'frame 4 of video is {"n": 1}, not none'),
    ],
    ids=["another", "gone", "new"],
)
def test_metadata_that_differs_is_shown_with_its_frame(was: Metadata, is_now: Metadata, text: str) -> None:
    recording = recorded(output(1, 1, 2, 3), output(2, 5, 6, metadata=was))
    comparison = Comparison(recording, lambda *_: None)
    comparison.compare_output(1, pieces(1, 2, 3), {})
    comparison.compare_output(2, pieces(5, 6), is_now)
    assert texts(comparison.result) == [f"step 2: the metadata of {text}"]
    assert [(each.track, each.frame) for each in comparison.result.differences] == [("video", 4)]


@pytest.mark.parametrize(("made", "count"), [((5,), 1), ((5, 6, 7), 3)], ids=["fewer", "more"])
def test_another_number_of_frames_is_a_difference(made: tuple[int, ...], count: int) -> None:
    recording = recorded(output(1, 1, 2), output(2, 5, 6))
    result = compared(recording, (1, pieces(1, 2)), (2, pieces(*made)))
    assert texts(result) == [f"step 2: video has {count} frames, not 2"]
    assert [each.frame for each in result.differences] == [2]


def test_a_track_that_is_new_or_gone_is_a_difference() -> None:
    result = compared(recorded(output(1, 5, left=1)), (1, pieces(5) | pieces(1, track="right")))
    assert (result.different, result.others, result.total) == (0, 2, 2)
    assert texts(result) == ["step 1: left has 0 frames, not 1", "step 1: right has 1 frames, not 0"]


@pytest.mark.parametrize("step", [1, 3])
def test_an_output_in_another_step_is_a_difference(step: int) -> None:
    assert texts(compared(recorded(output(2, 5)), (step, pieces(5)))) == [
        f"step {step}: the output of step 2 came in step {step}"
    ]


@pytest.mark.parametrize("missing", [1, 2])
def test_missing_outputs_are_a_difference_and_further_ones_are_not(missing: int) -> None:
    outputs = [output(step, 5) for step in (1, 2, 3)]
    made = [(step, pieces(5)) for step in (1, 2, 3)]
    assert texts(compared(recorded(*outputs), *made[:-missing])) == [
        f"step {4 - missing}: {missing} of 3 outputs are missing"
    ]
    assert compared(recorded(*outputs), *made, (4, pieces(6))).total == 0


def test_messages_are_compared_in_order_up_to_the_last_step() -> None:
    messages = [MessageEntry(step, "nudged", {"total": step}) for step in (1, 2, 3)]
    comparison = Comparison(recorded(messages=messages, steps=3), lambda *_: None)
    comparison.compare_message(1, "nudged", {"total": 1})
    comparison.compare_message(2, "nudged", {"total": 9})
    comparison.finish()
    # That of the last step may have been sent while the session ended.
    assert texts(comparison.result) == ["step 2: message nudged {'total': 9} was nudged {'total': 2}"]


def test_messages_that_are_new_or_were_not_sent_are_differences_before_the_last_step() -> None:
    messages = [MessageEntry(step, "nudged", {}) for step in (1, 2, 3)]
    comparison = Comparison(recorded(messages=messages, steps=3), lambda *_: None)
    comparison.finish()
    assert texts(comparison.result) == [f"step {step}: message nudged {{}} was not sent" for step in (1, 2)]
    comparison = Comparison(recorded(steps=3), lambda *_: None)
    for step in (1, 2, 3):
        comparison.compare_message(step, "nudged", {})
    assert texts(comparison.result) == [f"step {step}: message nudged {{}} is new" for step in (1, 2)]
