from __future__ import annotations

from pathlib import Path

import pytest

from reactor_runtime.recording.entries import (
    EventEntry,
    Header,
    KeptEntry,
    OutputEntry,
    ReloadEntry,
)
from reactor_runtime.recording.file import SessionRecording, StoredReload
from reactor_runtime.replaying.recorded_frames import MOST_MARKS, RecordedFrames, marks_of

HEADER = Header(model="pipeline:MyModel", config="{}", contract={}, seed=0, client="c-1", joined_at=0.0, started_at=0.0)


def recorded(outputs: list[tuple[int, float, int]], events: list[EventEntry] | None = None) -> SessionRecording:
    """Return a recording of outputs, each with its step, its time and its number of frames."""
    return SessionRecording(
        Path("session.mcap"),
        HEADER,
        events=events or [],
        outputs=[OutputEntry(step, {"main_video": ["1x1x3:0"] * count}) for step, _, count in outputs],
        output_times_s=[at for _, at, _ in outputs],
    )


def times(outputs: list[tuple[int, float, int]], fps: float | None = None) -> list[float]:
    return list(RecordedFrames.of(recorded(outputs), fps).times_s)


def test_frames_have_the_times_of_their_outputs() -> None:
    assert times([(1, 100.0, 1), (2, 100.5, 1), (9, 104.0, 1)]) == pytest.approx([0.0, 0.5, 4.0])


def test_the_frames_of_a_block_are_spread_until_the_next_block() -> None:
    assert times([(1, 0.0, 4), (2, 1.0, 4)]) == pytest.approx([0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75])


def test_a_block_before_a_pause_is_not_shown_slowly() -> None:
    assert times([(1, 0.0, 2), (2, 1.0, 2), (3, 2.0, 2), (4, 60.0, 2)])[4:] == pytest.approx([2.0, 3.0, 60.0, 60.5])


def test_with_a_declared_rate_frames_are_not_shown_faster() -> None:
    assert times([(1, 0.0, 1), (2, 0.01, 1), (3, 0.5, 2)], fps=10) == pytest.approx([0.0, 0.1, 0.5, 0.6])


def test_an_event_marks_the_first_frame_after_it() -> None:
    events = [
        EventEntry(0, "start", "{}"),
        EventEntry(1, "set_level", '{"level": 3}', skipped=True),
        EventEntry(3, "set_level", '{"level": 5}'),
        EventEntry(9, "late", "{}"),
    ]
    recording = recorded([(1, 0.0, 1), (5, 1.0, 1), (6, 2.0, 1)], events)
    marks = marks_of(recording, RecordedFrames.of(recording, None))
    assert marks == [(0, "start"), (1, 'set_level {"level": 5}'), (2, "late")]


def test_a_reload_marks_the_first_frame_after_it_among_the_events() -> None:
    recording = recorded([(1, 0.0, 1), (2, 1.0, 1), (3, 2.0, 1)], [EventEntry(1, "set_level", "{}")] * 2)
    entry = ReloadEntry(1, "applied", waiting=False, config="")
    recording.reloads += [StoredReload(entry, 1, 1, changed=("a.py", "b.py")), StoredReload(entry, 2, 1)]
    marks = marks_of(recording, RecordedFrames.of(recording, None))
    assert marks == [(1, "set_level\nthe code changed: a.py, b.py\nset_level\nreload")]


def test_the_begin_of_the_last_minute_that_was_kept_is_marked() -> None:
    recording = recorded([(1, 0.0, 1), (2, 1.0, 1), (3, 2.0, 1)], [EventEntry(1, "set_level", "{}")])
    recording.kept += [KeptEntry(3, 2), KeptEntry(0, 0)]
    marks = marks_of(recording, RecordedFrames.of(recording, None))
    assert marks == [
        (0, "the last minute before step 0 was kept"),
        (1, "set_level\nthe last minute before step 3 was kept"),
    ]


def test_many_events_share_marks() -> None:
    events = [EventEntry(step, f"e{step}", "{}") for step in range(10 * MOST_MARKS)]
    recording = recorded([(step + 1, step / 30, 1) for step in range(10 * MOST_MARKS)], events)
    marks = marks_of(recording, RecordedFrames.of(recording, 30))
    assert len(marks) == MOST_MARKS
    assert marks[1] == (10, "e10\ne11\ne12\ne13\ne14\ne15\nand 4 more")
