from __future__ import annotations

import itertools
import threading
import wave
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from reactor_cli.recording import RecordingFolder, TimeLine, check_path, recording
from reactor_runtime.client import Frame, Sound, Track
from reactor_runtime.client.media import read_frame
from reactor_runtime.client.video import VideoStreams
from reactor_runtime.errors import UsageError
from reactor_runtime.media import jpeg
from reactor_runtime.wire.fragmented_mp4 import read_message
from tests.cli.command import python
from tests.timeouts import TIMEOUT_S
from tests.video import VideoStream, number_in, numbered

TRACKS = [Track("main", "video", "out"), Track("tone", "audio", "out", 1000)]


def frame(seq: int, pts_s: float, jpeg: bytes = b"x", *, track: str = "main") -> Frame:
    return Frame(track, seq, pts_s, 0, False, False, 0.0, jpeg)


def sound(pts_s: float, samples: int, level: int = 1, *, channels: int = 1, after_flush: bool = False) -> Sound:
    array = np.full((channels, samples), level, np.int16)
    return Sound("tone", 0, pts_s, 0, after_flush, 0.0, 1000, array, b"")


def record(folder: Path, *pieces: Sound) -> NDArray[np.int16]:
    """Record pieces of sound, and return the file as an array of (samples, channels)."""
    recorder = recording(folder, TRACKS)
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


def test_a_folder_contains_each_frame_unchanged_and_the_sound_without_gaps(tmp_path: Path) -> None:
    folder = recording(tmp_path / "a" / "b", TRACKS)
    assert isinstance(folder, RecordingFolder)
    for number in range(3):
        folder.write_frame(frame(5 + number, 10 + number / 30, b"\xff\xd8%d" % number))
    folder.write_sound(sound(10.0, 100))
    folder.write_sound(sound(10.101, 100, 2))
    folder.write_sound(sound(10.5, 100, 3))
    assert folder.close()
    assert [file.name for file in sorted((tmp_path / "a" / "b").glob("*.jpg"))] == [
        f"main-00000{n}.jpg" for n in (1, 2, 3)
    ]
    assert (tmp_path / "a" / "b" / "main-000002.jpg").read_bytes() == b"\xff\xd81"
    with wave.open(str(tmp_path / "a" / "b" / "tone.wav")) as file:
        assert (file.getframerate(), file.getnframes()) == (1000, 600)
        samples = np.frombuffer(file.readframes(600), "<i2")
    assert samples[[0, 150, 300, 499, 500, 599]].tolist() == [1, 2, 0, 0, 3, 3]


def test_consecutive_sessions_share_one_time_line() -> None:
    line = TimeLine()
    assert [line.to_recording_s(pts) for pts in (7.0, 8.0, 7.9, 12.0)] == pytest.approx([0.0, 1.0, 0.9, 5.0])
    assert [line.to_recording_s(pts) for pts in (0.0, 1.0)] == pytest.approx([5.0, 6.0])


def gray(level: int) -> bytes:
    return jpeg.encode(np.full((32, 48, 3), level, np.uint8))


def times_and_levels(file: Path) -> list[tuple[float, int]]:
    """Return the frames of a video as pairs of time and level."""
    with av.open(str(file)) as video:
        return [
            (round(float(each.time or 0), 3), round(each.to_ndarray(format="rgb24").mean()))
            for each in video.decode(video=0)
        ]


def test_a_clip_keeps_the_times_of_its_frames(tmp_path: Path) -> None:
    clip = recording(tmp_path / "out.mkv", TRACKS)
    for number, pts_s in enumerate((3.0, 3.1, 3.101, 3.2)):
        clip.write_frame(frame(number, pts_s, gray(40 * number)))
    assert clip.close()
    assert times_and_levels(tmp_path / "out.mkv") == [(0, 0), (0.1, 40), (0.101, 80), (0.2, 120)]
    assert [file.name for file in tmp_path.iterdir()] == ["out.mkv"]


class Received:
    """Frames as a session yields them: messages of a video stream and JPEGs."""

    def __init__(self, height: int = 96, width: int = 256, *, decoder: VideoStreams | None = None) -> None:
        self._stream = VideoStream(height, width)
        self.decoder = decoder or VideoStreams()

    def piece(self, seq: int, *, key: bool = False) -> Frame:
        message = self._stream.message(seq, key=key)
        decoded = self.decoder.decode(message)
        return read_frame(
            decoded.header, message, decoded.decode, delay_s=0, number=decoded.number, earlier=decoded.earlier
        )

    def jpeg(self, seq: int) -> Frame:
        return frame(seq, seq / 25, jpeg.encode(numbered(seq)), track="main_video")


def shown(file: Path) -> list[tuple[int, int, int]]:
    """Return which frame a video shows from when, and the number in its pixels."""
    with av.open(str(file)) as video:
        (stream,) = video.streams.video
        assert (stream.width, stream.height) == (256, 96)
        return [
            (seq, round(25 * float(each.time or 0)), number_in(each.to_ndarray(format="rgb24")))
            for seq, each in enumerate(video.decode(stream))
        ]


VIDEO = [Track("main_video", "video", "out"), Track("tone", "audio", "out", 1000)]


@pytest.mark.parametrize("name", ["out.mp4", "out.mkv"])
@pytest.mark.parametrize("kinds", ["ppppp" * 4, "jjjjj" + "ppppp" * 3, "pppjj" * 4], ids=["video", "then", "mixed"])
def test_a_clip_has_all_frames_of_a_session_with_video(tmp_path: Path, name: str, kinds: str) -> None:
    received = Received()
    clip = recording(tmp_path / name, VIDEO)
    for seq, kind in enumerate(kinds):
        is_key = kinds[seq - 1 : seq] == "j"
        came = received.piece(seq, key=is_key) if kind == "p" else received.jpeg(seq)
        assert not clip.write_frame(came)
    assert clip.close()
    assert shown(tmp_path / name) == [(seq, seq, seq) for seq in range(20)]


def test_video_is_copied_into_a_clip_unchanged_with_sound(tmp_path: Path) -> None:
    received = Received()
    clip = recording(tmp_path / "out.mp4", VIDEO)
    frames = [received.piece(seq) for seq in range(10)]
    for each in frames:
        clip.write_frame(each)
    clip.write_sound(sound(0.2, 100, 1000))
    clip.close()
    with av.open(str(tmp_path / "out.mp4")) as file:
        packets = [bytes(packet) for packet in file.demux(video=0) if packet.size]
        assert file.streams.video[0].codec_context.extradata is not None
    samples = [read_message(each.data).sample for each in frames]
    # The first has its parameter sets before it.
    assert packets[0].endswith(samples[0])
    assert packets[1:] == samples[1:]
    with av.open(str(tmp_path / "out.mp4")) as file:
        assert sum(each.samples for each in file.decode(audio=0)) > 0


def test_frames_that_a_late_reader_skipped_are_in_the_clip(tmp_path: Path) -> None:
    received = Received()
    clip = recording(tmp_path / "out.mp4", VIDEO)
    frames = [received.piece(seq) for seq in range(12)]
    for seq in (0, 1, 5, 11):
        assert not clip.write_frame(frames[seq])
    clip.close()
    assert shown(tmp_path / "out.mp4") == [(seq, seq, seq) for seq in range(12)]


def test_a_key_that_was_not_shown_because_its_frame_came_as_a_jpeg_is_in_the_clip(tmp_path: Path) -> None:
    received = Received()
    clip = recording(tmp_path / "out.mp4", VIDEO)
    for seq in range(3):
        clip.write_frame(received.jpeg(seq))
    received.piece(2)
    for seq in range(3, 6):
        assert not clip.write_frame(received.piece(seq))
    clip.close()
    assert [number for *_, number in shown(tmp_path / "out.mp4")] == [0, 1, 2, 2, 3, 4, 5]


def test_after_a_missed_message_frames_are_encoded_and_a_key_is_requested_once(tmp_path: Path) -> None:
    received = Received()
    clip = recording(tmp_path / "out.mp4", VIDEO)
    frames = [received.piece(seq, key=seq == 16) for seq in range(20)]
    del frames[3:13]
    assert [clip.write_frame(each) for each in frames] == [False] * 3 + [True] + [False] * 6
    clip.close()
    assert [number for *_, number in shown(tmp_path / "out.mp4")] == [0, 1, 2, *range(13, 20)]


def test_video_of_another_size_is_scaled_to_that_of_the_clip(tmp_path: Path) -> None:
    clip = recording(tmp_path / "out.mp4", VIDEO)
    received = Received()
    other = Received(192, 512, decoder=received.decoder)
    for seq in range(3):
        clip.write_frame(received.piece(seq))
    for seq in range(3, 6):
        clip.write_frame(other.piece(seq))
    clip.close()
    assert len(shown(tmp_path / "out.mp4")) == 6


def test_a_folder_has_a_jpeg_of_each_frame_of_video(tmp_path: Path) -> None:
    received = Received()
    folder = recording(tmp_path / "out", VIDEO)
    for seq in range(2):
        assert not folder.write_frame(received.piece(seq))
    assert folder.close()
    saved = (tmp_path / "out" / "main_video-000002.jpg").read_bytes()
    assert number_in(jpeg.decode(saved)) == 1


def test_a_frame_of_the_time_of_the_one_before_follows_it(tmp_path: Path) -> None:
    clip = recording(tmp_path / "out.mkv", TRACKS)
    for number, pts_s in enumerate((3.0, 3.0, 2.9, 3.2)):
        clip.write_frame(frame(number, pts_s, gray(40 * number)))
    assert clip.close()
    assert [level for _, level in times_and_levels(tmp_path / "out.mkv")] == [0, 40, 80, 120]


def test_a_clip_has_sound_in_time_with_its_frames(tmp_path: Path) -> None:
    clip = recording(tmp_path / "out.mkv", TRACKS)
    clip.write_frame(frame(0, 5.0, gray(9)))
    clip.write_sound(sound(5.5, 100, 1000))
    assert clip.close()
    with av.open(str(tmp_path / "out.mkv")) as file:
        samples = np.concatenate([each.to_ndarray() for each in file.decode(audio=0)], axis=1)[0]
    rate = len(samples) / 0.6
    assert np.flatnonzero(samples)[0] / rate == pytest.approx(0.5, abs=0.02)


def test_frames_and_sound_of_two_threads_are_written(tmp_path: Path) -> None:
    clip = recording(tmp_path / "out.mp4", TRACKS)
    with ThreadPoolExecutor(2) as threads:
        threads.map(clip.write_frame, [frame(n, n / 50, gray(n)) for n in range(50)])
        threads.map(clip.write_sound, [sound(n / 50, 20) for n in range(50)])
    assert clip.close()
    assert len(times_and_levels(tmp_path / "out.mp4")) == 50


def test_a_second_video_track_has_a_clip_of_its_own(tmp_path: Path) -> None:
    clip = recording(tmp_path / "out.mp4", [*TRACKS, Track("depth", "video", "out")])
    clip.write_frame(frame(0, 0.0, gray(9)))
    clip.write_frame(Frame("depth", 0, 0.0, 0, False, False, 0.0, gray(99)))
    assert clip.close()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["out-depth.mp4", "out.mp4"]


def test_what_comes_after_the_end_is_dropped(tmp_path: Path) -> None:
    clip = recording(tmp_path / "out.mkv", TRACKS)
    clip.write_frame(frame(0, 0.0, gray(9)))
    assert clip.close()
    clip.write_frame(frame(1, 1.0, gray(99)))
    clip.write_sound(sound(1.0, 100))
    assert times_and_levels(tmp_path / "out.mkv") == [(0, 9)]


def test_an_empty_clip_leaves_no_file(tmp_path: Path) -> None:
    assert not recording(tmp_path / "out.mp4", TRACKS).close()
    assert not (tmp_path / "out.mp4").exists()


def test_a_clip_needs_the_extra_and_a_folder_does_not(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; sys.modules['av'] = None; "
        "from reactor_cli.recording import check_path; check_path(Path('folder')); check_path(Path('out.mp4'))"
    )
    outcome = python("-c", program, cwd=tmp_path)
    assert "out.mp4 needs PyAV, which is not installed" in outcome.err
    assert "pip install 'reactor-live[video]'" in outcome.err
    assert (tmp_path / "folder").is_dir()


def test_an_empty_folder_is_reported(tmp_path: Path) -> None:
    assert not recording(tmp_path / "out", TRACKS).close()


def test_names_of_other_media_files_are_refused(tmp_path: Path) -> None:
    for name in ("out.webm", "out.AVI", "out.jpg"):
        with pytest.raises(UsageError, match="files can't be written"):
            check_path(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="can't be written"):
        check_path(tmp_path / "file")


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
