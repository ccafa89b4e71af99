from __future__ import annotations

import contextlib
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactor_runtime.errors import UsageError
from reactor_runtime.recording.entries import (
    EndEntry,
    Entry,
    ErrorEntry,
    EventEntry,
    FrameEntry,
    Header,
    KeptEntry,
    MessageEntry,
    OutputEntry,
    ReadEntry,
    ReloadEntry,
    SentValues,
    UploadEntry,
)
from reactor_runtime.recording.file import RecordingWriter, SessionRecording, read_recording
from reactor_runtime.recording.pieces import OWN_QUALITY
from reactor_runtime.testing import replay
from tests.testing.test_session_replay import Mixer

HEADER = Header(
    model="pipeline:MyModel",
    config="width: 64\n",
    contract={
        "tracks": [
            {"name": "main_video", "kind": "video", "direction": "out"},
            {"name": "camera", "kind": "video", "direction": "in"},
        ],
        "schema": {"events": {}, "messages": {}},
    },
    seed=7,
    client="c-1",
    joined_at=1.5,
    started_at=2.5,
    versions={"python": "3.11"},
    files={"pipeline.py": "ab"},
)
PIXELS = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
ENTRIES: list[Entry] = [
    UploadEntry("u-1", "b.png", "image/png", b"\x89PNG"),
    EventEntry(0, "set_image", '{"image": {"upload": "u-1"}}'),
    EventEntry(1, "turn", "{}", skipped=True),
    ReadEntry(1, "camera", 3, (b"one", b"two"), (SentValues(7, "bGVmdA==", 2**63), SentValues())),
    ReadEntry(1, "microphone", 1, ()),
    ReadEntry(2, "camera", 4, (b"three",)),
    ReloadEntry(2, "applied", waiting=True, config="width: 64\n", files={"pipeline.py": "cd"}),
    ReloadEntry(2, "failed", waiting=False, config="width: 64\n", files={"pipeline.py": "cd"}),
    ErrorEntry(3, "the model failed"),
    OutputEntry(3, {"main_video": ["2x4x3:ff"]}),
    FrameEntry("main_video", 0, PIXELS),
    FrameEntry("main_video", 1, b"\xff\xd8", 85),
    FrameEntry("main_video", 2, b"", 85),
    FrameEntry("main_video", 3, b"\xff\xd8", OWN_QUALITY),
    MessageEntry(3, "nudged", {"total": 5}),
    EndEntry(3, "rank 0 was killed", between_steps=True),
]


def written(entries: list[Entry], *, finished: bool = True) -> bytes:
    file = io.BytesIO()
    writer = RecordingWriter(file, HEADER)
    for number, entry in enumerate(entries):
        writer.write(entry, number)
    if finished:
        writer.finish()
    return file.getvalue()


def entries_of(recording: SessionRecording) -> list[Entry]:
    """Return all entries, by kind."""
    reads = [
        ReadEntry(read.step, read.track, read.call, tuple(map(recording.load, read.files)), read.sent)
        for read in recording.reads
    ]
    frames = list(recording.frames())
    end = [] if recording.end is None else [recording.end]
    return [
        *recording.uploads,
        *recording.events,
        *reads,
        *(reload.entry for reload in recording.reloads),
        *recording.errors,
        *recording.outputs,
        *frames,
        *recording.messages,
        *end,
    ]


def test_all_entries_are_read_as_written(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    path.write_bytes(written(ENTRIES))
    recording = read_recording(path)
    assert recording.header == HEADER
    assert str(entries_of(recording)) == str(ENTRIES)
    assert recording.steps == 3


@given(finished=st.booleans(), share=st.floats(0, 1))
def test_a_file_that_was_cut_anywhere_has_the_entries_before(
    tmp_path_factory: pytest.TempPathFactory, finished: bool, share: float
) -> None:
    whole = written(ENTRIES, finished=finished)
    size = int(len(whole) * share)
    path = tmp_path_factory.getbasetemp() / "cut.mcap"
    path.write_bytes(whole[:size])
    try:
        found = entries_of(read_recording(path))
    except UsageError:
        # The header is the first entry.
        assert size < len(written([]))
        return
    assert [str(each) for each in ENTRIES[: len(found)]] == [str(each) for each in found]
    assert len(found) == len(ENTRIES) or size < len(written(ENTRIES, finished=False))


@given(place=st.floats(0, 1, exclude_max=True), flipped=st.integers(1, 255))
def test_a_damaged_file_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, place: float, flipped: int
) -> None:
    content = bytearray(written(ENTRIES))
    content[int(len(content) * place)] ^= flipped
    path = tmp_path_factory.getbasetemp() / "damaged.mcap"
    path.write_bytes(content)
    with contextlib.suppress(UsageError):
        recording = read_recording(path)
        list(recording.frames())


def test_an_ended_file_with_a_record_that_can_not_be_read_is_refused(tmp_path: Path) -> None:
    content = bytearray(written(ENTRIES))
    # The message begins after its length, which has 8 bytes.
    begin = content.index(b'{"step":1,"name":"turn"') - 30
    content[begin : begin + 8] = b"\xff" * 8
    path = tmp_path / "a.mcap"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"a\.mcap is damaged: what follows step 0 can't be read"):
        read_recording(path)


@pytest.mark.parametrize(
    ("entries", "complete"),
    [(ENTRIES, True), (ENTRIES[:-1], False), ([*ENTRIES[:-1], KeptEntry(3, 0)], True)],
    ids=["with its end", "cut off", "kept"],
)
def test_a_recording_is_complete_up_to_its_end_or_where_it_was_kept(
    entries: list[Entry], complete: bool, tmp_path: Path
) -> None:
    path = tmp_path / "a.mcap"
    path.write_bytes(written(entries, finished=False))
    assert read_recording(path).complete is complete


def test_a_recording_that_goes_on_after_it_was_kept_is_not_complete(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    path.write_bytes(written([KeptEntry(3, 0), EventEntry(4, "turn", "{}")], finished=False))
    assert not read_recording(path).complete


@pytest.mark.parametrize(
    "entry",
    [
        EventEntry(5, "turn", "{}"),
        ReadEntry(5, "camera", 1, ()),
        ReloadEntry(5, "applied", waiting=False, config=""),
        ErrorEntry(5, "the model failed"),
        OutputEntry(5, {"main_video": ["2x4x3:ff"]}),
        EndEntry(5),
    ],
    ids=lambda entry: type(entry).__name__,
)
def test_a_replay_makes_the_steps_up_to_the_last_entry_of_any_kind(entry: Entry, tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    path.write_bytes(written([EventEntry(1, "turn", "{}"), entry, MessageEntry(6, "nudged", {})], finished=False))
    assert read_recording(path).steps == 5


def test_the_files_and_configs_of_a_recording_follow_its_reloads(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    reloads: list[Entry] = [
        ReloadEntry(1, "loaded", waiting=False, config="a: 1", files={"pipeline.py": "cd"}),
        ReloadEntry(2, "applied", waiting=False, config="a: 2", files={"pipeline.py": "cd", "new.py": "01"}),
        ReloadEntry(3, "loaded", waiting=False, config="a: 3", files={"new.py": "01"}),
    ]
    path.write_bytes(written(reloads, finished=False))
    recording = read_recording(path)
    assert recording.files == {"new.py": "01"}
    assert recording.configs == [HEADER.config, "a: 1", "a: 3"]
    assert [each.changed for each in recording.code_changes] == [("pipeline.py",), ("new.py",), ("pipeline.py",)]


def test_a_read_with_the_values_of_fewer_files_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    path.write_bytes(written([ReadEntry(1, "camera", 1, (b"one", b"two"), (SentValues(7),))]))
    with pytest.raises(UsageError, match="2 files with the values of 1"):
        read_recording(path)


def test_an_output_with_a_frame_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    path.write_bytes(written([OutputEntry(3, {"main_video": ["2x4x3:ff", "1x480:ff"]})]))
    with pytest.raises(UsageError, match="'main_video' is no output of the model, or one of another kind"):
        read_recording(path)


def test_damaged_pixels_are_refused_with_the_path(tmp_path: Path) -> None:
    content = bytearray(written(ENTRIES))
    # The number that begins data of Zstandard.
    content[content.index(b"\x28\xb5\x2f\xfd")] = 0
    path = tmp_path / "a.mcap"
    path.write_bytes(content)
    recording = read_recording(path)
    with pytest.raises(UsageError, match=r"a\.mcap is damaged at byte \d+, in /frames: "):
        list(recording.frames())


def test_the_entries_can_be_read_while_the_file_is_written(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    with path.open("wb") as file:
        writer = RecordingWriter(file, HEADER)
        writer.write(ENTRIES[1], 0)
        file.flush()
        assert read_recording(path).events == [ENTRIES[1]]


@pytest.mark.parametrize("content", [b"", b"RIFF", written([])[:60], b"\x89MCAP0\r\n" + bytes(99)])
def test_another_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.mcap"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="is not a recording of a session"):
        read_recording(path)


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"gone.mcap can't be read: No such file"):
        read_recording(tmp_path / "gone.mcap")


def test_the_place_of_a_reload_is_among_events_reads_and_outputs(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    path.write_bytes(written([*ENTRIES[:-1], *ENTRIES[:-1]], finished=False))
    recording = read_recording(path)
    assert [(each.events, each.outputs) for each in recording.reloads] == [(2, 0), (2, 0), (4, 1), (4, 1)]
    assert [each.changed for each in recording.reloads] == [("pipeline.py",), (), (), ()]
    assert [each.reloads for each in recording.reads] == [0, 0, 0, 2, 2, 2]
    kinds = "".join("e" if isinstance(each, EventEntry) else "r" for each in recording.inputs)
    assert kinds == "eerreerr"


def test_a_model_that_was_loaded_for_code_that_failed_is_not_loaded_in_a_replay(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    entries: list[Entry] = [ReloadEntry(2, "loaded", False, ""), ReloadEntry(2, "reverted", False, "")]
    path.write_bytes(written(entries, finished=False))
    assert [each.entry.kind for each in read_recording(path).reloads] == ["applied", "reverted"]


@pytest.mark.parametrize("has_event", [False, True])
def test_messages_of_code_that_failed_are_left_out_unless_a_handler_may_have_sent_them(
    has_event: bool, tmp_path: Path
) -> None:
    path = tmp_path / "a.mcap"
    event: list[Entry] = [EventEntry(2, "turn", "{}")] if has_event else []
    entries: list[Entry] = [
        MessageEntry(1, "nudged", {}),
        ReloadEntry(2, "loaded", False, ""),
        *event,
        MessageEntry(2, "nudged", {}),
        ReloadEntry(2, "reverted", False, ""),
    ]
    path.write_bytes(written(entries, finished=False))
    assert [message.step for message in read_recording(path).messages] == ([1, 2] if has_event else [1])


def test_a_recording_of_format_1_is_replayed() -> None:
    recording = Path(__file__).parent / "files" / "format_1.mcap"
    assert (result := replay(recording, Mixer, config_from="recording")).differences == []
    assert result.frames > 50


def test_a_recording_of_another_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    path.write_bytes(
        written(ENTRIES).replace(b"\x06\x00\x00\x00format\x01\x00\x00\x003", b"\x06\x00\x00\x00format\x01\x00\x00\x009")
    )
    with pytest.raises(UsageError, match="written by another version"):
        read_recording(path)
