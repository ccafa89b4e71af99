from __future__ import annotations

import itertools
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

from reactor_runtime.clips.clip import ClipTrack
from reactor_runtime.clips.opening import open_clip
from reactor_runtime.clips.reading import read_frames, read_sound
from reactor_runtime.errors import UsageError
from reactor_runtime.media import wav


def video(path: Path, *, frames: int, fps: float = 10.0, first: int = 0) -> Path:
    """Write a lossless video whose frame n is red to the level `first` + n."""
    clip = open_clip(path, [ClipTrack("camera")])
    for idx in range(frames):
        clip.write_frame("camera", idx / fps, np.full((2, 4, 3), (first + idx, 0, 0), np.uint8))
    clip.close(frames / fps)
    return path


def test_a_video_has_its_frames_at_their_times_and_begins_again(tmp_path: Path) -> None:
    found = list(itertools.islice(read_frames(video(tmp_path / "a.mkv", frames=3)), 5))
    assert [int(frame[0, 0, 0]) for _, frame in found] == [0, 1, 2, 0, 1]
    assert all(frame.shape == (2, 4, 3) for _, frame in found)
    times = [at_s for at_s, _ in found]
    assert times == pytest.approx([0.0, 0.1, 0.2, 0.2 + 1 / 30, 0.3 + 1 / 30], abs=0.001)


def test_a_name_that_is_like_an_address_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Image.new("RGB", (6, 4)).save("a:b.png")
    (tmp_path / "c:d.wav").write_bytes(wav.header(1, 100, 10) + bytes(20))
    assert next(read_frames(Path("a:b.png")))[1].shape == (4, 6, 3)
    assert read_sound(Path("c:d.wav"), 100).any() == 0


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.webp"])
def test_an_image_is_repeated_30_times_a_second(name: str, tmp_path: Path) -> None:
    Image.new("RGB", (6, 4), (200, 0, 0)).save(tmp_path / name)
    found = list(itertools.islice(read_frames(tmp_path / name), 3))
    assert [at_s for at_s, _ in found] == pytest.approx([0.0, 1 / 30, 2 / 30])
    assert all(frame.shape == (4, 6, 3) for _, frame in found)
    assert abs(int(found[0][1][0, 0, 0]) - 200) < 8
    assert found[0][1] is found[2][1]


def test_a_gray_image_with_transparency_becomes_rgb(tmp_path: Path) -> None:
    Image.new("LA", (6, 4), (200, 128)).save(tmp_path / "a.png")
    _, frame = next(read_frames(tmp_path / "a.png"))
    assert frame.shape == (4, 6, 3)


@pytest.mark.parametrize("channels", [1, 2])
def test_sound_keeps_samples_and_channels(channels: int, tmp_path: Path) -> None:
    samples = np.random.default_rng(1).integers(-9000, 9000, (channels, 4800), np.int16)
    (tmp_path / "a.wav").write_bytes(wav.encode(samples, 48_000))
    assert (read_sound(tmp_path / "a.wav", 48_000) == samples).all()


def test_sound_is_converted_to_the_rate_of_the_track(tmp_path: Path) -> None:
    times = np.arange(24_000) / 24_000
    tone = (8000 * np.sin(2 * np.pi * 440 * times)).astype(np.int16)[np.newaxis]
    (tmp_path / "a.wav").write_bytes(wav.encode(tone, 24_000))
    found = read_sound(tmp_path / "a.wav", 48_000)
    assert found.shape == (1, pytest.approx(48_000, abs=100))
    assert np.argmax(np.abs(np.fft.rfft(found[0, :48_000]))) == pytest.approx(440, abs=2)


def test_surround_sound_becomes_stereo(tmp_path: Path) -> None:
    with av.open(str(tmp_path / "a.mka"), "w") as file:
        stream = file.add_stream("pcm_s16le", rate=48_000, layout="5.1")
        sound = av.AudioFrame.from_ndarray(np.ones((1, 6 * 4800), np.int16), format="s16", layout="5.1")
        sound.sample_rate, sound.pts, sound.time_base = 48_000, 0, Fraction(1, 48_000)
        file.mux(stream.encode(sound))
    assert read_sound(tmp_path / "a.mka", 48_000).shape == (2, 4800)


@pytest.mark.parametrize("name", ["none.mp4", "text.mp4", "empty.mp4"])
def test_a_file_that_cannot_be_decoded_is_an_error_with_its_name(name: str, tmp_path: Path) -> None:
    (tmp_path / "text.mp4").write_text("not a video " * 100)
    (tmp_path / "empty.mp4").touch()
    with pytest.raises(UsageError, match=f"{name} can't be read"):
        next(read_frames(tmp_path / name))
    with pytest.raises(UsageError, match=f"{name} can't be read"):
        read_sound(tmp_path / name, 48_000)


def test_video_without_sound_and_sound_without_video_are_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"a\.mkv has no sound"):
        read_sound(video(tmp_path / "a.mkv", frames=2), 48_000)
    (tmp_path / "a.wav").write_bytes(wav.encode(np.ones((1, 480), np.int16), 48_000))
    with pytest.raises(UsageError, match=r"a\.wav has no frames \(name a video or an image"):
        next(read_frames(tmp_path / "a.wav"))
