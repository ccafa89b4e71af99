from __future__ import annotations

import signal
from pathlib import Path

import av
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageSequence

from reactor_runtime.clips import opening
from reactor_runtime.clips.clip import ClipTrack
from reactor_runtime.clips.movie import FORMATS
from reactor_runtime.clips.opening import open_clip
from reactor_runtime.errors import ReactorError, UsageError
from reactor_runtime.media import wav
from tests.cli.command import python
from tests.clips.reading import codecs_of, duration_s, frames_of, sound_of

FPS, RATE = 10, 48_000
VIDEO, SOUND = ClipTrack("main_video"), ClipTrack("main_audio", RATE)
MOVIES = [f"clip{suffix}" for suffix in opening.MOVIES]
FILES = [*MOVIES, *(f"clip{suffix}" for suffix in opening.ANIMATED_IMAGES)]


def gradients(red: int, *, height: int = 48, width: int = 64) -> NDArray[np.uint8]:
    """Return a frame with gradients, which tells apart rows, columns, channels and values of `red`."""
    image = np.empty((height, width, 3), np.uint8)
    image[..., 0] = red
    image[..., 1] = np.linspace(0, 255, width, dtype=np.uint8)
    image[..., 2] = np.linspace(0, 255, height, dtype=np.uint8)[:, None]
    return image


def tone(count: int, hertz: float = 440.0) -> NDArray[np.int16]:
    return (8000 * np.sin(2 * np.pi * hertz * np.arange(count) / RATE)).astype(np.int16)[np.newaxis]


def write(path: Path, frames: list[NDArray[np.uint8]], *, sound: NDArray[np.int16] | None = None) -> list[Path]:
    """Write frames at 10 fps, and sound in pieces as long as a frame."""
    clip = open_clip(path, [VIDEO, SOUND] if sound is not None else [VIDEO])
    for idx, frame in enumerate(frames):
        clip.write_frame("main_video", idx / FPS, frame)
        if sound is not None:
            clip.write_sound("main_audio", idx / FPS, sound[:, idx * RATE // FPS : (idx + 1) * RATE // FPS])
    return clip.close(len(frames) / FPS)


def test_each_movie_has_a_format() -> None:
    assert tuple(FORMATS) == opening.MOVIES


REDS = list(range(0, 200, 10))


@pytest.mark.parametrize("name", ["http:a.mp4", "a:b.gif", "50%d.webp", "a:b"])
def test_a_name_that_is_like_an_address_or_a_pattern_is_a_file(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert write(Path(name), [gradients(0)]) == [Path(name)]
    assert [each.name for each in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", FILES)
def test_every_frame_is_in_the_file_at_its_time(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    assert write(path, [gradients(red) for red in REDS]) == [path]
    if name.endswith(".webp"):
        # PyAV reads no animated WebP.
        with Image.open(path) as image:
            assert image.info["loop"] == 0
            shown = [np.array(each.convert("RGB")) for each in ImageSequence.Iterator(image)]
    else:
        found = frames_of(path)
        assert [frame.at_s for frame in found] == pytest.approx([idx / FPS for idx in range(len(REDS))], abs=0.001)
        assert duration_s(path) == pytest.approx(len(REDS) / FPS, abs=0.001 if name == "clip.mp4" else 0.11)
        shown = [frame.array for frame in found]
    assert len(shown) == len(REDS)
    for red, array in zip(REDS, shown, strict=True):
        assert np.abs(array.astype(int) - gradients(red)).mean() < 5


@pytest.mark.parametrize("name", [*MOVIES, "clip.gif"])
def test_an_array_may_be_used_again_for_the_next_frame(name: str, tmp_path: Path) -> None:
    clip = open_clip(tmp_path / name, [VIDEO])
    array = gradients(0)
    for idx, red in enumerate((50, 100, 150)):
        array[..., 0] = red
        clip.write_frame("main_video", idx / FPS, array)
    array[:] = 0
    clip.close(0.3)
    shown = [frame.array[..., 0].mean() for frame in frames_of(tmp_path / name)]
    assert shown == pytest.approx([50, 100, 150], abs=5)


def test_a_mkv_and_a_folder_have_the_exact_pixels(tmp_path: Path) -> None:
    noise = list(np.random.default_rng(1).integers(0, 256, (3, 47, 63, 3), np.uint8))
    write(tmp_path / "clip.mkv", noise)
    assert write(tmp_path / "frames", noise) == [tmp_path / "frames"]
    for idx, (shown, frame) in enumerate(zip(frames_of(tmp_path / "clip.mkv"), noise, strict=True), start=1):
        assert (shown.array[:47, :63] == frame).all()
        with Image.open(tmp_path / "frames" / f"main_video-{idx:06}.png") as image:
            assert image.mode == "RGB"
            assert (np.array(image) == frame).all()


def test_an_mp4_is_h264_and_aac_as_browsers_play_it(tmp_path: Path) -> None:
    write(tmp_path / "clip.mp4", [gradients(1)] * 3, sound=tone(RATE))
    assert codecs_of(tmp_path / "clip.mp4") == ["h264", "aac"]
    with av.open(str(tmp_path / "clip.mp4")) as file:
        assert file.streams.video[0].codec_context.pix_fmt == "yuv420p"
    # The parts of a finished file, not the fragments of an interrupted one.
    assert b"moof" not in parts_of(tmp_path / "clip.mp4")


def parts_of(path: Path) -> list[bytes]:
    """Return the names of the boxes of an MP4 file."""
    content, at, names = path.read_bytes(), 0, []
    while at < len(content):
        size = int.from_bytes(content[at : at + 4], "big")
        names.append(content[at + 4 : at + 8])
        at += size if size != 1 else int.from_bytes(content[at + 8 : at + 16], "big")
    return names


@pytest.mark.parametrize("name", [*MOVIES, "frames"])
def test_sound_is_that_of_the_model_at_its_time(name: str, tmp_path: Path) -> None:
    sound = tone(RATE)
    write(tmp_path / name, [gradients(1)] * FPS, sound=sound)
    if name == "frames":
        found = wav.decode((tmp_path / name / "main_audio.wav").read_bytes())
    else:
        found = sound_of(tmp_path / name)
    assert found.shape[1] == pytest.approx(RATE, abs=1024 if name == "clip.mp4" else 0)
    # AAC needs a moment at the start and loses some precision; shifted by a thousandth of a second, the difference
    # would be more than 1000.
    skipped, most = (2048, 150) if name == "clip.mp4" else (0, 0)
    assert np.abs(found[:, skipped:RATE].astype(int) - sound[:, skipped:]).mean() <= most


def test_irregular_times_are_kept(tmp_path: Path) -> None:
    times = [0.0, 0.11, 0.5, 0.533]
    clip = open_clip(tmp_path / "clip.mp4", [VIDEO])
    for time in times:
        clip.write_frame("main_video", time, gradients(9))
    clip.close(3.0)
    assert [frame.at_s for frame in frames_of(tmp_path / "clip.mp4")] == pytest.approx(times, abs=0.0001)
    assert duration_s(tmp_path / "clip.mp4") == pytest.approx(3.0, abs=0.001)


def test_the_first_frame_is_shown_from_the_start_with_the_sound_before_it(tmp_path: Path) -> None:
    clip = open_clip(tmp_path / "clip.mkv", [VIDEO, SOUND])
    clip.write_sound("main_audio", 0.0, tone(RATE // 2))
    clip.write_frame("main_video", 0.5, gradients(9))
    clip.write_frame("main_video", 0.6, gradients(10))
    clip.close(1.0)
    assert [frame.at_s for frame in frames_of(tmp_path / "clip.mkv")] == [0.0, 0.6]
    found = sound_of(tmp_path / "clip.mkv")
    assert (found[:, : RATE // 2] == tone(RATE // 2)).all()
    assert not found[:, RATE // 2 :].any()


def test_sound_alone_is_a_movie_without_video(tmp_path: Path) -> None:
    for tracks in ([SOUND], [VIDEO, SOUND]):
        path = tmp_path / f"{len(tracks)}.mp4"
        clip = open_clip(path, tracks)
        clip.write_sound("main_audio", 0.0, tone(RATE))
        assert clip.close(1.0) == [path]
        assert codecs_of(path) == ["aac"]


def test_each_audio_track_is_a_track_of_the_file(tmp_path: Path) -> None:
    clip = open_clip(tmp_path / "clip.mkv", [VIDEO, SOUND, ClipTrack("voice", 16_000)])
    clip.write_frame("main_video", 0.0, gradients(1))
    clip.write_sound("voice", 0.0, np.full((1, 16_000), 7, np.int16))
    clip.close(1.0)
    assert sound_of(tmp_path / "clip.mkv", 1).shape[1] == 16_000
    assert (sound_of(tmp_path / "clip.mkv", 1) == 7).all()
    assert not sound_of(tmp_path / "clip.mkv", 0).any()


@pytest.mark.parametrize("rate", [7_000, 44_100, 50_000, 192_000])
def test_an_mp4_takes_any_sample_rate(rate: int, tmp_path: Path) -> None:
    clip = open_clip(tmp_path / "clip.mp4", [ClipTrack("voice", rate)])
    clip.write_sound("voice", 0.0, np.ones((1, rate), np.int16))
    clip.close(1.0)
    assert duration_s(tmp_path / "clip.mp4") == pytest.approx(1.0, abs=0.05)


def test_a_second_video_track_has_a_file_of_its_own(tmp_path: Path) -> None:
    clip = open_clip(tmp_path / "clip.mkv", [VIDEO, ClipTrack("depth"), SOUND])
    clip.write_frame("main_video", 0.0, gradients(1))
    clip.write_frame("depth", 0.0, gradients(2))
    clip.write_sound("main_audio", 0.0, tone(RATE))
    assert clip.close(1.0) == [tmp_path / "clip.mkv", tmp_path / "clip-depth.mkv"]
    for name, red in (("clip.mkv", 1), ("clip-depth.mkv", 2)):
        (frame,) = frames_of(tmp_path / name)
        assert (frame.array == gradients(red)).all()
        assert (sound_of(tmp_path / name) == tone(RATE)).all()


@pytest.mark.parametrize("name", FILES)
def test_frames_of_another_size_are_scaled_to_the_first(name: str, tmp_path: Path) -> None:
    write(tmp_path / name, [gradients(100, height=31, width=41), gradients(100), gradients(100, height=20, width=20)])
    if name.endswith(".webp"):
        with Image.open(tmp_path / name) as image:
            assert image.size == (41, 31)
        return
    shapes = {frame.array.shape for frame in frames_of(tmp_path / name)}
    assert shapes == {(31, 41, 3) if name.endswith(".gif") else (32, 42, 3)}


def test_an_odd_side_gets_the_last_row_and_column_again(tmp_path: Path) -> None:
    write(tmp_path / "clip.mkv", [gradients(100, height=31, width=41)])
    (frame,) = frames_of(tmp_path / "clip.mkv")
    assert (frame.array[31] == frame.array[30]).all()
    assert (frame.array[:, 41] == frame.array[:, 40]).all()


def test_a_gif_skips_frames_that_browsers_would_show_slowly(tmp_path: Path) -> None:
    clip = open_clip(tmp_path / "clip.gif", [VIDEO])
    for idx in range(12):
        clip.write_frame("main_video", idx / 120, gradients(idx))
    clip.close(0.1)
    times = [frame.at_s for frame in frames_of(tmp_path / "clip.gif")]
    assert len(times) == 5
    assert np.diff(times).min() >= 0.0199


@pytest.mark.parametrize("name", [*FILES, "frames"])
def test_without_frames_there_is_no_file(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text("an earlier clip") if "." in name else path.mkdir()
    clip = open_clip(path, [VIDEO, SOUND])
    assert clip.close(1.0) == []
    assert path.is_dir() or path.read_text() == "an earlier clip"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("clip.avi", r".avi files can't be written \(use .mp4, .mkv, .gif, .webp; other names are folders"),
        ("full", "full is not empty"),
        ("file", "file is a file"),
        ("folder.mp4", "folder.mp4 is a directory"),
        ("file/clip.mp4", "file can't be made"),
        ("gone.mp4", "gone.mp4 can't be written: No such file or directory"),
    ],
)
def test_a_path_that_cannot_be_written_is_refused_before_the_first_frame(
    name: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a.png").touch()
    (tmp_path / "file").touch()
    (tmp_path / "folder.mp4").mkdir()
    (tmp_path / "gone.mp4").symlink_to("no-such/clip.mp4")
    with pytest.raises(UsageError, match=message):
        open_clip(tmp_path / name, [VIDEO])


@pytest.mark.parametrize("name", ["clip.mkv", "clip-depth.mkv"])
def test_a_clip_does_not_replace_a_file_that_is_read_for_it(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("a camera")
    (tmp_path / "link.mkv").symlink_to(tmp_path / name)
    with pytest.raises(UsageError, match=f"{name} would replace an input"):
        open_clip(tmp_path / "clip.mkv", [VIDEO, ClipTrack("depth")], inputs=[tmp_path / "link.mkv"])


def test_a_link_to_a_new_file_stays_until_the_first_frame(tmp_path: Path) -> None:
    path = tmp_path / "link.mkv"
    path.symlink_to(tmp_path / "clip.mkv")
    open_clip(path, [VIDEO]).close(1.0)
    assert path.is_symlink()
    assert not path.exists()


def test_a_model_without_video_makes_no_image(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there are no frames, only sound \(use .mp4, .mkv or a folder"):
        open_clip(tmp_path / "clip.gif", [SOUND])


@pytest.mark.parametrize("name", [*FILES, "frames"])
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_an_error_with_the_path(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if name == "frames":
        path.mkdir()
        clip = open_clip(path, [VIDEO])
        (path / "main_video-000001.png").symlink_to("/dev/full")
    else:
        path.symlink_to("/dev/full")
        clip = open_clip(path, [VIDEO])

    def fill() -> None:
        for idx in range(100):
            clip.write_frame(
                "main_video", idx / FPS, np.random.default_rng(idx).integers(0, 256, (64, 64, 3), np.uint8)
            )
        clip.close(10.0)

    with pytest.raises(ReactorError, match=rf"{name}.* can't be written: No space left on device"):
        fill()


KILLED = """\
import os, signal, sys
from pathlib import Path
from reactor_runtime.clips.opening import open_clip
from tests.clips.test_opening import *

clip = open_clip(Path(sys.argv[1]), [VIDEO, SOUND])
for idx in range(100):
    clip.write_frame("main_video", idx / FPS, gradients(idx))
    clip.write_sound("main_audio", idx / FPS, tone(RATE // FPS))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.process
@pytest.mark.parametrize("name", MOVIES)
def test_a_movie_plays_after_its_process_was_killed(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    assert python("-c", KILLED, str(path), cwd=tmp_path).code == -signal.SIGKILL
    assert frames_of(path)[-1].at_s > 4.0
    assert sound_of(path).shape[1] > 4 * RATE


@pytest.mark.process
def test_without_pyav_the_error_names_the_extra(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['av'] = None\n"
        "from pathlib import Path; from reactor_runtime.clips.opening import *\n"
        "open_clip(Path('clip.mp4'), [ClipTrack('main_video')])"
    )
    outcome = python("-c", program, cwd=tmp_path)
    assert "clip.mp4 needs PyAV, which is not installed" in outcome.err
    assert "pip install 'reactor-live[video]'" in outcome.err
