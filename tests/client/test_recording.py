from __future__ import annotations

import itertools
import json
import os
import sys
import threading
import wave
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from reactor_runtime.client.media import Frame, Sound
from reactor_runtime.client.recording import VIDEO_FPS, RecordingFolder, TimeLine, VideoFile, recording
from reactor_runtime.errors import ReactorError, UsageError
from tests.timeouts import TIMEOUT_S

# Appends its arguments and its input to a file of notes.
FFMPEG = f"""#!{sys.executable}
import json, os, pathlib, sys
read = sys.stdin.buffer.read() if "pipe:0" in sys.argv else b""
with open(os.environ["NOTES"], "a") as notes:
    notes.write(json.dumps([sys.argv[1:], read.decode("latin-1")]) + "\\n")
if os.environ.get("FAIL"):
    sys.exit("Unknown encoder")
pathlib.Path(sys.argv[-1]).write_bytes(b"video")
"""


def frame(seq: int, pts_s: float, jpeg: bytes = b"x") -> Frame:
    return Frame("main", seq, pts_s, 0, False, False, 0.0, jpeg)


def sound(pts_s: float, samples: int, level: int = 1, *, channels: int = 1, after_flush: bool = False) -> Sound:
    array = np.full((channels, samples), level, np.int16)
    return Sound("tone", 0, pts_s, 0, after_flush, 0.0, 1000, array, b"")


def record(folder: Path, *pieces: Sound) -> NDArray[np.int16]:
    """Record pieces of sound, and return the file as an array of (samples, channels)."""
    recorder = recording(folder)
    for piece in pieces:
        recorder.write_sound(piece)
    recorder.close()
    with wave.open(str(folder / "tone.wav")) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
        return samples.reshape(-1, file.getnchannels())


def runs(samples: NDArray[np.int16]) -> list[tuple[int, int]]:
    """Return a channel as pairs of level and length."""
    edges = [0, *(np.flatnonzero(np.diff(samples)) + 1), len(samples)]
    return [(int(samples[begin]), int(end - begin)) for begin, end in itertools.pairwise(edges)]


@pytest.mark.parametrize(
    ("pieces", "heard"),
    [
        pytest.param([sound(0, 100), sound(0.3, 100, 2)], [(1, 100), (0, 200), (2, 100)], id="gap"),
        pytest.param([sound(0, 100), sound(0.104, 100, 2)], [(1, 100), (2, 100)], id="rounding up"),
        pytest.param([sound(0, 100), sound(0.096, 100, 2)], [(1, 100), (2, 100)], id="rounding down"),
        pytest.param([sound(0, 100), sound(0.05, 100, 2)], [(1, 50), (2, 100)], id="overlap"),
        pytest.param([sound(0, 400), sound(0.1, 100, 2)], [(1, 100), (2, 100)], id="shorter than what it replaces"),
        pytest.param(
            [sound(0, 100), sound(0.1, 100), sound(0.105, 100, 2, after_flush=True)], [(1, 105), (2, 100)], id="flush"
        ),
        pytest.param(
            [sound(0, 400), sound(0.1, 100, 2, after_flush=True), sound(0.3, 100, 3)],
            [(1, 100), (2, 100), (0, 100), (3, 100)],
            id="gap after a flush",
        ),
    ],
)
def test_sound_is_written_at_its_presentation_times(
    tmp_path: Path, pieces: list[Sound], heard: list[tuple[int, int]]
) -> None:
    assert runs(record(tmp_path, *pieces)[:, 0]) == heard


def test_a_mono_piece_in_a_stereo_file_is_in_both_channels(tmp_path: Path) -> None:
    samples = record(tmp_path, sound(0, 100, channels=2), sound(0.1, 50, 2), sound(0.15, 50, 3, channels=2))
    assert [runs(side) for side in samples.T] == 2 * [[(1, 100), (2, 50), (3, 50)]]


def test_a_mono_file_becomes_stereo_with_the_first_stereo_piece(tmp_path: Path) -> None:
    # More samples than are converted at once.
    pieces = [sound(number * 40, 40_000, number + 1) for number in range(4)]
    stereo = Sound("tone", 0, 160.0, 0, False, 0.0, 1000, np.array([[5] * 10, [6] * 10], np.int16), b"")
    samples = record(tmp_path, *pieces, stereo)
    mono = [(number + 1, 40_000) for number in range(4)]
    assert [runs(side) for side in samples.T] == [[*mono, (side, 10)] for side in (5, 6)]


def test_mono_sound_stays_mono(tmp_path: Path) -> None:
    assert record(tmp_path, sound(0, 100), sound(0.1, 100)).shape == (200, 1)


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put an ffmpeg on the PATH that notes its arguments and its input."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "ffmpeg").write_text(FFMPEG)
    (programs / "ffmpeg").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("NOTES", str(tmp_path / "notes"))
    return tmp_path / "notes"


def test_a_folder_contains_each_frame_unchanged_and_the_sound_without_gaps(tmp_path: Path) -> None:
    folder = recording(tmp_path / "a" / "b")
    assert isinstance(folder, RecordingFolder)
    for number in range(3):
        folder.write_frame(frame(5 + number, 10 + number / 30, b"%d" % number))
    folder.write_sound(sound(10.0, 100))
    folder.write_sound(sound(10.101, 100, 2))
    folder.write_sound(sound(10.5, 100, 3))
    assert folder.close()
    assert [file.name for file in sorted((tmp_path / "a" / "b").glob("*.jpg"))] == [
        f"main-00000{n}.jpg" for n in (1, 2, 3)
    ]
    assert (tmp_path / "a" / "b" / "main-000002.jpg").read_bytes() == b"1"
    with wave.open(str(tmp_path / "a" / "b" / "tone.wav")) as file:
        assert (file.getframerate(), file.getnframes()) == (1000, 600)
        samples = np.frombuffer(file.readframes(600), "<i2")
    assert samples[[0, 150, 300, 499, 500, 599]].tolist() == [1, 2, 0, 0, 3, 3]


def test_consecutive_sessions_share_one_time_line() -> None:
    line = TimeLine()
    assert [line.to_recording_s(pts) for pts in (7.0, 8.0, 7.9, 12.0)] == pytest.approx([0.0, 1.0, 0.9, 5.0])
    assert [line.to_recording_s(pts) for pts in (0.0, 1.0)] == pytest.approx([5.0, 6.0])


@pytest.mark.process
def test_a_video_keeps_the_times_of_its_frames(tmp_path: Path, notes: Path) -> None:
    video = recording(tmp_path / "out.mp4")
    assert isinstance(video, VideoFile)
    for number, pts_s in enumerate((3.0, 3.1, 3.101, 3.2)):
        video.write_frame(frame(number, pts_s, b"%d" % number))
    video.close()
    (call,) = [json.loads(line) for line in notes.read_text().splitlines()]
    arguments, frames = call
    assert f"-f mjpeg -framerate {VIDEO_FPS} -i pipe:0" in " ".join(arguments)
    # Frames 1 and 2 fall on the same frame of the file, so 2 follows one later.
    assert frames == "0" * 6 + "1" + "2" * 5 + "3"
    assert (tmp_path / "out.mp4").read_bytes() == b"video"
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == []


@pytest.mark.process
def test_sound_is_added_to_a_video_at_the_end(tmp_path: Path, notes: Path) -> None:
    video = recording(tmp_path / "out.mp4")
    video.write_frame(frame(0, 0.0))
    video.write_sound(sound(0.0, 100))
    video.close()
    _, (arguments, _) = [json.loads(line) for line in notes.read_text().splitlines()]
    assert arguments[-3:] == ["-c:v", "copy", str(tmp_path / "out.mp4")]
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == []


@pytest.mark.process
def test_an_error_of_ffmpeg_is_raised(tmp_path: Path, notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIL", "1")
    video = recording(tmp_path / "out.mp4")
    video.write_frame(frame(0, 0.0))
    with pytest.raises(ReactorError, match=r"ffmpeg could not write .*: Unknown encoder"):
        video.close()
    assert notes.exists()


def test_a_video_file_needs_ffmpeg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="needs ffmpeg"):
        recording(tmp_path / "out.mp4")


def test_an_empty_video_leaves_no_file(tmp_path: Path, notes: Path) -> None:
    assert not recording(tmp_path / "out.mp4").close()
    assert not (tmp_path / "out.mp4").exists()
    assert not notes.exists()


def test_an_empty_folder_is_reported(tmp_path: Path) -> None:
    assert not recording(tmp_path / "out").close()


def test_names_of_other_media_files_are_refused(tmp_path: Path) -> None:
    for name in ("out.gif", "out.AVI", "out.jpg"):
        with pytest.raises(UsageError, match=r"a video file is \.mp4"):
            recording(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="can't be written"):
        recording(tmp_path / "file")


def test_a_first_frame_and_a_first_sound_at_once_share_one_time_line() -> None:
    line = TimeLine()
    placed: list[float] = []
    sound = threading.Thread(target=lambda: placed.append(line.to_recording_s(5.5)))

    class First(float):
        """The time of a frame; while it is placed, a piece of sound arrives."""

        def __neg__(self) -> float:
            sound.start()
            sound.join(0.05)
            assert sound.is_alive(), "the sound waits until the frame is placed"
            return -float(self)

    assert line.to_recording_s(First(5.0)) == 0.0
    sound.join(TIMEOUT_S)
    assert placed == [0.5]
